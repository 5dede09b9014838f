//! What a peer that knows the keys may say: frames of any form, in a session with streams.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| satpep::fuzzing::session(input));

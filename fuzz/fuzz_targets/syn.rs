//! The head of a held SYN, as a client sent it: addresses and ports, or nothing.
#![no_main]

libfuzzer_sys::fuzz_target!(|packet: &[u8]| gateway::fuzzing::syn(packet));

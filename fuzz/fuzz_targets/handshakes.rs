//! A hub and two terminals in virtual time, and an attacker who knows their public keys, sees, holds back, drops, repeats,
//! alters and makes handshake datagrams.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| satpep::fuzzing::handshakes(input));

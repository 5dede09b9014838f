//! A link update that a modem or a program writes to the gateway's socket.
#![no_main]

libfuzzer_sys::fuzz_target!(|line: &[u8]| gateway::fuzzing::link_update(line));

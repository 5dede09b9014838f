//! A line that a modem or a script writes to the gateway's feed: what the link carries, or a fault in words.
#![no_main]

libfuzzer_sys::fuzz_target!(|line: &[u8]| gateway::fuzzing::feed(line));

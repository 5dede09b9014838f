//! A gateway's configuration file: settings, or faults in words.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // A key file would be read from this machine.
    if text.contains("_file") {
        return;
    }
    if let Err(error) = gateway::config::parse(text, "fuzz.toml") {
        assert!(!error.to_string().is_empty());
    }
});

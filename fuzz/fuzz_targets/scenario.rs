//! A scenario file: an experiment, or faults in words. What it names as a file is the text after the first NUL.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (text, file) = text.split_once('\0').unwrap_or((text, "1\n2\n"));
    let read = |_: &str| Ok(file.to_owned());
    match scenario::load(text, "fuzz.toml", &[], &read) {
        Ok(experiment) => assert!(!experiment.scenarios.is_empty()),
        Err(faults) => assert!(faults.0.iter().all(|fault| !fault.is_empty()) && !faults.0.is_empty()),
    }
});

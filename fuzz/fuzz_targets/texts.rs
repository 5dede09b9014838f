//! Short texts: quantities, keys, networks' traces. What is read and written again reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fmt::{Debug, Display};
use std::str::FromStr;
use units::{Bytes, Duration, Probability, Rate};

fn survives<T: FromStr<Err: Display> + Display + PartialEq + Debug>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => assert_eq!(value.to_string().parse::<T>().ok().as_ref(), Some(&value), "{text:?}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn reads<T: FromStr<Err: Display>>(text: &str) {
    if let Err(error) = text.parse::<T>() {
        assert!(!error.to_string().is_empty());
    }
}

fuzz_target!(|text: &str| {
    let mut characters = text.chars();
    let kind = characters.next().map_or(0, |kind| kind as u32 % 8);
    let text = characters.as_str();
    match kind {
        0 => reads::<Rate>(text),
        1 => reads::<Duration>(text),
        2 => reads::<Bytes>(text),
        3 => reads::<Probability>(text),
        4 => survives::<satpep::PublicKey>(text),
        5 => reads::<satpep::PrivateKey>(text),
        6 => drop(link::Opportunities::parse(text)),
        _ => {
            drop(link::Steps::<Rate>::parse(text));
            drop(emulator::ArrivalLog::parse(text));
        }
    }
});

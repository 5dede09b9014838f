//! Two gateways under any operations on any link, beside reference byte streams: the model of
//! `crates/satpep/tests/model_based.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/satpep/tests/model/mod.rs"]
mod model;

fuzz_target!(|input: &[u8]| {
    let Some((&[seed, rate, rtt, flags], rest)) = input.split_first_chunk() else { return };
    let operations = rest.chunks_exact(2).map(|pair| model::Operation::decode((pair[0], pair[1])));
    model::run(model::Setting { seed, rate, rtt, flags }, operations);
});

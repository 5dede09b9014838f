//! Two gateways of the `tcp` transport and someone between them: see the model.
#![no_main]

#[path = "../../crates/tcp-tunnel/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut model = model::Model::default();
    for pair in input.chunks_exact(2).take(64) {
        model.step(pair[0], pair[1]);
    }
});

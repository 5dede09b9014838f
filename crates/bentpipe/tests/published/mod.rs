//! The published schemas of JSON output.
#![allow(dead_code, reason = "each test program uses a part of it")]

use serde_json::Value;
use std::path::{Path, PathBuf};

/// The folder of the schemas.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

/// Fails unless `document` is what the schema `NAME.json` says.
pub fn assert_as_published(name: &str, document: &Value) {
    let file = folder().join(format!("{name}.json"));
    let schema: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<_> =
        validator.iter_errors(document).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{}: {faults:#?}", file.display());
}

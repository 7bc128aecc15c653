//! The protocol's own data, where it is at hand.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

/// The folder with the protocol's data; none, with a line that says so, where it is missing and not required.
pub(crate) fn openwop() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/openwop"));
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|part| part.trim() == "openwop");
    assert!(!is_required, "openwop is required and not there");
    // Past the capture of test output: a skipped test must be seen.
    std::io::stderr()
        .write_all(b"skipped: the protocol's schemas and packs are not at ../shared/openwop\n")
        .unwrap();
    None
}

/// Reads schemas that refer to each other by file name.
struct Files(PathBuf);

impl jsonschema::Retrieve for Files {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let name = uri.as_str().rsplit('/').next().unwrap_or_default();
        Ok(serde_json::from_slice(&fs::read(self.0.join("schemas").join(name))?)?)
    }
}

pub(crate) fn schema(openwop: &Path, name: &str) -> Validator {
    jsonschema::options()
        .with_retriever(Files(openwop.to_owned()))
        .build(&json!({ "$ref": format!("https://openwop.dev/spec/v1/{name}") }))
        .unwrap()
}

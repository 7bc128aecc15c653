//! Reading closed objects: an unknown key is an error that names the key and its path.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// JSON that does not have the expected shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct ShapeError {
    /// Where, as in `nodes[2].config`; empty at the root or where the text is not JSON at all.
    pub path: String,
    pub message: String,
}

/// Reads a body from untrusted bytes.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ShapeError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(shape_error)?;
    reader.end().map_err(|error| ShapeError { path: String::new(), message: error.to_string() })?;
    Ok(value)
}

/// Reads a shape out of JSON that was parsed before.
pub fn parse_value<T: DeserializeOwned>(value: Value) -> Result<T, ShapeError> {
    serde_path_to_error::deserialize(value).map_err(shape_error)
}

/// Refuses what the schema says beyond types; the message is made only where it is needed.
pub(crate) fn ensure(
    holds: bool,
    path: &str,
    message: impl FnOnce() -> String,
) -> Result<(), ShapeError> {
    if holds { Ok(()) } else { Err(ShapeError { path: path.to_owned(), message: message() }) }
}

fn shape_error(error: serde_path_to_error::Error<serde_json::Error>) -> ShapeError {
    let path = error.path().to_string();
    ShapeError {
        path: if path == "." { String::new() } else { path },
        message: error.into_inner().to_string(),
    }
}

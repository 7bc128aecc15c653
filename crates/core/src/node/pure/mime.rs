//! `core.files.detect-mime`: what kind of file the first bytes tell, else the ending of its name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::{Given, invalid};
use super::meter::Meter;
use super::outputs;

/// What files begin with.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BM", "image/bmp"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\x7fELF", "application/x-executable"),
    (b"<?xml", "application/xml"),
    (b"<!DOCTYPE html", "text/html"),
];

/// What their names end with.
const ENDINGS: &[(&str, &str)] = &[
    ("txt", "text/plain"),
    ("md", "text/markdown"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
];

/// No more of a file than this is looked at: a whole number of groups of four.
const LOOKED_AT: usize = 1_024;

pub(super) fn detect(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let by_name = match given.inputs.get("filename") {
        None => None,
        Some(_) => ending(given.text("filename")?),
    };
    let by_content = match given.inputs.get("contentBase64") {
        None => None,
        Some(_) => {
            let content = given.text("contentBase64")?;
            let begins = content.get(..LOOKED_AT).unwrap_or(content);
            meter.make(begins.len())?;
            let bytes = STANDARD.decode(begins);
            beginning(&bytes.map_err(|_| invalid("the input contentBase64 is no base64"))?)
        }
    };
    // An office document is a zip, and its name says which.
    let is_refined = by_content == Some("application/zip")
        && by_name.is_some_and(|name| name.contains("openxmlformats"));
    let (found, confidence) = match (by_content, by_name) {
        (Some(_), Some(by_name)) if is_refined => (by_name, 0.9),
        (Some("text/plain"), Some(by_name)) => (by_name, 0.8),
        (Some("text/plain"), None) => ("text/plain", 0.6),
        (Some(by_content), _) => (by_content, 0.95),
        (None, Some(by_name)) => (by_name, 0.5),
        (None, None) => ("application/octet-stream", 0.1),
    };
    Ok(outputs([("mimeType", found.into()), ("confidence", Value::from(confidence))]))
}

fn beginning(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    let known = BEGINNINGS.iter().find(|(begins, _)| bytes.starts_with(begins));
    if let Some((_, kind)) = known {
        return Some(kind);
    }
    // The last letter may have been cut apart.
    let is_text = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    let is_plain = is_text && !bytes.is_empty() && !bytes.contains(&0);
    is_plain.then(|| match bytes.trim_ascii_start().first() {
        Some(b'{' | b'[') => "application/json",
        _ => "text/plain",
    })
}

fn ending(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    ENDINGS.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known)).map(|(_, kind)| *kind)
}

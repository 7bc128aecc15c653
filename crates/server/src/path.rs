//! Paths before they are routed: `/v1/runs/{runId}:pause` becomes a form that the router can match.
//!
//! The router cannot match a parameter with a suffix. The internal form has a segment that begins
//! with `@`; a client that types one itself gets the answer of an unknown path.

use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, Uri, header};

use crate::problem::Problem;
use crate::routes::operations;

/// Begins the segment that a verb becomes.
const VERB_MARK: &str = "/@";

/// The path under which an operation is routed.
pub(crate) fn routed(public: &str) -> String {
    match public.rsplit_once(':') {
        Some((resource, verb)) => format!("{resource}{VERB_MARK}{verb}"),
        // The path of a file has slashes, which clients need not encode. A name with an ending is taken whole.
        None => public.replace("{path}", "{*path}").replace("{version}.json", "{file}"),
    }
}

/// Checks a client's path and turns its verb into a segment.
pub(crate) fn rewrite(uri: &Uri) -> Result<Uri, Problem> {
    let path = uri.path();
    if path.contains(VERB_MARK) {
        return Err(unknown());
    }
    if decode(path).is_none() {
        return Err(Problem::invalid("the path holds a malformed percent-encoding"));
    }
    let Some(rewritten) = verb_as_segment(path) else { return Ok(uri.clone()) };
    let with_query = match uri.query() {
        Some(query) => format!("{rewritten}?{query}"),
        None => rewritten,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query =
        Some(with_query.parse::<PathAndQuery>().map_err(|_| Problem::invalid("malformed path"))?);
    Uri::from_parts(parts).map_err(|_| Problem::invalid("malformed path"))
}

/// Whether somebody who reads pages asks for one. Everything else without a version is a client's mistake.
pub(crate) fn is_page(path: &str, headers: &HeaderMap) -> bool {
    let mut accepts =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    match path {
        "/" => accepts.any(|accept| accept.contains("text/html")),
        "/console" | "/mcp" => true,
        path => path.starts_with("/console/") || path.starts_with("/openai/v1/"),
    }
}

/// What an unrouted path gets.
pub(crate) fn unknown() -> Problem {
    Problem::no_such("path")
}

/// Only the verbs of the table are taken off; any other colon belongs to an id.
fn verb_as_segment(path: &str) -> Option<String> {
    let (resource, verb) = path.rsplit_once(':')?;
    let is_verb = operations()
        .filter_map(|operation| operation.path.rsplit_once(':'))
        .any(|(_, known)| known == verb);
    is_verb.then(|| format!("{resource}{VERB_MARK}{verb}"))
}

/// A path or a part of it without its percent-encoding; none where that is malformed.
pub(crate) fn decode(path: &str) -> Option<String> {
    let mut bytes = path.bytes();
    let mut decoded = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (high, low) = bytes.next().and_then(hex_digit).zip(bytes.next().and_then(hex_digit))?;
        decoded.push(high << 4 | low);
    }
    String::from_utf8(decoded).ok()
}

/// A text as one segment of a path.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(path: &str) -> Result<String, &'static str> {
        let uri = path.parse::<Uri>().map_err(|_| "not a uri")?;
        rewrite(&uri).map(|uri| uri.to_string()).map_err(|problem| problem.code.name())
    }

    #[test]
    fn verbs_become_segments_and_nothing_else_changes() {
        for (given, expected) in [
            ("/v1/runs/run_1:pause", Ok("/v1/runs/run_1/@pause")),
            ("/v1/runs/a%3Ab:resume?x=1", Ok("/v1/runs/a%3Ab/@resume?x=1")),
            ("/v1/runs:bulk-cancel", Ok("/v1/runs/@bulk-cancel")),
            ("/v1/runs/run_1%3Apause", Ok("/v1/runs/run_1%3Apause")),
            ("/v1/runs/run_1:dance", Ok("/v1/runs/run_1:dance")),
            ("/v1/runs/run_1/@pause", Err("not_found")),
            ("/v1/runs/@bulk-cancel", Err("not_found")),
            ("/v1/runs/%zz", Err("validation_error")),
            ("/v1/runs/%ff", Err("validation_error")),
            ("/v1/runs/%4", Err("validation_error")),
        ] {
            assert_eq!(rewritten(given), expected.map(str::to_owned), "{given}");
        }
    }
}

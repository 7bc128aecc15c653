//! Entity tags: a reader that already has the answer gets none.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use callboard_protocol::hex;
use sha2::{Digest as _, Sha256};

/// Whether `If-None-Match` names this tag: alone, in a list, weak, or as `*`.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let names = |text: &str| {
        text.split(',').map(str::trim).any(|candidate| {
            candidate == "*" || candidate.strip_prefix("W/").unwrap_or(candidate) == tag
        })
    };
    headers.get_all(header::IF_NONE_MATCH).iter().any(|value| value.to_str().is_ok_and(names))
}

/// The tag of exactly these bytes.
pub(crate) fn tag_of(bytes: &[u8]) -> String {
    format!("\"{}\"", hex(&Sha256::digest(bytes)[..16]))
}

/// Puts the tag on an answer. The encoding of the body depends on the request, and caches must know.
pub(crate) fn tagged(response: impl IntoResponse, tag: &str) -> Response {
    let mut response = response.into_response();
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    response
}

pub(crate) fn not_modified(tag: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    tagged(response, tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_header_is_understood() {
        for (text, known) in [
            (r#""v3""#, true),
            (r#"W/"v3""#, true),
            (r#""v1", W/"v2" ,"v3""#, true),
            ("*", true),
            (r#""v4""#, false),
            ("v3", false),
            ("", false),
        ] {
            let headers: HeaderMap =
                [(header::IF_NONE_MATCH, HeaderValue::from_static(text))].into_iter().collect();
            assert_eq!(is_known(&headers, r#""v3""#), known, "{text}");
        }
        assert!(!is_known(&HeaderMap::new(), r#""v3""#));
    }
}

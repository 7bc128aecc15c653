//! Bodies as they arrive: bounded in size, pace and sum, and of the type that the operation takes.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use callboard_agents::PackError;
use callboard_authoring::Format;
use callboard_core::DEEPEST;
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::load::BodyRoom;
use crate::operations::{Media, Need, Operation};
use crate::problem::{Code, Problem};

/// A client that needs longer for a few megabytes is not one to hold a place for.
const ARRIVAL: Duration = Duration::from_secs(60);
/// A value that a run can keep, and what a request puts around it.
const DEEPEST_BODY: usize = DEEPEST + 8;

/// How fast a body must come: it has some seconds, and one more for every so many bytes that have arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    at_once: Duration,
    bytes_per_second: u64,
}

impl Pace {
    /// A busy client on a bad line, whose key says who it is.
    pub(crate) const KEYED: Self =
        Self { at_once: Duration::from_secs(20), bytes_per_second: 1024 };
    /// Strangers post little, and at once.
    pub(crate) const UNKEYED: Self =
        Self { at_once: Duration::from_secs(5), bytes_per_second: 32 * 1024 };

    /// How long a body may take of which so much is there.
    fn allows(self, received: usize) -> Duration {
        let earned = Duration::from_secs(received as u64 / self.bytes_per_second);
        (self.at_once + earned).min(ARRIVAL)
    }
}

/// What a body is measured by.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) limit: usize,
    pub(crate) pace: Pace,
    pub(crate) room: BodyRoom,
}

/// Reads the body whole, so that everything behind this has it in memory. The room that it takes there is to be kept for
/// as long as somebody works with it.
pub(crate) async fn read(
    request: Request,
    operation: &Operation,
    mut measure: Measure,
) -> Result<(Request, BodyRoom), Problem> {
    let (parts, body) = request.into_parts();
    check_encoding(&parts.headers)?;
    let bytes = collect(body, operation.media, &mut measure).await?;
    if operation.takes.is_some() {
        check_type(&parts.headers, &bytes, operation.media)?;
        check_depth(&bytes, operation.media)?;
    }
    let bytes = match (bytes.is_empty(), operation.body) {
        (true, Need::Optional) => Bytes::from_static(b"{}"),
        _ => bytes,
    };
    Ok((Request::from_parts(parts, Body::from(bytes)), measure.room))
}

/// Only what has arrived takes room: a length that is announced costs its sender nothing.
async fn collect(mut body: Body, media: Media, measure: &mut Measure) -> Result<Bytes, Problem> {
    let Measure { limit, pace, room } = measure;
    // What is announced as too much need not be waited for.
    if body.size_hint().lower() > *limit as u64 {
        return Err(too_large(media, *limit));
    }
    let began = Instant::now();
    // One text rather than a list of pieces: many small pieces would take many times their bytes.
    let mut arrived = Vec::new();
    loop {
        let next = tokio::time::timeout_at(began + pace.allows(arrived.len()), body.frame()).await;
        let Some(frame) = next.map_err(|_| too_late())? else { return Ok(arrived.into()) };
        let frame = frame.map_err(|_| Problem::invalid("the body broke off"))?;
        let Ok(piece) = frame.into_data() else { continue };
        if piece.len() > limit.saturating_sub(arrived.len()) {
            return Err(too_large(media, *limit));
        }
        room.grow(piece.len())?;
        arrived.extend_from_slice(&piece);
    }
}

fn too_late() -> Problem {
    Problem::new(Code::RequestTimeout, "the body did not arrive in time")
}

fn too_large(media: Media, limit: usize) -> Problem {
    match media {
        Media::Json | Media::Definition => {
            Problem::new(Code::PayloadTooLarge, format!("the body is larger than {limit} bytes"))
                .with("maxRequestBodyBytes", limit)
        }
        Media::Archive => PackError::ArchiveTooLarge { limit }.into(),
    }
}

/// What is kept of a body is put into other documents, which must be readable still.
fn check_depth(bytes: &[u8], media: Media) -> Result<(), Problem> {
    match media {
        Media::Json | Media::Definition
            if looks_like_json(bytes, media) && depth(bytes) > DEEPEST_BODY =>
        {
            Err(Problem::invalid(format!("the body is nested deeper than {DEEPEST_BODY} levels")))
        }
        // What is YAML is bounded where it is read.
        Media::Json | Media::Archive | Media::Definition => Ok(()),
    }
}

fn looks_like_json(bytes: &[u8], media: Media) -> bool {
    media == Media::Json || bytes.trim_ascii_start().starts_with(b"{")
}

/// How deep a text is nested that may be JSON.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut is_quoted) = (0_usize, 0, false);
    let mut signs = text.iter();
    while let Some(sign) = signs.next() {
        match sign {
            b'"' => is_quoted = !is_quoted,
            b'\\' => {
                signs.next();
            }
            b'[' | b'{' if !is_quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get(header::CONTENT_ENCODING).is_none_or(is_plain) {
        let message = "send the body as it is, without Content-Encoding";
        return Err(Problem::new(Code::UnsupportedMediaType, message));
    }
    Ok(())
}

/// No header is taken as the right one; a body of no bytes has no type that could be wrong.
fn check_type(headers: &HeaderMap, bytes: &Bytes, media: Media) -> Result<(), Problem> {
    let Some(value) = headers.get(header::CONTENT_TYPE).filter(|_| !bytes.is_empty()) else {
        return Ok(());
    };
    let essence = value
        .to_str()
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_json = essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    let (fits, wanted) = match media {
        Media::Json => (is_json, "application/json"),
        Media::Definition => (
            is_json || Format::of_media_type(Some(&essence)) == Format::Yaml,
            "application/json or application/yaml",
        ),
        Media::Archive => (
            ["application/gzip", "application/x-gzip", "application/octet-stream"]
                .contains(&essence.as_str()),
            "application/gzip",
        ),
    };
    if !fits {
        let message = format!("send the body as {wanted}");
        return Err(Problem::new(Code::UnsupportedMediaType, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_brackets_outside_of_texts_make_a_body_deep() {
        for (text, expected) in [
            ("", 0),
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[{}],"b":[]}"#, 3),
            (r#"{"a":"[[[["}"#, 1),
            (r#"{"a":"\"[[[\\"}"#, 1),
            ("]]][", 1),
        ] {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_body_earns_time_by_arriving() {
        let pace = Pace { at_once: Duration::from_secs(5), bytes_per_second: 1000 };
        for (received, seconds) in [(0, 5), (999, 5), (1000, 6), (20_000, 25), (9_999_999, 60)] {
            assert_eq!(pace.allows(received), Duration::from_secs(seconds), "{received}");
        }
    }

    #[test]
    fn a_body_is_refused_that_could_be_kept_and_not_read_again() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(check_depth(nested(DEEPEST_BODY).as_bytes(), Media::Json).is_ok());
        assert!(check_depth(nested(DEEPEST_BODY + 1).as_bytes(), Media::Json).is_err());
    }
}

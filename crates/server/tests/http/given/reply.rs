//! Answers, read whole or frame by frame.

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    /// Null where the body is no JSON.
    pub(crate) json: Value,
}

impl Reply {
    pub(crate) async fn read(response: Response) -> Self {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.expect("the body arrives");
        let mut json: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        // Whether maps sort themselves depends on what else is linked; snapshots must not.
        json.sort_all_objects();
        let reply = Self { status, headers, bytes, json };
        if status >= 400 {
            reply.assert_enveloped();
        }
        reply
    }

    /// R16, R17: every answer that is not a success has this shape, in every test.
    fn assert_enveloped(&self) {
        let fields = self.json.as_object().unwrap_or_else(|| panic!("no envelope: {self:?}"));
        // One door is made to repeat its details beside the envelope.
        let known = match fields.get("unmet") {
            Some(_) => ["error", "message", "details", "unmet", "manifest"].as_slice(),
            None => &["error", "message", "details"],
        };
        assert!(fields.keys().all(|key| known.contains(&key.as_str())), "{self:?}");
        for key in ["error", "message"] {
            assert!(fields[key].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        }
        assert!(fields.get("details").is_none_or(Value::is_object), "{self:?}");
        let correlation = self.json["details"]["correlationId"].as_str();
        // The second major closes the details of this one.
        if self.error() != "payload_unprojectable" {
            assert_eq!(
                correlation.is_some_and(|id| !id.is_empty()),
                self.status >= 500,
                "{self:?}"
            );
        }
        assert_eq!(self.header("content-type"), "application/json");
    }

    pub(crate) fn error(&self) -> &str {
        self.json["error"].as_str().unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.json["message"].as_str().unwrap_or_default()
    }

    /// The status and the code, which is what most refusals are compared by.
    pub(crate) fn refusal(&self) -> (u16, &str) {
        (self.status, self.error())
    }

    pub(crate) fn text_at(&self, field: &str) -> String {
        self.json[field].as_str().unwrap_or_else(|| panic!("no text {field}: {self:?}")).to_owned()
    }

    /// Empty where there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.header(header::RETRY_AFTER.as_str()).parse().ok()
    }
}

/// One server-sent frame; a comment has only its text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
    pub(crate) comment: String,
}

/// A stream that is read as it comes.
pub(crate) struct Frames {
    body: Body,
    text: String,
}

impl Frames {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, text: String::new() }
    }

    /// The next frame; none once the server has closed.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (parse(frame), rest.to_owned());
                self.text = rest;
                return Some(frame);
            }
            let piece = self.body.frame().await?.expect("the stream is not broken");
            let data = piece.into_data().expect("data");
            self.text.push_str(std::str::from_utf8(&data).expect("UTF-8"));
        }
    }

    /// Everything until the server closes, comments left out.
    pub(crate) async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.extend(Some(frame).filter(|frame| frame.comment.is_empty()));
        }
        assert_eq!(self.text, "", "the last frame is whole");
        frames
    }
}

fn parse(text: &str) -> Frame {
    let mut frame = Frame::default();
    for line in text.lines() {
        let (name, value) = line.split_once(':').expect("a field");
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => frame.id = value.parse().ok(),
            "event" => frame.event = value.to_owned(),
            "data" => frame.data = serde_json::from_str(value).expect("JSON on one line"),
            "" => frame.comment = value.to_owned(),
            other => panic!("unknown field {other}"),
        }
    }
    frame
}

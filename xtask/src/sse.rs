//! Server-sent events as frames.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::wire::Body;

/// One frame. A comment, such as a keep-alive, is a frame with nothing but its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: String,
    pub(crate) comment: Option<String>,
}

impl Frame {
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.data)
            .with_context(|| format!("a frame whose data is no JSON: {}", self.data))
    }

    fn parse(text: &str) -> Self {
        let mut frame = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" => frame.comment = Some(value.to_owned()),
                "id" => frame.id = Some(value.to_owned()),
                "event" => value.clone_into(&mut frame.event),
                "data" if frame.data.is_empty() => value.clone_into(&mut frame.data),
                "data" => frame.data = format!("{}\n{value}", frame.data),
                _ => {}
            }
        }
        frame
    }
}

/// Frames out of a body that goes on.
#[derive(Debug)]
pub(crate) struct Frames {
    body: Body,
    buffer: String,
}

impl Frames {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, buffer: String::new() }
    }

    /// The next frame; none when the server has closed the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let text: String = self.buffer.drain(..end + 2).collect();
                return Ok(Some(Frame::parse(&text)));
            }
            match self.body.next().await? {
                Some(bytes) => self
                    .buffer
                    .push_str(std::str::from_utf8(&bytes).context("a frame that is no UTF-8")?),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Frame;

    #[test]
    fn fields_and_comments_are_read() {
        let frame = Frame::parse("id: 4\nevent: run.completed\ndata: {\"a\":\ndata: 1}\n\n");
        assert_eq!((frame.id.as_deref(), frame.event.as_str()), (Some("4"), "run.completed"));
        assert_eq!(frame.json().unwrap()["a"], 1);
        assert_eq!(Frame::parse(":keepalive\n\n").comment.as_deref(), Some("keepalive"));
    }
}

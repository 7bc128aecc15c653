//! Server-sent frames as text, one by one or as a batch.

use std::time::Duration;

use callboard_engine::{HeartbeatNotice, Recorded, Watcher};
use callboard_protocol::Object;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::problem::Problem;
use crate::v2::run_projection::RunProjection;

const SNAPSHOT: &str = "state.snapshot";

/// The id that a client resumes from, the name, and JSON on one line.
#[derive(Debug)]
pub(crate) struct Frame {
    id: Option<u64>,
    name: String,
    data: String,
}

impl Frame {
    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn into_text(self) -> String {
        let id = self.id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        format!("{id}event: {}\ndata: {}\n\n", self.name, self.data)
    }
}

pub(super) fn event(event: &Recorded) -> Frame {
    Frame { id: Some(event.sequence), name: event.kind.clone(), data: event.to_json() }
}

/// An event under its place in all logs.
pub(crate) fn placed(position: u64, recorded: &Recorded) -> Frame {
    Frame { id: Some(position), ..event(recorded) }
}

/// A heartbeat's notice, which is in no log.
pub(crate) fn unplaced(told: &HeartbeatNotice) -> Frame {
    let name = told.what.name().to_owned();
    let data = json!({ "type": name, "payload": told.what.payload(), "timestamp": told.at });
    Frame { id: None, name, data: data.to_string() }
}

pub(super) fn chunk(event: &Recorded) -> Frame {
    Frame {
        id: Some(event.sequence),
        name: "ai.message.chunk".to_owned(),
        data: event.payload.clone(),
    }
}

/// The run after its first `version` events, under the id of the last of them.
pub(super) async fn snapshot(
    watcher: &mut Watcher,
    version: u64,
    projection: Option<&RunProjection>,
) -> Result<Frame, Problem> {
    let snapshot = watcher.advance_to(version).await?;
    let id = version.checked_sub(1);
    let mut data = serde_json::to_value(snapshot).map_err(|error| Problem::internal(&error))?;
    if let Some(projection) = projection {
        let told = Value::Object(projection.snapshot(&data.to_string())?);
        return Ok(Frame { id, name: SNAPSHOT.to_owned(), data: told.to_string() });
    }
    if let (Some(fields), Some(id)) = (data.as_object_mut(), id) {
        fields.insert("atSeq".to_owned(), Value::from(id));
    }
    Ok(Frame { id, name: SNAPSHOT.to_owned(), data: data.to_string() })
}

/// The same, already in the words of the second major.
pub(super) fn told_snapshot(id: u64, told: Object) -> Frame {
    Frame { id: Some(id), name: SNAPSHOT.to_owned(), data: Value::Object(told).to_string() }
}

/// An event in the words of the second major.
pub(super) fn told(document: Value) -> Frame {
    let name = document["type"].as_str().unwrap_or_default().to_owned();
    Frame { id: document["sequence"].as_u64(), name, data: document.to_string() }
}

pub(super) fn told_chunk(document: Value) -> Frame {
    let (id, data) = (document["sequence"].as_u64(), document["payload"].to_string());
    Frame { id, name: "ai.message.chunk".to_owned(), data }
}

/// A batch goes out before its window ends once it has this many frames or bytes: a busy run must not fill the memory.
const MOST_FRAMES: usize = 1024;
const MOST_BYTES: usize = 1024 * 1024;

/// Frames that wait to go out together.
#[derive(Debug)]
pub(super) struct Batch {
    window: Duration,
    frames: Vec<Frame>,
    bytes: usize,
    due: Option<Instant>,
}

impl Batch {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, frames: Vec::new(), bytes: 0, due: None }
    }

    /// The first frame of a batch starts its window.
    pub(super) fn push(&mut self, frame: Frame) {
        self.due.get_or_insert_with(|| Instant::now() + self.window);
        self.bytes += frame.len();
        self.frames.push(frame);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether it must go out now.
    pub(super) fn is_due(&self) -> bool {
        let is_full = self.frames.len() >= MOST_FRAMES || self.bytes >= MOST_BYTES;
        is_full || self.due.is_some_and(|due| due <= Instant::now())
    }

    /// The whole batch as one frame under the highest id, or nothing.
    pub(super) fn take(&mut self) -> String {
        (self.due, self.bytes) = (None, 0);
        let frames = std::mem::take(&mut self.frames);
        let Some(id) = frames.iter().map(|frame| frame.id).max() else { return String::new() };
        let items: Vec<String> = frames.into_iter().map(|frame| frame.data).collect();
        Frame { id, name: "batch".to_owned(), data: format!("[{}]", items.join(",")) }.into_text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(id: u64) -> Frame {
        Frame { id: Some(id), name: "run.started".to_owned(), data: format!("{{\"n\":{id}}}") }
    }

    #[test]
    fn a_frame_has_id_name_and_data() {
        assert_eq!(frame(3).into_text(), "id: 3\nevent: run.started\ndata: {\"n\":3}\n\n");
    }

    #[tokio::test]
    async fn a_batch_goes_out_under_its_highest_id() {
        let mut batch = Batch::new(Duration::from_millis(100));
        assert_eq!(batch.take(), "");
        batch.push(frame(3));
        batch.push(frame(4));
        assert!(batch.due().is_some());
        assert_eq!(batch.take(), "id: 4\nevent: batch\ndata: [{\"n\":3},{\"n\":4}]\n\n");
        assert_eq!(batch.due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_due_when_its_window_ends_or_it_is_full() {
        let mut batch = Batch::new(Duration::from_millis(100));
        batch.push(frame(0));
        assert!(!batch.is_due());
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(batch.is_due());
        batch.take();
        (0..MOST_FRAMES as u64).for_each(|id| batch.push(frame(id)));
        assert!(batch.is_due());
    }
}

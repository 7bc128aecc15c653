//! Standard error: read so that no process blocks, searched for one purpose, never passed on.

use std::collections::VecDeque;

use tokio::process::ChildStderr;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::LINGER;
use crate::process::lines::{Line, Lines};
use crate::transcript::Transcript;

/// Agents say why they give up in their last lines.
const KEPT: usize = 64;
const LINE_BYTES: usize = 8 * 1024;

pub(super) struct Noise {
    lines: Lines<ChildStderr>,
    last: VecDeque<Vec<u8>>,
}

impl Noise {
    pub(super) fn new(stderr: ChildStderr) -> Self {
        Self { lines: Lines::new(stderr, LINE_BYTES), last: VecDeque::new() }
    }

    pub(super) async fn listen(&mut self, exited: &CancellationToken) {
        loop {
            let quiet = async {
                exited.cancelled().await;
                sleep(LINGER).await;
            };
            let read = tokio::select! {
                read = self.lines.ready() => read.unwrap_or_default(),
                () = quiet => 0,
            };
            if read == 0 {
                if let Some(Line::Whole(line)) = self.lines.last() {
                    keep(&mut self.last, line);
                }
                return;
            }
            while let Some(line) = self.lines.next_ready() {
                if let Line::Whole(line) = line {
                    keep(&mut self.last, line);
                }
            }
        }
    }

    pub(super) fn tell(&mut self, transcript: &mut Transcript) {
        for line in self.last.drain(..) {
            transcript.read_error_line(&line);
        }
    }

    pub(super) async fn drain(&mut self) {
        self.lines.drain().await;
    }
}

fn keep(last: &mut VecDeque<Vec<u8>>, line: &[u8]) {
    if last.len() == KEPT {
        last.pop_front();
    }
    last.push_back(line.to_vec());
}

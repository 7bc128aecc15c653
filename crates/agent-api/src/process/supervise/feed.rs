//! Writing to the agent's standard input.

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

use super::Prompt;

/// The end that holds the conversation open. Dropping it closes the agent's input.
pub(super) struct Input {
    sender: Option<mpsc::Sender<Vec<u8>>>,
}

/// Answers on their way; an agent asks one thing at a time.
const ANSWERS: usize = 8;

impl Input {
    pub(super) fn new(prompt: Prompt) -> (Self, Inputs) {
        let (sender, receiver) = mpsc::channel(ANSWERS);
        let (first, sender) = match prompt {
            Prompt::Elsewhere => (Vec::new(), None),
            Prompt::Whole(prompt) => (prompt, None),
            Prompt::Opening(line) => (line, Some(sender)),
        };
        (Self { sender }, Inputs { first, receiver })
    }

    pub(super) async fn send(&mut self, line: Vec<u8>) {
        if let Some(sender) = &self.sender {
            // An agent that closed its input reports the reason by its exit.
            let _ = sender.send(line).await;
        }
    }

    pub(super) fn close(&mut self) {
        self.sender = None;
    }
}

pub(super) struct Inputs {
    first: Vec<u8>,
    receiver: mpsc::Receiver<Vec<u8>>,
}

/// Writes until there is nothing more to say. An agent that does not listen is no failure of ours.
pub(super) async fn feed(mut stdin: ChildStdin, mut inputs: Inputs) {
    let mut next = Some(inputs.first);
    while let Some(bytes) = next {
        if stdin.write_all(&bytes).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
        next = inputs.receiver.recv().await;
    }
}

//! A folder with a fake agent in it, and shorthands for what tests do with a run.

use std::fs;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use callboard_agent_api::{
    AgentBackend, AgentCompletion, AgentError, AgentEvent, AgentEventKind, AgentRunControl,
    AgentRunRequest, CliBackend, CliConfig, Grant, backends,
};
use futures_util::{Stream, StreamExt};
use tempfile::TempDir;

pub(crate) const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1"}"#;
pub(crate) const HELLO: &str =
    r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"hello"}]}}"#;
pub(crate) const DONE: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"hello"}"#;

/// Shell words that print lines.
pub(crate) fn say(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("printf '%s\\n' '{line}'; ")).collect()
}

/// Shell words that wait until [`Stage::go`] is called, after saying `before`.
pub(crate) fn wait_after(before: &str) -> String {
    format!("mkfifo \"$FAKE_DIR/go\"; {before} read _ < \"$FAKE_DIR/go\"; ")
}

pub(crate) struct Stage {
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// An agent that runs `script`; impatient, so that tests are not.
    pub(crate) fn config(&self, script: &str) -> CliConfig {
        let mut config = CliConfig::from_host().grant(Grant::ALL);
        config.program = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fake-agent").into());
        config.env.insert("FAKE".into(), script.into());
        config.env.insert("FAKE_DIR".into(), self.folder.path().to_str().unwrap().into());
        config.kill_grace = Duration::from_millis(200);
        config
    }

    pub(crate) fn claude(&self, script: &str) -> CliBackend {
        backends::claude_code::backend(self.config(script))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn was_started(&self) -> bool {
        self.path("started").exists()
    }

    pub(crate) fn argv(&self) -> Vec<String> {
        self.read("argv").lines().map(Into::into).collect()
    }

    /// Lets an agent go on that waits with [`wait_after`].
    pub(crate) fn go(&self) {
        fs::write(self.path("go"), "\n").unwrap();
    }

    /// Waits until the agent has written the file.
    pub(crate) async fn written(&self, name: &str) -> String {
        loop {
            match fs::read_to_string(self.path(name)) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => tokio::task::yield_now().await,
            }
        }
    }

    pub(crate) async fn process(&self, name: &str) -> u32 {
        self.written(name).await.trim().parse().unwrap()
    }
}

pub(crate) async fn start(backend: &CliBackend) -> AgentRunControl {
    start_with(backend, AgentRunRequest::new("do it")).await
}

pub(crate) async fn start_with(backend: &CliBackend, request: AgentRunRequest) -> AgentRunControl {
    backend.run_control(request).await.unwrap()
}

/// Reads a run to its end.
pub(crate) async fn finish(
    control: AgentRunControl,
) -> (Vec<AgentEvent>, Result<AgentCompletion, AgentError>) {
    let events = control.handle.events.collect().await;
    (events, control.handle.completion.await)
}

pub(crate) async fn run(
    backend: &CliBackend,
) -> (Vec<AgentEvent>, Result<AgentCompletion, AgentError>) {
    finish(start(backend).await).await
}

pub(crate) fn texts(events: &[AgentEvent]) -> String {
    events.iter().filter_map(|event| event.text.as_deref()).collect()
}

pub(crate) fn errors(events: &[AgentEvent]) -> Vec<&str> {
    let errors = events.iter().filter(|event| event.kind == AgentEventKind::Error);
    errors.map(|event| event.message.as_deref().unwrap()).collect()
}

/// Polls once.
pub(crate) async fn peek<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
}

/// Polls a stream once.
pub(crate) async fn peek_next<S: Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *stream).poll_next(context))).await
}

/// Whether a process runs; one that is dead and not yet reaped does not.
pub(crate) fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

//! An agent that will not die.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::backend::AgentBackend;
use crate::backends::claude_code;
use crate::config::CliConfig;
use crate::error::FailureClass;
use crate::process::group::{Push, Signals};
use crate::process::leftovers::Leftovers;
use crate::request::AgentRunRequest;

/// A kernel that listens and does nothing.
#[derive(Debug, Default)]
struct Deaf {
    asked: AtomicUsize,
    forced: AtomicUsize,
}

impl Signals for Deaf {
    fn push(&self, _group: i32, push: Push) {
        let count = match push {
            Push::Ask => &self.asked,
            Push::Force => &self.forced,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn is_alive(&self, _group: i32) -> bool {
        true
    }
}

// T47
#[tokio::test(start_paused = true)]
async fn a_failure_to_terminate_is_told_through_the_completion() {
    let mut config = CliConfig::from_host();
    config.program = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fake-agent").into());
    config.env.insert("FAKE".into(), "exec sleep 1000".into());
    let records = tempfile::tempdir().unwrap();
    config.leftovers = Some(Leftovers::at(records.path()));
    let deaf = Arc::new(Deaf::default());
    for cancels in [true, false] {
        let backend = claude_code::backend(config.clone()).with_signals(Arc::clone(&deaf) as _);
        let mut request = AgentRunRequest::new("do it");
        request.timeout = Some(Duration::from_secs(3600));
        let control = backend.run_control(request).await.unwrap();
        drop(control.handle.events);
        if cancels {
            control.cancel.cancel();
        }
        // The clock stands still for the agent, so every patience ends at once.
        let error = control.handle.completion.await.unwrap_err();
        assert_eq!(error.class(), Some(FailureClass::Unterminated));
    }
    // The next host is told, too.
    assert_eq!(std::fs::read_dir(records.path()).unwrap().count(), 2);
    assert_eq!(deaf.asked.load(Ordering::Relaxed), 2);
    assert!(deaf.forced.load(Ordering::Relaxed) >= 2);
}

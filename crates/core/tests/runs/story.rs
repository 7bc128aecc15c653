//! Plays steps against a run and tells the log as lines, one for each event.

use std::sync::Arc;

use callboard_core::{
    Attempt, Command, Entry, Fact, Outcome, OutsideWrite, Refusal, Resolution, RetryClass, Run, Via,
};
use callboard_protocol::{Event, Failure, RunSnapshot};
use serde_json::Value;

use crate::given::{Do, Given, at, object};

/// Plays the steps and compares the story; then the log alone must rebuild the run.
pub(crate) fn check(given: &Given, steps: &[(i64, Do)], expected: &[&str]) -> Played {
    let played = play(given, steps);
    assert_eq!(played.lines, expected, "{:#?}", played.lines);
    played
}

/// As `check`, but only these lines must appear, in this order.
pub(crate) fn check_within(given: &Given, steps: &[(i64, Do)], expected: &[&str]) -> Played {
    let played = play(given, steps);
    let mut lines = played.lines.iter();
    for wanted in expected {
        assert!(lines.any(|line| line == wanted), "{wanted} in {:#?}", played.lines);
    }
    played
}

/// A run after its steps.
pub(crate) struct Played {
    pub(crate) run: Run,
    pub(crate) log: Vec<Entry>,
    pub(crate) lines: Vec<String>,
}

pub(crate) fn play(given: &Given, steps: &[(i64, Do)]) -> Played {
    let run = given.run();
    let mut played = Played { run, log: Vec::new(), lines: Vec::new() };
    for (millis, step) in steps {
        played.step(*millis, step);
    }
    played.assert_rebuilt();
    played
}

impl Played {
    pub(crate) fn step(&mut self, millis: i64, step: &Do) {
        let command = self.command(step);
        match self.run.decide(&command, at(millis)) {
            Ok(entries) => {
                self.lines.extend(entries.iter().map(|entry| line(&entry.event)));
                self.log.extend(entries);
            }
            Err(refusal) => self.lines.push(refused(&refusal)),
        }
    }

    pub(crate) fn snapshot(&self) -> RunSnapshot {
        self.run.snapshot()
    }

    pub(crate) fn variable(&self, name: &str) -> Value {
        self.snapshot().variables.get(name).cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn channel(&self, name: &str) -> Value {
        self.snapshot().channels.and_then(|bag| bag.get(name).cloned()).unwrap_or(Value::Null)
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.log.iter().filter(|entry| entry.event.kind() == kind).count()
    }

    /// The only payload of an event kind.
    pub(crate) fn payload(&self, kind: &str) -> Value {
        let mut found = self.log.iter().filter(|entry| entry.event.kind() == kind);
        let payload = found.next().unwrap_or_else(|| panic!("no {kind}")).event.payload();
        assert!(found.next().is_none(), "one {kind} in {:#?}", self.lines);
        payload
    }

    /// The attempt of a node that is owed now.
    pub(crate) fn attempt(&self, node: &str) -> Attempt {
        let owed = self.run.tasks().find(|task| task.attempt.node.as_str() == node);
        owed.map(|task| task.attempt).unwrap_or_else(|| Attempt {
            node: node.into(),
            visit: 0,
            number: 0,
        })
    }

    fn command(&self, step: &Do) -> Command {
        let failed = |node: &str, code: &str, class| Command::Finish {
            attempt: self.attempt(node),
            outcome: Outcome::Failed { failure: Failure::new(code, "it broke"), class },
        };
        match step {
            Do::Start => Command::Start,
            Do::Adopt => Command::Adopt,
            Do::Continue => Command::Continue,
            Do::Done(node, outputs) => Command::Finish {
                attempt: self.attempt(node),
                outcome: Outcome::Done { outputs: object(outputs.clone()) },
            },
            Do::Failed(node, code) => failed(node, code, RetryClass::Retryable),
            Do::FailedForGood(node, code) => failed(node, code, RetryClass::Final),
            Do::Chunks(node, indices) => Command::RecordFacts {
                attempt: self.attempt(node),
                facts: indices.iter().map(|index| chunk(*index)).collect(),
            },
            Do::Pins(node, pins) => Command::RecordFacts {
                attempt: self.attempt(node),
                facts: pins
                    .iter()
                    .map(|(change, version)| Fact::Pin {
                        change_id: (*change).to_owned(),
                        version: *version,
                    })
                    .collect(),
            },
            Do::Cancel => Command::Cancel { reason: Some("enough".into()), by: None, parent: None },
            Do::Pause(drain) => Command::Pause { drain: *drain, reason: None },
            Do::Resume => Command::Resume { reason: None },
            Do::Answer(node, value) => Command::Resolve(Resolution {
                node: (*node).into(),
                value: value.clone(),
                by: Some("user:1".into()),
                via: Via::Key,
            }),
            Do::Write(channel, value, source) => outside(channel, value.clone(), *source),
            Do::SetVariables(variables) => Command::SetVariables(object(variables.clone())),
        }
    }

    /// The log alone rebuilds the run, its sequences have no gap and its times never go back.
    fn assert_rebuilt(&self) {
        let (birth, plan) = (self.run.birth().clone(), self.run.plan().clone());
        let rebuilt = Run::replay(Arc::clone(&birth), plan, &self.log);
        assert_eq!(rebuilt.snapshot(), self.run.snapshot());
        assert_eq!(rebuilt.head(), self.run.head());
        for (place, entry) in self.log.iter().enumerate() {
            assert_eq!(entry.sequence, place as u64);
        }
        assert!(self.log.is_sorted_by_key(|entry| entry.at), "times go back: {:#?}", self.log);
    }
}

/// A write that no node of the run makes.
pub(crate) fn outside(channel: &str, value: Value, source: Option<&str>) -> Command {
    Command::Write(OutsideWrite {
        channel: channel.into(),
        value,
        source_engine_id: source.map(|_| "engine-2".into()),
        source_run_id: source.map(Into::into),
    })
}

pub(crate) fn chunk(index: u32) -> Fact {
    Fact::Chunk { index, text: format!("c{index}"), is_last: false, meta: None }
}

fn refused(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Ended { status } => format!("refused: ended {}", status.as_str()),
        Refusal::AlreadyStarted => "refused: started".to_owned(),
        Refusal::NotPaused { status } => format!("refused: {} is not paused", status.as_str()),
        Refusal::CannotPause { status, paused_at } => {
            let since = if paused_at.is_some() { " since a time" } else { "" };
            format!("refused: cannot pause {}{since}", status.as_str())
        }
        Refusal::StaleAttempt { attempt } => format!("refused: stale {}", attempt.node),
        answer => format!("refused: {answer}"),
    }
}

/// One event as a line: its kind, then what tells it apart.
pub(crate) fn line(event: &Event) -> String {
    let kind = event.kind();
    match event {
        Event::NodeStarted(payload) => {
            let visit = if payload.visit > 0 { format!(" v{}", payload.visit) } else { "".into() };
            let again =
                if payload.attempt > 0 { format!(" #{}", payload.attempt) } else { "".into() };
            format!("{kind} {}{visit}{again}", payload.node_id)
        }
        Event::NodeFailed(payload) => format!("{kind} {} {}", payload.node_id, payload.error.code),
        Event::NodeRetried(payload) => {
            format!("{kind} {} #{} +{}", payload.node_id, payload.attempt, payload.delay_ms)
        }
        Event::RunFailed(payload) => format!("{kind} {}", payload.error.code),
        Event::ChannelWritten(payload) => format!("{kind} {} {}", payload.channel, payload.value),
        Event::VariableChanged(payload) => format!("{kind} {} {}", payload.name, payload.next),
        Event::OutputChunk(payload) => format!("{kind} {} {}", payload.node_id, payload.chunk),
        Event::VersionPinned(payload) => {
            format!("{kind} {} {}", payload.change_id, payload.version)
        }
        Event::LoopbackLimit(payload) => {
            format!("{kind} {} {}/{}", payload.node_id, payload.iterations, payload.limit)
        }
        Event::CapBreached(payload) => format!("{kind} {:?} {}", payload.kind, payload.limit),
        other => match other.node_id() {
            Some(node) => format!("{kind} {node}"),
            None => kind.to_owned(),
        },
    }
}

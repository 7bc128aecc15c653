//! Logs that were written once still fold into the snapshots that were written beside them.
//!
//! A history is three files in `tests/histories`: the run's birth and definition, its log as readers
//! got it, one event a line, and the snapshot. Once released they are never changed: when a fold
//! comes out differently, runs of users do so too.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_core::{Birth, Entry, Plan, Run};
use callboard_protocol::{DrainPolicy, Event, EventId, RunEvent};
use serde_json::{Value, json};

use crate::given::{Do, Given, given};
use crate::story::play;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories")
}

fn names() -> Vec<String> {
    let files = fs::read_dir(folder()).expect("a folder of histories");
    let mut names: Vec<String> = files
        .filter_map(|file| {
            let name = file.expect("a file").file_name().into_string().expect("a name");
            name.strip_suffix(".jsonl").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// F56, and the promise that old logs stay readable.
#[test]
fn f56_every_history_still_folds_into_its_snapshot() {
    assert!(names().len() >= 9, "{:?}", names());
    for name in names() {
        let run: Value = serde_json::from_str(&read(&format!("{name}.run.json"))).expect(&name);
        let birth: Birth = serde_json::from_value(run["birth"].clone()).expect(&name);
        let plan = Plan::parse(run["definition"].to_string().as_bytes()).expect(&name);
        let log: Vec<Entry> = read(&format!("{name}.jsonl")).lines().map(entry).collect();
        let run = Run::replay(Arc::new(birth), Arc::new(plan), &log);
        let folded = serde_json::to_value(run.snapshot()).expect(&name);
        let kept: Value =
            serde_json::from_str(&read(&format!("{name}.snapshot.json"))).expect(&name);
        assert_eq!(folded, kept, "{name}");
    }
}

fn entry(line: &str) -> Entry {
    let event: RunEvent = serde_json::from_str(line).expect(line);
    let known = Event::read(&event.kind, event.node_id, event.payload);
    Entry { sequence: event.sequence, at: event.timestamp, event: known, cause: None }
}

/// A story without its files is written down and fails once, for somebody to look at what it says.
#[test]
fn every_story_has_its_history() {
    for (name, flow, steps) in stories() {
        if folder().join(format!("{name}.jsonl")).exists() {
            continue;
        }
        let played = play(&flow, &steps);
        let mut events: Vec<RunEvent> =
            played.log.iter().map(|entry| event(&played.run, entry)).collect();
        if name == "future" {
            events = from_the_future(&events);
        }
        let lines: Vec<String> =
            events.iter().map(|event| serde_json::to_string(event).expect("JSON")).collect();
        let log: Vec<Entry> = lines.iter().map(|line| entry(line)).collect();
        let run = Run::replay(Arc::new(flow.birth()), Arc::new(flow.plan().expect("runs")), &log);
        let head = json!({ "birth": flow.birth(), "definition": flow.definition });
        write(name, "run.json", &serde_json::to_string_pretty(&head).expect("JSON"));
        write(name, "snapshot.json", &serde_json::to_string_pretty(&run.snapshot()).expect("JSON"));
        write(name, "jsonl", &lines.join("\n"));
        panic!("{name} was missing and is written now; look at it and run the tests again");
    }
}

fn write(name: &str, ending: &str, text: &str) {
    let path = folder().join(format!("{name}.{ending}"));
    fs::write(&path, format!("{text}\n")).unwrap_or_else(|error| panic!("{path:?}: {error}"));
}

fn event(run: &Run, entry: &Entry) -> RunEvent {
    RunEvent {
        event_id: EventId::of(run.id(), entry.sequence),
        run_id: run.id().clone(),
        node_id: entry.event.node_id().cloned(),
        kind: entry.event.kind().to_owned(),
        payload: entry.event.payload(),
        timestamp: entry.at,
        sequence: entry.sequence,
        schema_version: 1,
        engine_version: "1".into(),
        causation_id: None,
    }
}

/// The same log as a newer host might write it: new kinds, new fields, a newer schema.
fn from_the_future(events: &[RunEvent]) -> Vec<RunEvent> {
    let mut newer = Vec::new();
    for event in events {
        let mut known = event.clone();
        known.schema_version = 9;
        known.payload["addedLater"] = json!({ "deep": [true] });
        let mut unknown = event.clone();
        unknown.kind = "node.dreamt".into();
        unknown.payload = json!({ "of": "sheep" });
        newer.extend([known, unknown]);
    }
    for (event, sequence) in newer.iter_mut().zip(0..) {
        event.sequence = sequence;
        event.event_id = EventId::of(&event.run_id, sequence);
    }
    newer
}

type Story = (&'static str, Given, Vec<(i64, Do)>);

fn stories() -> Vec<Story> {
    let start = || vec![(0, Do::Start)];
    let retried = json!({ "settings": { "maxRetries": 2 } });
    let ttl = json!({ "channelName": "events", "reducer": "append", "ttlMs": 200, "value": "d" });
    let waits = given("w:delay").config("w", json!({ "ms": 1_000 }));
    let pause = Do::Pause(DrainPolicy::Immediate);
    vec![
        ("noop", given("n:noop"), start()),
        ("chain", given("a:noop b:identity c:ai d:end")
            .edges("a>b b>c c>d")
            .ports("b", json!({ "x": { "type": "static", "value": [1, { "y": null }] } })),
            vec![(0, Do::Start), (40, Do::Done("c", json!({ "text": "hello" })))]),
        ("loop", given("l:loop b:setVariable x:noop")
            .edges("l>b b>l l>x")
            .config("l", json!({ "items": ["p", "q", "r"] }))
            .config("b", json!({ "name": "seen" }))
            .ports("b", json!({ "value": { "type": "connection", "nodeId": "l", "outputKey": "item" } })),
            start()),
        ("limit", given("h:noop b:fail").edges("h>b b>h:any_failed").top(json!({ "settings": { "maxLoopbackIterations": 1 } })), start()),
        ("retry", given("a:ai").top(retried), vec![(0, Do::Start), (5, Do::Failed("a", "busy")),
            (1_005, Do::Continue), (1_010, Do::Adopt), (1_020, Do::Failed("a", "busy")), (3_020, Do::Continue),
            (3_030, Do::FailedForGood("a", "gone"))]),
        ("cancel", given("a:ai b:noop").edges("a>b"), vec![(0, Do::Start), (7, Do::Cancel)]),
        ("pause", waits, vec![(0, Do::Start), (600, pause), (5_000, Do::Resume), (6_000, Do::Continue)]),
        ("channel-ttl", given("a:channelWrite w:delay d:channelWrite")
            .edges("a>w w>d")
            .config("a", ttl.clone())
            .config("w", json!({ "ms": 300 }))
            .config("d", ttl), vec![(0, Do::Start), (300, Do::Continue)]),
        ("stream", given("ai:ai"), vec![(0, Do::Start), (10, Do::Chunks("ai", &[0, 1])),
            (20, Do::Pins("ai", &[("prompt-v2", 1)])), (30, Do::Chunks("ai", &[2])), (40, Do::Done("ai", json!({ "text": "c0c1c2" })))]),
        ("future", given("a:ai"), vec![(0, Do::Start), (9, Do::Done("a", json!({ "text": "hi" })))]),
    ]
}

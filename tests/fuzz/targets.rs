//! What is done with each input, whoever made it up: the corpus, `proptest`, or a fuzzer. A target panics where a promise
//! is broken, above all that of a decision's most work.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_core::{
    Attempt, Birth, Command, Entry, HostLimits, MOST_WORK, MemoryBirth, Outcome, Plan, Resolution,
    RetryClass, Run, Schema, Via,
};
use callboard_protocol::{
    CreateRun, ENGINE_VERSION, Failure, Object, Owner, Timestamp, WorkflowDefinition,
};
use serde_json::{Value, json};

/// After so many decisions a run is left as it is.
const MOST_DECISIONS: usize = 40;

/// A definition, and after a line of `---` the inputs of its run.
pub(crate) fn definition(input: &[u8]) {
    let (source, inputs) = split(input);
    if let Ok(plan) = Plan::parse(source) {
        drive(plan, object(inputs));
    }
    // A definition from before is read, whatever its schemas are.
    let _ = Plan::reopen(source);
}

/// An expression, and after a line of `---` what it may name: as a port, as a condition and on an edge.
pub(crate) fn expression(input: &[u8]) {
    let (source, inputs) = split(input);
    let Ok(text) = std::str::from_utf8(source) else { return };
    let port = json!({ "v": { "type": "expression", "expression": text } });
    let nodes = json!([
        node("a", "core.identity", &json!({}), &port),
        node("b", "core.conditional", &json!({ "condition": text }), &json!({})),
        node("c", "core.noop", &json!({}), &json!({})),
    ]);
    let edge = json!({ "id": "e", "sourceNodeId": "a", "targetNodeId": "c",
        "condition": { "type": "expression", "expression": text } });
    run_of(&nodes, &json!([edge]), &json!({}), object(inputs));
}

/// A schema, and after a line of `---` a value: by itself, of a channel, of an answer and of what callers configure.
pub(crate) fn schema(input: &[u8]) {
    let (source, value) = split(input);
    let value: Value = serde_json::from_slice(value).unwrap_or_default();
    if let Ok(schema) = Schema::compile(source) {
        let said = schema.violations(&value);
        assert_eq!(said.is_empty(), schema.broken_rules(&value).is_empty(), "{said:?}");
        assert!(schema.work(&value) <= MOST_WORK || !said.is_empty(), "checked past its limit");
    }
    let Ok(Value::Object(schema)) = serde_json::from_slice(source) else { return };
    let nodes = json!([
        node("w", "core.channelWrite", &json!({ "channelName": "c", "value": value }), &json!({})),
        node(
            "q",
            "core.interrupt",
            &json!({ "kind": "custom", "resumeSchema": schema,
            "data": { "customKind": "k" } }),
            &json!({})
        ),
    ]);
    let fields = object(value.to_string().as_bytes());
    let top = json!({ "channels": { "c": { "reducer": "replace", "schema": schema } } });
    run_of(&nodes, &json!([]), &top, fields.clone());
    run_of(&json!([nodes[0]]), &json!([]), &json!({ "configurableSchema": schema }), fields);
}

/// The body of a request, and whatever JSON it is, as inputs and as an answer.
pub(crate) fn body(input: &[u8]) {
    let _ = serde_json::from_slice::<CreateRun>(input);
    let _ = WorkflowDefinition::parse(input);
    let nodes = json!([node("q", "core.approvalGate", &json!({ "title": "?" }), &json!({}))]);
    run_of(&nodes, &json!([]), &json!({}), object(input));
}

fn split(input: &[u8]) -> (&[u8], &[u8]) {
    let mark = b"\n---\n";
    match input.windows(mark.len()).position(|part| part == mark) {
        Some(place) => (&input[..place], &input[place + mark.len()..]),
        None => (input, b""),
    }
}

fn object(bytes: &[u8]) -> Object {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => fields,
        Ok(value) => Object::from_iter([("v".to_owned(), value)]),
        Err(_) => Object::new(),
    }
}

fn node(id: &str, kind: &str, config: &Value, inputs: &Value) -> Value {
    json!({ "id": id, "typeId": kind, "name": id, "position": { "x": 0, "y": 0 }, "config": config,
        "inputs": inputs })
}

/// Runs a workflow that is put together around what is tried.
fn run_of(nodes: &Value, edges: &Value, more: &Value, inputs: Object) {
    let mut whole = json!({ "id": "w", "name": "W", "version": "1.0.0", "nodes": nodes,
        "edges": edges, "triggers": [], "variables": [], "metadata": {},
        "settings": { "timeout": 0, "maxRetries": 0 } });
    if let (Value::Object(whole), Value::Object(more)) = (&mut whole, more) {
        whole.extend(more.clone());
    }
    let source = whole.to_string();
    if let Ok(plan) = Plan::parse(source.as_bytes()) {
        drive(plan, inputs);
    }
}

/// Decides until nothing more happens, answers what is asked, and folds the log again.
fn drive(plan: Plan, inputs: Object) {
    let _ = plan.admit(&inputs, &inputs, HostLimits::default());
    let Ok(limits) = plan.admit(&inputs, &Object::new(), HostLimits::default()) else { return };
    let birth = Arc::new(birth(&plan, limits, inputs.clone()));
    let plan = Arc::new(plan);
    let mut run = Run::new(Arc::clone(&birth), Arc::clone(&plan));
    let mut log: Vec<Entry> = Vec::new();
    let mut now = Timestamp::default().plus_millis(1);
    let mut command = Command::Start;
    for turn in 0..MOST_DECISIONS {
        let before = run.clone();
        match run.decide(&command, now) {
            Ok(entries) => {
                assert!(run.decided_work() <= MOST_WORK, "{} units", run.decided_work());
                log.extend(entries);
            }
            Err(_) => run = before,
        }
        let Some(next) = next_command(&run, &inputs, turn) else { break };
        command = next;
        now = run.wakes_at().map_or(now, |at| at.max(now)).plus_millis(1);
    }
    let folded = Run::replay(birth, plan, &log);
    assert_eq!(folded.snapshot(), run.snapshot(), "the log does not rebuild its run");
}

fn next_command(run: &Run, inputs: &Object, turn: usize) -> Option<Command> {
    if run.status().is_terminal() {
        return None;
    }
    let attempt: Option<Attempt> = run.attempts().next();
    if let Some(attempt) = attempt {
        let outcome = match turn % 2 {
            0 => Outcome::Done { outputs: inputs.clone() },
            _ => Outcome::Failed {
                failure: Failure::new("broken", "as asked"),
                class: RetryClass::Final,
            },
        };
        return Some(Command::Finish { attempt, outcome });
    }
    let asked = run.interrupts().next().map(|question| question.node.clone());
    Some(match asked {
        Some(node) => Command::Resolve(Resolution {
            node,
            value: Value::Object(inputs.clone()),
            by: None,
            via: Via::Key,
        }),
        None => Command::Continue,
    })
}

fn birth(plan: &Plan, limits: callboard_core::RunLimits, inputs: Object) -> Birth {
    Birth {
        run_id: "run-1".into(),
        workflow_id: plan.id().clone(),
        definition: "digest".into(),
        owner: Owner { tenant: "t".into(), workspace: None, principal: None },
        test: false,
        inputs,
        configurable: Object::new(),
        tags: Vec::new(),
        metadata: None,
        scope_id: None,
        callback_url: None,
        created_at: Timestamp::default(),
        engine_version: ENGINE_VERSION,
        forced_engine_version: None,
        limits,
        trace: None,
        parent: None,
        unset: Vec::new(),
        fork: None,
        agents: BTreeMap::new(),
        attribution: None,
        delivery: None,
        from_outside: false,
        budget: None,
        charged_to: None,
        principal_scope: None,
        memory: MemoryBirth::default(),
        files: Vec::new(),
        stamp: None,
    }
}

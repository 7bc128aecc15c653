//! Tests of workflows, tested.
#![cfg(test)]

use std::sync::Arc;

use callboard_authoring::{Cases, Format, Source, Verdict, read, read_tree};
use callboard_core::{HostLimits, Plan};

const WORKFLOW: &str = "\
id: letters
variables:
  message: { type: string, required: true }
nodes:
  sort:
    agent: community.callboard.starter.triager
    inputs: { message: \"${vars.message}\" }
    settings: { maxRetries: 2 }
  wait: { type: core.delay, after: sort, config: { durationMs: 3600000 } }
  look: { type: core.approvalGate, after: wait, config: { title: Well? } }
  file:
    type: core.setVariable
    after: look
    config: { name: filed }
    inputs: { value: \"${nodes.sort.queue}\" }
  refuse: { type: core.noop, after: { node: look, rule: any_failed } }
";

fn play(cases: &str) -> Vec<Verdict> {
    let reading = read(Source { text: WORKFLOW, format: Format::Yaml, id: None });
    let canonical = reading.canonical.unwrap();
    let plan = Arc::new(Plan::parse(canonical.as_bytes()).unwrap());
    let text = format!("workflow: letters.yaml\ncases:\n{cases}");
    let tree = read_tree(&text, Format::Yaml).unwrap();
    Cases::of(&tree).unwrap().play(&plan, HostLimits::default(), &|_| None)
}

#[test]
fn good_cases_pass() {
    let verdicts = play(
        "
  - name: accepted
    inputs: { message: Where is my parcel? }
    answers: { sort: { queue: parcels }, look: accept }
    expect:
      variables: { filed: parcels }
      nodes: { file: completed, refuse: skipped }
      given: { sort: { message: Where is my parcel? } }
      events: [run.started, node.completed sort, node.completed wait, node.completed file, run.completed]
      took: 3600000
  - name: rejected
    inputs: { message: x }
    answers: { sort: { queue: parcels }, look: reject }
    expect: { nodes: { file: skipped, refuse: completed } }
  - name: waits
    inputs: { message: x }
    answers: { sort: { queue: parcels } }
    expect: { status: waiting-approval }
  - name: tried again
    inputs: { message: x }
    answers: { sort: [{ fail: { code: busy, retryable: true } }, { queue: a }], look: accept }
    expect: { variables: { filed: a }, events: [node.retried sort, node.completed sort] }
  - name: fails
    inputs: { message: x }
    answers: { sort: { fail: no_model } }
    expect: { error: no_model }
",
    );
    for verdict in &verdicts {
        assert_eq!(verdict.complaint, None, "{}", verdict.name);
    }
    assert_eq!(verdicts.len(), 5);
}

#[test]
fn what_differs_is_said_with_the_story() {
    let verdicts = play(
        "
  - name: other
    inputs: { message: x }
    answers: { sort: { queue: parcels }, look: accept }
    expect: { variables: { filed: billing }, nodes: { refuse: completed }, events: [run.failed] }
  - name: nobody answers
    inputs: { message: x }
    expect: { status: completed }
  - name: refused
    expect: { status: completed }
  - name: misspelt
    inputs: { message: x }
    answers: { srot: {} }
    expect: { status: completed }
",
    );
    let complaints: Vec<String> =
        verdicts.into_iter().map(|verdict| verdict.complaint.unwrap_or_default()).collect();
    for (complaint, parts) in complaints.iter().zip([
        &[
            "variables.filed: expected billing, got parcels",
            "nodes.refuse: expected completed, got skipped",
            "events: run.failed does not come",
            "3600000 ms  node.completed wait",
        ] as &[&str],
        &[
            "node sort (community.callboard.starter.triager) was given {\"message\":\"x\"}",
            "add `answers: { sort:",
        ],
        &["the run is refused: inputs.message: is required"],
        &["there is no node \"srot\"; did you mean `sort`?"],
    ]) {
        for part in parts {
            assert!(complaint.contains(part), "{part}: {complaint}");
        }
    }
}

#[test]
fn a_wrong_file_of_cases_is_told_of() {
    let tree = read_tree("workflow: a.yaml\ncases:\n  - nam: x\n", Format::Yaml).unwrap();
    let problems = Cases::of(&tree).unwrap_err();
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.iter().any(|line| line.contains("did you mean `name`?")), "{told:?}");
}

/// Invokes one run of `below`, and one for each of two items.
const ABOVE: &str = "\
id: above
nodes:
  invoke:
    type: core.flow.sub-workflow-invoke
    inputs: { workflowRef: below, inputs: { item: 1 } }
  fan:
    type: callboard.each
    after: invoke
    config: { workflowId: below, maxConcurrency: 2 }
    inputs: { items: [2, 3] }
";

const BELOW: &str = "\
id: below
variables: { item: number }
nodes:
  ask: { agent: community.callboard.starter.triager, inputs: { n: \"${vars.item}\" } }
  wait: { type: core.delay, after: ask, config: { durationMs: 1000 } }
  tell: { type: core.identity, after: wait, inputs: { said: \"${nodes.ask.word}\" } }
";

fn plan(text: &str) -> Arc<Plan> {
    let reading = read(Source { text, format: Format::Yaml, id: None });
    Arc::new(Plan::parse(reading.canonical.unwrap().as_bytes()).unwrap())
}

#[test]
fn runs_of_other_workflows_are_started_and_answered() {
    let cases = "\
workflow: above.yaml
cases:
  - name: each run has its answer
    answers: { below.ask: [{ word: one }, { word: two }, { word: three }] }
    expect:
      took: 2000
      given: { below.ask: { n: 3 } }
      events: [node.dispatched invoke, node.completed invoke, node.dispatched fan, node.completed fan, run.completed]
      outputs: { results: [{ said: two }, { said: three }] }
  - name: a child that fails
    answers: { below.ask: { fail: no_model } }
    expect: { status: failed }
  - name: nobody answers below
    expect: { status: completed }
  - name: a node that there is not
    answers: { below.aks: { word: one } }
    expect: {}
";
    let tree = read_tree(cases, Format::Yaml).unwrap();
    let (above, below) = (plan(ABOVE), plan(BELOW));
    let others =
        |id: &callboard_protocol::WorkflowId| (id.as_str() == "below").then(|| Arc::clone(&below));
    let play = |others: &dyn Fn(&callboard_protocol::WorkflowId) -> Option<Arc<Plan>>| {
        Cases::of(&tree).unwrap().play(&above, HostLimits::default(), others)
    };
    let complaints: Vec<String> =
        play(&others).into_iter().map(|verdict| verdict.complaint.unwrap_or_default()).collect();
    assert_eq!((&*complaints[0], &*complaints[1]), ("", ""));
    assert!(complaints[2].contains("node below.ask"), "{}", complaints[2]);
    assert!(complaints[3].contains("there is no node \"below.aks\""), "{}", complaints[3]);
    let alone = play(&|_| None).remove(2).complaint.unwrap();
    assert!(alone.contains("node.failed invoke"), "{alone}");
}

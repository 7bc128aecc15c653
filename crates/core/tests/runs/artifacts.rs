//! Artifacts: told of right after the node that made them, once, whatever cuts the log.

use std::sync::Arc;

use callboard_core::{Command, Run};
use serde_json::json;

use crate::given::{Do, at, given};
use crate::story::{check, line, play};

#[test]
fn an_artifact_is_told_of_right_after_its_node() {
    let flow = given("plan:ai next:noop")
        .edges("plan>next")
        .node("plan", json!({ "artifactType": "plan" }));
    let played = check(
        &flow,
        &[(0, Do::Start), (1, Do::Done("plan", json!({ "text": "first" })))],
        &[
            "run.started",
            "node.started plan",
            "node.completed plan",
            "artifact.created plan",
            "node.started next",
            "node.completed next",
            "run.completed",
        ],
    );
    assert_eq!(
        played.payload("artifact.created"),
        json!({ "artifactId": "plan-0", "artifactType": "plan", "nodeId": "plan", "version": "1", "registered": false })
    );
}

#[test]
fn a_failed_node_and_a_node_without_a_type_leave_none() {
    let flow =
        given("a:ai b:noop").edges("a>b:any_failed").node("a", json!({ "artifactType": "plan" }));
    let played = play(&flow, &[(0, Do::Start), (1, Do::FailedForGood("a", "boom"))]);
    assert_eq!(played.count("artifact.created"), 0);
}

#[test]
fn each_round_of_a_loop_makes_its_own() {
    let flow = given("each:loop make:noop")
        .config("each", json!({ "items": [1, 2] }))
        .edges("each>make make>each")
        .node("make", json!({ "artifactType": "page" }));
    let played = play(&flow, &[(0, Do::Start)]);
    let ids: Vec<String> = played
        .log
        .iter()
        .filter(|entry| entry.event.kind() == "artifact.created")
        .map(|entry| entry.event.payload()["artifactId"].to_string())
        .collect();
    assert_eq!(ids, ["\"make-0\"", "\"make-1\""], "{:#?}", played.lines);
}

/// A batch that was cut between the two events is finished by whoever comes next.
#[test]
fn a_cut_between_node_and_artifact_loses_nothing() {
    let flow = given("a:noop b:noop").edges("a>b").node("a", json!({ "artifactType": "plan" }));
    let played = play(&flow, &[(0, Do::Start)]);
    let cut = played.log.iter().position(|entry| entry.event.kind() == "artifact.created");
    let cut = cut.expect("an artifact");
    let (birth, plan) = (Arc::new(flow.birth()), played.run.plan().clone());
    let mut run = Run::replay(birth, plan, &played.log[..cut]);
    let rest = run.decide(&Command::Adopt, at(1)).expect("a run to adopt");
    let lines: Vec<String> = rest.iter().map(|entry| line(&entry.event)).collect();
    assert_eq!(lines[..2], ["run.resumed", "artifact.created a"], "{lines:#?}");
}

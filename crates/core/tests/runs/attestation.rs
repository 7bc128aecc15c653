//! What a node takes over from its child where it must be attested or agreed to. Rows such as M-93 are those of the
//! multi-agent contract.

use callboard_core::{ChildUpdate, Command};
use callboard_protocol::RunStatus;
use serde_json::{Value, json};

use crate::given::{Given, given, object};
use crate::orchestration::Played;

fn taking(attestation: Value, on_failure: &str) -> Given {
    given("call:subWorkflow").config(
        "call",
        json!({ "workflowId": "w", "outputMapping": { "ours": "theirs" },
            "onChildFailure": on_failure, "outputAttestation": attestation }),
    )
}

/// A run whose child has left something.
fn left(flow: &Given) -> Played {
    let mut run = Played::start(flow);
    let order = run.run.child_orders().remove(0);
    let (attempt, workflow) = (order.attempt, order.workflow);
    run.decide(&Command::Dispatch { attempt, child: "run-a".into(), workflow });
    run.decide(&Command::UpdateChild(ChildUpdate {
        used: callboard_protocol::Consumption::default(),
        run: "run-a".into(),
        status: RunStatus::Completed,
        outputs: object(json!({ "ours": 1 })),
        error: None,
        memory: Vec::new(),
        files: Vec::new(),
    }));
    run
}

fn ours(run: &Played) -> Option<Value> {
    run.run.snapshot().variables.get("ours").cloned()
}

/// M-93: the checksum is told before anything is taken over, and once more by the node.
#[test]
fn m93_what_a_child_leaves_is_attested_before_it_is_merged() {
    let run = left(&taking(json!({ "checksum": true }), "fail-parent"));
    let kinds = run.kinds();
    let place = |kind: &str| kinds.iter().position(|it| it.starts_with(kind)).expect("a place");
    assert!(place("core.workflowChain.event") < place("variable.changed"), "{kinds:?}");
    let told = &run.payloads("core.workflowChain.event")[0];
    // printf '{"theirs":1}' | sha256sum
    let checksum = "0d7c83f2d3e88c196d1a567a826cfc63a346bf2e10bc42e8fdc045aac13223e9";
    assert_eq!(told["attestation"], json!({ "checksum": checksum, "algorithm": "sha256" }));
    assert_eq!(
        (&told["phase"], &told["harvestedKeys"]),
        (&json!("output.harvested"), &json!(["ours"]))
    );
    assert_eq!(told["childRunId"], "run-a");
    assert_eq!(run.payloads("node.completed")[0]["outputs"]["attestation"], told["attestation"]);
    assert_eq!((run.run.status(), ours(&run)), (RunStatus::Completed, Some(json!(1))));
    let silent = left(&taking(json!({}), "fail-parent"));
    assert!(silent.payloads("core.workflowChain.event").is_empty());
    assert_eq!(ours(&silent), Some(json!(1)));
}

/// M-94: nothing is merged before somebody agreed, and never where they did not.
#[test]
fn m94_without_consent_nothing_is_merged() {
    let wanted = json!({ "requireApproval": true, "checksum": true });
    let run = left(&taking(wanted.clone(), "fail-parent"));
    assert_eq!((run.run.status(), ours(&run)), (RunStatus::WaitingApproval, None));
    let asked = &run.payloads("interrupt.requested")[0]["data"];
    assert_eq!(asked["artifactData"], json!({ "ours": 1 }));
    assert!(run.payloads("core.workflowChain.event").is_empty());
    for (answer, on_failure, status, expected) in [
        (json!({ "action": "accept" }), "fail-parent", RunStatus::Completed, Some(json!(1))),
        (
            json!({ "action": "edit-accept", "editedArtifactData": { "ours": 2, "alien": 3 } }),
            "fail-parent",
            RunStatus::Completed,
            Some(json!(2)),
        ),
        (json!({ "action": "reject" }), "fail-parent", RunStatus::Failed, None),
        (json!({ "action": "reject" }), "absorb", RunStatus::Completed, None),
    ] {
        let mut run = left(&taking(wanted.clone(), on_failure));
        run.answer("call", answer.clone());
        assert_eq!((run.run.status(), ours(&run)), (status, expected), "{answer}");
        assert_eq!(run.run.snapshot().variables.get("alien"), None);
        let attested = run.payloads("core.workflowChain.event").len();
        assert_eq!(attested, usize::from(ours(&run).is_some()), "{answer}");
    }
    // A cancel is no consent either.
    let mut run = left(&taking(wanted, "fail-parent"));
    run.decide(&Command::Cancel { reason: None, by: None, parent: None });
    assert_eq!((run.run.status(), ours(&run)), (RunStatus::Cancelled, None));
}

/// M-95: what a child may do is narrowed with its order.
#[test]
fn m95_the_order_of_a_child_says_what_it_may_do() {
    let run = Played::start(&taking(json!({ "principalScope": ["mail"] }), "fail-parent"));
    assert_eq!(run.run.child_orders()[0].principal_scope, Some(vec!["mail".to_owned()]));
    let run = Played::start(&taking(json!({}), "fail-parent"));
    assert_eq!(run.run.child_orders()[0].principal_scope, None);
    let wrong = [json!({ "algorithm": "md5" }), json!({ "signed": true }), json!("yes")];
    for wrong in wrong {
        assert!(taking(wrong.clone(), "fail-parent").plan().is_err(), "{wrong}");
    }
}

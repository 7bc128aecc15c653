//! The answer to each fixture, and its expected outcome.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{By, Case, Expect, Observed, Step};

const ASKED: [&str; 3] = ["node.started", "interrupt.requested", "node.suspended"];
const ACCEPTED: [&str; 9] = [
    "run.started",
    "interrupt.requested",
    "approval.requested",
    "node.suspended",
    "approval.received",
    "interrupt.resolved",
    "node.resumed",
    "node.completed",
    "run.completed",
];
const REJECTED: [&str; 7] = [
    "interrupt.requested",
    "node.suspended",
    "approval.received",
    "interrupt.resolved",
    "node.resumed",
    "node.failed",
    "run.failed",
];

const PLAIN: Case = Case {
    fixture: "",
    variant: "",
    node: "gate",
    waits: "waiting-approval",
    steps: &[],
    ends: "completed",
    events: &ACCEPTED,
    also: &[],
};

const fn step(answer: fn() -> Value, expect: Expect) -> Step {
    Step { by: By::Key, answer, expect }
}

const fn refused(answer: fn() -> Value, status: u16) -> Step {
    step(answer, Expect::Refused(status))
}

const ACCEPT: Step = step(accept, Expect::Now("completed"));

fn accept() -> Value {
    json!({ "action": "accept" })
}

fn reject() -> Value {
    json!({ "action": "reject" })
}

fn right_event() -> Value {
    json!({ "orderId": "fixture-order-1", "status": "completed" })
}

pub(super) const SHIPPED: [Case; 8] = [
    Case {
        fixture: "conformance-approval",
        variant: "accept",
        steps: &[refused(|| json!({ "action": "maybe" }), 400), refused(|| json!({}), 400), ACCEPT],
        also: &[("somebody decided", |run| decided(run, "accept"))],
        ..PLAIN
    },
    Case {
        fixture: "conformance-approval",
        variant: "reject",
        steps: &[step(reject, Expect::Now("failed"))],
        ends: "failed",
        events: &REJECTED,
        also: &[("the error says so", rejected)],
        ..PLAIN
    },
    Case {
        fixture: "conformance-clarification",
        node: "ask",
        waits: "waiting-input",
        steps: &[
            refused(|| json!({ "answers": { "q2": "blue" } }), 400),
            step(|| json!({ "answers": { "q1": "blue" } }), Expect::Now("completed")),
        ],
        events: &[
            "interrupt.requested",
            "clarification.requested",
            "node.suspended",
            "clarification.resolved",
            "interrupt.resolved",
            "node.resumed",
            "node.completed",
            "run.completed",
        ],
        also: &[("question and answer are in the log", |run| {
            ensure!(run.only("clarification.requested")?["questions"][0]["id"] == "q1", "no q1");
            let resolved = run.only("clarification.resolved")?;
            ensure!(resolved["answers"]["q1"] == "blue", "{resolved}");
            Ok(())
        })],
        ..PLAIN
    },
    Case {
        fixture: "conformance-interrupt-quorum",
        variant: "three accepts",
        steps: &[
            step(|| vote("accept", "ann"), Expect::Now("waiting-approval")),
            step(|| vote("accept", "bob"), Expect::Now("waiting-approval")),
            step(|| vote("accept", "cem"), Expect::Now("completed")),
        ],
        also: &[("one decision stands for three votes", |run| decided(run, "accept"))],
        ..PLAIN
    },
    Case {
        fixture: "conformance-interrupt-quorum",
        variant: "two rejects",
        steps: &[
            step(|| vote("reject", "ann"), Expect::Now("waiting-approval")),
            step(|| vote("reject", "bob"), Expect::Now("failed")),
        ],
        ends: "failed",
        events: &REJECTED,
        also: &[("the error says so", rejected)],
        ..PLAIN
    },
    Case {
        fixture: "conformance-interrupt-auth-required",
        steps: &[
            Step { by: By::Nobody, answer: accept, expect: Expect::Refused(401) },
            Step { by: By::Reader, answer: accept, expect: Expect::Refused(403) },
            ACCEPT,
        ],
        ..PLAIN
    },
    Case {
        fixture: "conformance-interrupt-external-event",
        variant: "through its link",
        node: "wait-for-external",
        waits: "waiting-external",
        steps: &[
            Step {
                by: By::Link,
                answer: || json!({ "orderId": "another", "status": "completed" }),
                expect: Expect::Refused(422),
            },
            Step { by: By::Link, answer: right_event, expect: Expect::Now("completed") },
        ],
        events: &[
            "interrupt.requested",
            "node.suspended",
            "interrupt.resolved",
            "node.resumed",
            "run.completed",
        ],
        ..PLAIN
    },
    Case {
        fixture: "conformance-interrupt-external-event",
        variant: "with a key",
        node: "wait-for-external",
        waits: "waiting-external",
        steps: &[step(right_event, Expect::Now("completed"))],
        events: &["interrupt.requested", "interrupt.resolved", "run.completed"],
        ..PLAIN
    },
];

pub(super) const WRITTEN: [Case; 6] = [
    Case {
        fixture: "conformance-approval-refine",
        steps: &[
            refused(|| json!({ "action": "refine" }), 400),
            step(refine, Expect::Now("completed")),
        ],
        also: &[("what should change is in the log", |run| {
            decided(run, "refine")?;
            let resolved = &run.only("interrupt.resolved")?["resumeValue"];
            ensure!(*resolved == refine(), "{resolved}");
            Ok(())
        })],
        ..PLAIN
    },
    Case {
        fixture: "conformance-approval-edit-accept",
        steps: &[
            refused(|| json!({ "action": "edit-accept" }), 400),
            step(edit, Expect::Now("completed")),
        ],
        also: &[("the edited artifact is in the log", |run| {
            decided(run, "edit-accept")?;
            let resolved = &run.only("interrupt.resolved")?["resumeValue"];
            ensure!(*resolved == edit(), "{resolved}");
            Ok(())
        })],
        ..PLAIN
    },
    Case {
        fixture: "conformance-approval-reject-routed",
        steps: &[step(reject, Expect::Now("completed"))],
        events: &["interrupt.requested", "approval.received", "node.failed", "run.completed"],
        also: &[("the rejection takes its own road", |run| {
            ensure!(
                run.only("node.failed")?["error"]["code"] == "approval_rejected",
                "another code"
            );
            let states = &run.snapshot["nodeStates"];
            ensure!(states["on-reject"]["status"] == "completed", "{states}");
            ensure!(states["on-accept"]["status"] == "skipped", "{states}");
            Ok(())
        })],
        ..PLAIN
    },
    Case {
        fixture: "conformance-approval-reject-loopback",
        steps: &[step(reject, Expect::AsksAgain), ACCEPT],
        events: &[
            "interrupt.requested",
            "approval.received",
            "interrupt.requested",
            "approval.received",
            "run.completed",
        ],
        also: &[("each round asks under its own key", |run| {
            let keys: Vec<&Value> =
                run.payloads("interrupt.requested").iter().map(|asked| &asked["key"]).collect();
            ensure!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
            Ok(())
        })],
        ..PLAIN
    },
    Case {
        fixture: "conformance-approval-timeout",
        steps: &[],
        ends: "failed",
        events: &REJECTED,
        also: &[
            ("the error says so", rejected),
            ("nobody decided", |run| {
                let received = run.only("approval.received")?;
                ensure!(received["action"] == "timeout", "{received}");
                let resolved = run.only("interrupt.resolved")?;
                ensure!(
                    resolved["outcome"] == "rejected" && resolved["reason"] == "timeout",
                    "{resolved}"
                );
                Ok(())
            }),
        ],
        ..PLAIN
    },
    Case {
        fixture: "conformance-workflow-variable-format-advisory",
        events: &["run.started", "node.completed", "run.completed"],
        ..PLAIN
    },
];

fn vote(action: &str, voter: &str) -> Value {
    json!({ "action": action, "voter": voter })
}

fn refine() -> Value {
    json!({ "action": "refine", "refineFeedback": { "scope": "whole", "text": "shorter" } })
}

fn edit() -> Value {
    json!({ "action": "edit-accept", "editedArtifactData": { "text": "final" } })
}

fn decided(run: &Observed, action: &str) -> Result<()> {
    run.in_order(&ASKED)?;
    let received = run.only("approval.received")?;
    ensure!(received["action"] == action, "{received}");
    let by = received["decidedBy"].as_str().context("nobody decided")?;
    // Whoever an answer says that it is from, the host says who came.
    ensure!(by.starts_with("key:") || by.starts_with("link:"), "{by} is no name of the host's");
    Ok(())
}

fn rejected(run: &Observed) -> Result<()> {
    let error = &run.snapshot["error"];
    ensure!(error["code"] == "approval_rejected", "{error}");
    Ok(())
}

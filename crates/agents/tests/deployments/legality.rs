//! The table of transitions, all of it: what is not in it is refused.

use callboard_agents::{DeploymentPolicy, DeploymentRefusal, EvalGate, Evidence};
use callboard_protocol::DeploymentState;
use serde_json::json;

use crate::given::AgentVersions;

/// 1.0.0 in each state, with 2.0.0 active on `stable` before it, so that it can be rolled back.
fn in_state(state: DeploymentState) -> AgentVersions {
    let desk = AgentVersions::new().staged("2.0.0").after(&["promote 2.0.0 @stable"]);
    let active = ["promote 1.0.0", "promote 1.0.0", "promote 1.0.0 @stable"];
    let steps: Vec<&str> = match state {
        DeploymentState::Draft => vec![],
        DeploymentState::Test => active[..1].to_vec(),
        DeploymentState::Staged => active[..2].to_vec(),
        DeploymentState::Active => active.to_vec(),
        DeploymentState::Paused => [&active[..], &["pause 1.0.0"]].concat(),
        DeploymentState::Deprecated => [&active[..], &["deprecate 1.0.0"]].concat(),
        DeploymentState::RolledBack => [&active[..], &["rollback 1.0.0"]].concat(),
    };
    desk.after(&steps)
}

#[test]
fn every_transition_that_is_not_in_the_table_is_refused() {
    let legal = [
        "draft > promote 1.0.0 test > test",
        "test > promote 1.0.0 staged > staged",
        "staged > promote 1.0.0 active > active",
        "active > pause 1.0.0 > paused",
        "active > deprecate 1.0.0 > deprecated",
        "active > rollback 1.0.0 > rolled-back",
        "active > adjust 1.0.0 50% > active",
        "paused > promote 1.0.0 active > active",
    ];
    let promotions = DeploymentState::ALL.map(|to| format!("promote 1.0.0 {}", to.as_str()));
    let others = ["pause 1.0.0", "deprecate 1.0.0", "rollback 1.0.0", "adjust 1.0.0 50%"];
    let verbs: Vec<&str> = promotions.iter().map(String::as_str).chain(others).collect();
    let mut made = Vec::new();
    for from in DeploymentState::ALL {
        let desk = in_state(from);
        assert_eq!(desk.record("1.0.0").state, from);
        for verb in &verbs {
            match desk.decide(verb) {
                Ok(changed) => made.push(format!(
                    "{} > {verb} > {}",
                    from.as_str(),
                    changed.record.state.as_str()
                )),
                Err(refusal) => {
                    let is_illegal = matches!(&refusal, DeploymentRefusal::Illegal { from: it, .. } if *it == from);
                    assert!(is_illegal, "{} > {verb}: {refusal}", from.as_str());
                    assert_eq!(refusal.code(), "deployment_conflict");
                }
            }
        }
    }
    made.sort();
    let mut legal = legal.map(str::to_owned).to_vec();
    legal.sort();
    assert_eq!(made, legal);
}

#[test]
fn a_promotion_that_names_no_state_goes_one_step() {
    let mut desk = AgentVersions::new();
    for expected in ["1.0.0 test", "1.0.0 staged", "1.0.0 active"] {
        desk.make("promote 1.0.0").unwrap();
        assert_eq!(desk.shown(), expected);
    }
    assert!(matches!(desk.make("promote 1.0.0"), Err(DeploymentRefusal::Illegal { .. })));
}

/// Agents.md §20.17: the protocol has no verb for it.
#[test]
fn a_paused_version_comes_back_to_its_channels() {
    let mut desk = in_state(DeploymentState::Paused);
    let resumed = desk.make("promote 1.0.0 active").unwrap();
    assert_eq!(resumed.event.kind(), "deployment.state.changed");
    assert_eq!(
        resumed.event.payload(),
        json!({ "agentId": "vendor.acme.desk.assistant", "version": "1.0.0",
            "fromState": "paused", "toState": "active" })
    );
    assert_eq!(desk.record("1.0.0").channels, ["stable"]);
    let elsewhere = in_state(DeploymentState::Paused).decide("promote 1.0.0 active @canary");
    assert!(matches!(elsewhere, Err(DeploymentRefusal::Invalid { field: "channel", .. })));
}

///
#[test]
fn what_is_not_offered_is_refused() {
    let mut desk = in_state(DeploymentState::Staged);
    desk.policy.canary = false;
    let split = desk.decide("promote 1.0.0 active @stable 99%").unwrap_err();
    assert!(matches!(split, DeploymentRefusal::Invalid { field: "canaryPercent", .. }));
    assert!(desk.decide("promote 1.0.0 active @stable 100%").is_ok());
    desk.policy.states.remove(&DeploymentState::Active);
    let unknown = desk.decide("promote 1.0.0 active").unwrap_err();
    assert!(matches!(unknown, DeploymentRefusal::Invalid { field: "toState", .. }));
    assert_eq!(unknown.code(), "validation_error");

    let mut desk = in_state(DeploymentState::Active);
    for (verb, state) in [
        ("pause 1.0.0", DeploymentState::Paused),
        ("deprecate 1.0.0", DeploymentState::Deprecated),
        ("rollback 1.0.0", DeploymentState::RolledBack),
    ] {
        desk.policy.states.remove(&state);
        let refused = desk.decide(verb).unwrap_err();
        assert!(matches!(refused, DeploymentRefusal::Invalid { .. }), "{verb}: {refused}");
    }
    desk.policy = DeploymentPolicy { rollback: false, ..DeploymentPolicy::default() };
    let refused = desk.decide("rollback 1.0.0").unwrap_err();
    assert!(matches!(refused, DeploymentRefusal::Invalid { field: "transition", .. }));
}

#[test]
fn fields_that_do_not_belong_to_a_request_are_refused() {
    let draft = in_state(DeploymentState::Draft);
    let staged = in_state(DeploymentState::Staged);
    let active = in_state(DeploymentState::Active);
    for (desk, words, expected) in [
        (&draft, "promote 9.9.9", "version"),
        (&draft, "pause 9.9.9", "version"),
        (&draft, "promote 1.0.0 @stable", "channel"),
        (&draft, "promote 1.0.0 10%", "canaryPercent"),
        (&staged, "promote 1.0.0 10%", "canaryPercent"),
        (&staged, "promote 1.0.0 @latest", "channel"),
        (&staged, "promote 1.0.0 @nightly", "channel"),
        (&active, "promote 1.0.0 @stable", "channel"),
        (&active, "pause 1.0.0 paused", "toState"),
        (&active, "pause 1.0.0 10%", "canaryPercent"),
        (&active, "rollback 1.0.0 10%", "canaryPercent"),
        (&active, "pause 1.0.0 eval:r1", "evalRunId"),
        (&active, "adjust 1.0.0", "canaryPercent"),
        (&active, "adjust 1.0.0 100%", "canaryPercent"),
    ] {
        match desk.decide(words) {
            Err(DeploymentRefusal::Invalid { field, .. }) => assert_eq!(field, expected, "{words}"),
            other => panic!("{words}: {other:?}"),
        }
    }
}

///
#[test]
fn the_gate_before_active_asks_for_an_evaluation_that_passed() {
    let judged = |passed, score| Evidence::Judged { passed, score };
    let strict = Some(EvalGate { required_pass_score: None });
    let scored = Some(EvalGate { required_pass_score: Some(0.8) });
    for (gate, evidence, is_open) in [
        (None, Evidence::NotNamed, true),
        (None, Evidence::Missing, false),
        (None, judged(false, 0.9), false),
        (strict, Evidence::NotNamed, false),
        (strict, Evidence::Missing, false),
        (strict, judged(false, 0.9), false),
        (strict, judged(true, 0.1), true),
        (scored, judged(false, 0.8), true),
        (scored, judged(false, 0.79), false),
    ] {
        let mut desk = in_state(DeploymentState::Staged);
        desk.policy.eval_gate = gate;
        desk.evidence = evidence;
        let words = match evidence {
            Evidence::NotNamed => "promote 1.0.0 active",
            Evidence::Missing | Evidence::Judged { .. } => "promote 1.0.0 active eval:r1",
        };
        let decided = desk.decide(words);
        let code = decided.as_ref().err().map(DeploymentRefusal::code);
        assert_eq!(code, (!is_open).then_some("eval_gate_unmet"), "{gate:?} {evidence:?}");
        if let (Ok(changed), true) = (decided, evidence != Evidence::NotNamed) {
            assert_eq!(changed.record.eval_run_id, Some("r1".into()));
            assert_eq!(changed.event.payload()["evalRunId"], "r1");
        }
    }
}

#[test]
fn the_gate_stands_before_active_alone() {
    let mut desk = AgentVersions::new();
    desk.policy.eval_gate = Some(EvalGate::default());
    desk.make("promote 1.0.0").unwrap();
    desk.make("promote 1.0.0").unwrap();
    assert_eq!(desk.make("promote 1.0.0").unwrap_err().code(), "eval_gate_unmet");
    let mut paused = in_state(DeploymentState::Paused);
    paused.policy.eval_gate = Some(EvalGate::default());
    paused.make("promote 1.0.0 active").unwrap();
}

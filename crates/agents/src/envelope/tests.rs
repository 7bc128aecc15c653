//! The gates before an envelope, in their order.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn question() -> Value {
    json!({
        "type": "clarification.request", "schemaVersion": 1, "envelopeId": "e", "correlationId": "c",
        "payload": { "questions": [{ "id": "q", "question": "why?" }] },
        "meta": { "source": "ai-generation", "ts": "2026-05-18T10:00:00Z" },
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut envelope = question();
    *envelope.pointer_mut(pointer).unwrap() = value;
    envelope
}

fn outcome(envelope: Value, terms: &Terms) -> EnvelopeOutcome {
    accept(envelope, terms).1
}

fn reason(outcome: EnvelopeOutcome) -> String {
    match outcome {
        EnvelopeOutcome::Accepted { .. } => "accepted".to_owned(),
        EnvelopeOutcome::Gated { reason, .. }
        | EnvelopeOutcome::Invalid { reason, .. }
        | EnvelopeOutcome::Breached { reason, .. } => {
            reason.split(':').next().unwrap_or_default().to_owned()
        }
    }
}

fn prior(kind: &str, outcome: EnvelopeOutcome) -> Option<Prior> {
    Some(Prior { kind: kind.to_owned(), outcome })
}

fn unsettled() -> EnvelopeOutcome {
    gated("unknown_envelope_kind", "x", &[])
}

#[test]
fn a_time_that_is_none_is_said_to_be_one() {
    let refused = outcome(with("/meta/ts", json!("tomorrow")), &Terms::default());
    let EnvelopeOutcome::Invalid { reason, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(reason, "invalid_envelope_shape: meta.ts must be a time of ISO 8601");
}

/// terms that would stop an envelope at every gate stop it at the first; each gate that opens shows the next.
#[test]
fn the_gates_stand_in_the_protocols_order() {
    let counter = Some(Counter { current: 1, cap: 1 });
    let mut terms = Terms {
        accepts: Some(Vec::new()),
        strictness: Strictness::Strict,
        versions: BTreeMap::from([("x".to_owned(), 2)]),
        counters: Counters { envelopes_per_turn: counter, ..Counters::default() },
        run_trust: ContentTrust::Untrusted,
        for_approval: true,
        prior: prior("y", unsettled()),
        ..Terms::default()
    };
    let mut envelope = with("/type", json!("x"));
    envelope["extra"] = json!(1);
    assert_eq!(reason(outcome(envelope.clone(), &terms)), "invalid_envelope_shape");
    envelope.as_object_mut().unwrap().remove("extra");
    assert_eq!(reason(outcome(envelope.clone(), &terms)), "unknown_envelope_kind");
    terms.supported = vec!["x".to_owned()];
    assert_eq!(reason(outcome(envelope.clone(), &terms)), "unknown_schema_version");
    envelope["schemaVersion"] = json!(2);
    assert_eq!(reason(outcome(envelope.clone(), &terms)), "envelope_contract_violation");
    terms.accepts = None;
    let limited = outcome(envelope.clone(), &terms);
    assert!(matches!(limited, EnvelopeOutcome::Breached { .. }), "{limited:?}");
    terms.counters = Counters::default();
    assert_eq!(reason(outcome(envelope.clone(), &terms)), "untrusted_content_blocks_approval");
    terms.for_approval = false;
    assert_eq!(reason(outcome(envelope.clone(), &terms)), "envelope_correlation_conflict");
    terms.prior = prior("x", unsettled());
    assert_eq!(outcome(envelope.clone(), &terms), unsettled());
    terms.prior = None;
    assert_eq!(reason(outcome(envelope, &terms)), "accepted");
}

#[test]
fn a_payload_is_judged_before_the_nodes_contract() {
    let terms = Terms { accepts: Some(Vec::new()), ..Terms::default() };
    let broken = with("/payload", json!({ "secret": "s3cr3t" }));
    let judged = outcome(broken, &terms);
    let EnvelopeOutcome::Invalid { reason, details } = &judged else { panic!("{judged:?}") };
    assert_eq!(reason, "envelope_invalid");
    assert!(!details.is_empty());
    assert!(!json!(judged).to_string().contains("s3cr3t"));
}

#[test]
fn universal_kinds_are_taken_whatever_a_node_accepts() {
    let terms = Terms { accepts: Some(vec!["x".to_owned()]), ..Terms::default() };
    assert_eq!(reason(outcome(question(), &terms)), "accepted");
    let other = outcome(with("/type", json!("y")), &Terms { supported: vec!["y".into()], ..terms });
    let EnvelopeOutcome::Gated { allowed_kinds, .. } = other else { panic!("{other:?}") };
    assert_eq!(allowed_kinds[..4], UNIVERSAL_KINDS);
    assert_eq!(allowed_kinds[4], "x");
}

#[test]
fn an_older_version_is_taken_with_a_remark_and_a_newer_one_never() {
    let versions = BTreeMap::from([("clarification.request".to_owned(), 2)]);
    let mut terms = Terms { versions, ..Terms::default() };
    let taken = outcome(question(), &terms);
    assert!(matches!(taken, EnvelopeOutcome::Accepted { schema_version_drift: true, .. }));
    let newer = with("/schemaVersion", json!(3));
    for strictness in [Strictness::Warn, Strictness::Strict] {
        terms.strictness = strictness;
        assert_eq!(reason(outcome(newer.clone(), &terms)), "unknown_schema_version");
    }
    assert_eq!(reason(outcome(question(), &terms)), "unknown_schema_version");
}

///
#[test]
fn a_strangers_words_cannot_approve_anything() {
    let mut terms = Terms { for_approval: true, ..Terms::default() };
    assert_eq!(reason(outcome(question(), &terms)), "accepted");
    terms.run_trust = ContentTrust::Untrusted;
    assert_eq!(reason(outcome(question(), &terms)), "untrusted_content_blocks_approval");
    let mut said = question();
    said["meta"]["contentTrust"] = json!("trusted");
    assert_eq!(reason(outcome(said.clone(), &terms)), "accepted");
    said["meta"]["contentTrust"] = json!("untrusted");
    terms.run_trust = ContentTrust::Trusted;
    assert_eq!(reason(outcome(said.clone(), &terms)), "untrusted_content_blocks_approval");
    terms.for_approval = false;
    let (envelope, taken) = accept(said, &terms);
    let events = project(envelope.as_ref(), &taken, Some(&"n".into()), RefusalMode::FailNode);
    assert_eq!(events[0]["contentTrust"], "untrusted");
    assert_eq!(events[0]["causationId"], "c");
}

#[test]
fn what_a_node_does_not_take_fails_it_or_is_noted() {
    let terms = Terms {
        supported: vec!["x".to_owned()],
        accepts: Some(vec!["y".to_owned()]),
        ..Terms::default()
    };
    let (envelope, refused) = accept(with("/type", json!("x")), &terms);
    let node: callboard_protocol::NodeId = "n".into();
    let failed = project(envelope.as_ref(), &refused, Some(&node), RefusalMode::FailNode);
    assert_eq!(failed[0]["payload"]["error"]["code"], "envelope_contract_violation");
    assert_eq!(failed[0]["payload"]["error"]["details"]["refusedType"], "x");
    let noted = project(envelope.as_ref(), &refused, Some(&node), RefusalMode::DiscardAndWarn);
    assert_eq!(noted[0]["type"], "log.appended");
    assert_eq!(noted[0]["payload"]["level"], "warn");
}

#[test]
fn a_breach_is_told_and_fails_the_node() {
    let counters =
        Counters { schema_rounds: Some(Counter { current: 3, cap: 3 }), ..Counters::default() };
    let terms = Terms { counters, ..Terms::default() };
    let mut asked = with("/type", json!("schema.request"));
    asked["payload"] = json!({ "envelopeType": "x" });
    let (envelope, breached) = accept(asked, &terms);
    let events = project(envelope.as_ref(), &breached, None, RefusalMode::FailNode);
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds, ["cap.breached", "node.failed"]);
    assert_eq!(events[0]["payload"]["kind"], "schema");
}

#[test]
fn who_looks_for_secrets_is_shown_what_is_left() {
    let secrets = vec![("hush-hush".to_owned(), "one".to_owned())];
    for (secrets, shown) in [(secrets, Some(&question()["payload"])), (Vec::new(), None)] {
        let taken = outcome(question(), &Terms { secrets, ..Terms::default() });
        let EnvelopeOutcome::Accepted { redacted_payload, redaction_count, .. } = &taken else {
            panic!("{taken:?}")
        };
        assert_eq!((redacted_payload.as_ref(), *redaction_count), (shown, 0));
    }
}

proptest! {
    #[test]
    fn no_secret_leaves_an_envelope(
        secret in "[a-z]{3,12}", before in "[A-Z ]{0,8}", times in 1..4usize, nested: bool,
    ) {
        let said = format!("{before}{}", secret.clone().repeat(times));
        let context = if nested { json!({ "a": [said] }) } else { json!({ "a": said }) };
        let mut envelope = question();
        envelope["payload"]["questions"][0]["context"] = context;
        let longer = format!("{secret}0");
        let secrets = vec![(secret.clone(), "one".to_owned()), (longer, "two".to_owned())];
        let terms = Terms { secrets, ..Terms::default() };
        let (envelope, taken) = accept(envelope, &terms);
        let EnvelopeOutcome::Accepted { redacted_payload: Some(payload), redaction_count, .. } = &taken
        else { panic!("{taken:?}") };
        prop_assert_eq!(*redaction_count, times);
        let marked = payload.to_string().replace("[REDACTED:one]", "");
        prop_assert!(!marked.contains(&secret) || "questioncontextidwhy".contains(&secret));
        let told = json!(project(envelope.as_ref(), &taken, None, RefusalMode::FailNode)).to_string();
        prop_assert_eq!(told.matches("[REDACTED:one]").count(), times);
    }
}

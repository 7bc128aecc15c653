//! Spans: the protocol's names and attributes, the same for everybody who reads the same log.

use callboard_core::{
    AgentFact, Birth, Command, Fact, Parent, Span, SpanCode, SpanContext, TraceContext, spans,
};
use callboard_protocol::{ChunkMeta, Usage};
use serde_json::{Value, json};

use crate::given::{Do, Given, at, given};
use crate::story::{Played, play};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn traced(flow: &Given, played: &Played) -> Vec<Span> {
    spans(&flow.birth(), played.run.plan(), &played.log, &[])
}

/// `name < parent's name`, in order.
fn tree(spans: &[Span]) -> Vec<String> {
    let name_of =
        |id: &String| spans.iter().find(|span| span.span_id == *id).map(|span| &span.name);
    let line = |span: &Span| match span.parent_span_id.as_ref().and_then(name_of) {
        Some(parent) => format!("{} < {parent}", span.name),
        None => span.name.clone(),
    };
    spans.iter().map(line).collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_run_its_nodes_and_their_attempts_are_nested_spans() {
    let flow =
        given("a:noop b:ai").edges("a>b").node("b", json!({ "settings": { "maxRetries": 1 } }));
    let played = play(
        &flow,
        &[
            (0, Do::Start),
            (10, Do::Failed("b", "busy")),
            (5_000, Do::Continue),
            (5_020, Do::Done("b", json!({}))),
        ],
    );
    let seen = traced(&flow, &played);
    let node = "openwop.node.core.ai.callPrompt";
    assert_eq!(
        tree(&seen),
        [
            "openwop.run".to_owned(),
            "openwop.node.core.noop < openwop.run".to_owned(),
            "openwop.node.core.noop.attempt < openwop.node.core.noop".to_owned(),
            format!("{node} < openwop.run"),
            format!("{node}.attempt < {node}"),
            format!("{node}.attempt < {node}"),
        ]
    );
    let codes: Vec<SpanCode> = seen.iter().map(|span| span.status.code).collect();
    assert_eq!(codes[4..], [SpanCode::Error, SpanCode::Ok]);
    assert_eq!(seen[4].status.message.as_deref(), Some("busy"));
    assert_eq!((seen[4].started_at, seen[4].ended_at), (at(0), Some(at(10))));
    assert_eq!((seen[0].started_at, seen[0].ended_at), (at(0), Some(at(5_020))));
    let attributes = &named(&seen, node).attributes;
    assert_eq!(
        json!(attributes),
        json!({
            "openwop.run_id": "run-1", "openwop.workflow_id": "w", "openwop.tenant_id": "t",
            "openwop.protocol_version": "1.1", "openwop.compliance_class": "public",
            "openwop.node_id": "b", "openwop.node_type": "core.ai.callPrompt",
            "openwop.node_attempt": 1, "openwop.event_seq": 6, "openwop.pii_present": false,
        })
    );
}

/// An agent asks its model several times: what it used adds up on its attempt.
#[test]
fn the_calls_of_an_agent_stand_on_its_attempt() {
    let flow = given("a:ai");
    let mut played = play(&flow, &[(0, Do::Start)]);
    let call = |model: &str, usd: Option<f64>| {
        let usage = json!({ "provider": "anthropic", "model": model, "inputTokens": 100,
            "outputTokens": 20, "costEstimateUsd": usd });
        AgentFact::Used(serde_json::from_value(usage).expect("usage"))
    };
    let mut tell = |place: u32, fact: AgentFact| {
        let facts = vec![Fact::Agent { place, fact }];
        let tell = Command::RecordFacts { attempt: played.attempt("a"), facts };
        let entries = played.run.decide(&tell, at(1)).expect("current");
        played.log.extend(entries);
        let seen = traced(&flow, &played);
        named(&seen, "openwop.node.core.ai.callPrompt.attempt").attributes.clone()
    };
    tell(0, call("small", Some(0.5)));
    let seen = tell(1, call("large", Some(0.25)));
    for (name, value) in [
        ("openwop.cost.tokens.input", json!(200)),
        ("openwop.cost.tokens.output", json!(40)),
        ("openwop.cost.tokens.total", json!(240)),
        ("openwop.cost.usd", json!(0.75)),
        ("openwop.cost.provider", json!("anthropic")),
        ("gen_ai.usage.input_tokens", json!(200)),
        ("gen_ai.usage.output_tokens", json!(40)),
        ("gen_ai.response.model", json!("large")),
        ("gen_ai.provider.name", json!("anthropic")),
    ] {
        assert_eq!(seen.get(name), Some(&value), "{name}");
    }
    assert_eq!(tell(2, call("odd", None)).get("openwop.cost.usd"), None, "a part is no total");
}

/// R76: the caller's trace is continued, and one that sends nothing gets a trace of the run's own.
#[test]
fn r76_a_run_continues_the_trace_of_its_caller() {
    let flow = given("a:noop");
    let played = play(&flow, &[(0, Do::Start)]);
    let own = traced(&flow, &played);
    assert!(own.iter().all(|span| span.trace_id == own[0].trace_id && span.trace_id.len() == 32));
    assert_eq!(own[0].parent_span_id, None);
    let mut birth = flow.birth();
    birth.trace = TraceContext::read(CALLER, None);
    let source = SpanContext::of_run(&flow.birth());
    let joined = spans(&birth, played.run.plan(), &played.log, std::slice::from_ref(&source));
    assert!(joined.iter().all(|span| span.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"));
    assert_eq!(joined[0].parent_span_id.as_deref(), Some("00f067aa0ba902b7"));
    assert_eq!(joined[0].links, [source]);
    assert_eq!(joined[0].span_id, SpanContext::of_run(&birth).span_id);
    let node = SpanContext::of_node(&birth, &"a".into(), 0);
    assert_eq!(named(&joined, "openwop.node.core.noop").span_id, node.span_id);
}

/// R76: a run within a run nests under the node that started it, and is recorded only where that one is.
#[test]
fn r76_a_child_nests_under_the_node_that_started_it() {
    let flow = given("a:noop");
    let mut above = flow.birth();
    above.trace = TraceContext::read(&CALLER.replace("-01", "-00"), Some("vendor=1"));
    let trace = TraceContext::below(&above, &"call".into(), 2);
    assert!(!trace.is_sampled());
    assert_eq!(trace.tracestate.as_deref(), Some("vendor=1"));
    let birth = Birth {
        run_id: "run-2".into(),
        trace: Some(trace),
        parent: Some(Parent {
            run_id: "run-1".into(),
            workflow_id: "above".into(),
            node_id: "call".into(),
            depth: 1,
            root: None,
            place: 1,
            cause: "core.subWorkflow".into(),
        }),
        ..flow.birth()
    };
    let played = play(&flow, &[(0, Do::Start)]);
    let seen = spans(&birth, played.run.plan(), &played.log, &[]);
    let call = SpanContext::of_node(&above, &"call".into(), 2);
    assert_eq!(seen[0].parent_span_id.as_ref(), Some(&call.span_id));
    assert!(seen.iter().all(|span| span.trace_id == call.trace_id));
    let attributes = &seen[0].attributes;
    assert_eq!(attributes["openwop.parent.run_id"], "run-1");
    assert_eq!(attributes["openwop.parent.workflow_id"], "above");
    assert_eq!(attributes["openwop.parent.node_id"], "call");
}

/// F60.
#[test]
fn f60_every_span_says_how_sensitive_its_workflow_is() {
    let flow = given("a:noop b:getVariable")
        .edges("a>b")
        .config("b", json!({ "name": "email" }))
        .top(json!({
            "metadata": { "complianceClass": "phi" },
            "variables": [{ "name": "email", "type": "string", "sensitive": true }],
        }));
    let flow = flow.inputs(json!({ "email": "somebody@example.com" }));
    let played = play(&flow, &[(0, Do::Start)]);
    let seen = traced(&flow, &played);
    assert!(seen.iter().all(|span| span.attributes["openwop.compliance_class"] == "phi"));
    let present = |name: &str| named(&seen, name).attributes["openwop.pii_present"].clone();
    assert_eq!(present("openwop.run"), json!(true));
    assert_eq!(present("openwop.node.core.noop"), json!(false));
    assert_eq!(present("openwop.node.core.getVariable"), json!(true));
    let fields = &named(&seen, "openwop.node.core.getVariable").attributes;
    assert_eq!(fields["openwop.sensitive_fields"], json!(["variables.email"]));
    assert!(!json!(seen).to_string().contains("somebody@"));
}

#[test]
fn a_class_alone_makes_the_run_sensitive_too() {
    let flow = given("a:noop").top(json!({ "metadata": { "complianceClass": "pii" } }));
    let seen = traced(&flow, &play(&flow, &[(0, Do::Start)]));
    assert_eq!(seen[0].attributes["openwop.pii_present"], json!(true));
}

/// A takeover neither loses nor doubles a span: the lost attempt ends where the next one begins.
#[test]
fn a_takeover_shows_as_one_more_attempt() {
    let flow = given("a:ai");
    let played = play(&flow, &[(0, Do::Start), (50, Do::Adopt), (60, Do::Done("a", json!({})))]);
    let seen = traced(&flow, &played);
    let attempts: Vec<_> = seen
        .iter()
        .filter(|span| span.name.ends_with(".attempt"))
        .map(|span| (span.ended_at, span.status.code))
        .collect();
    assert_eq!(attempts, [(Some(at(50)), SpanCode::Unset), (Some(at(60)), SpanCode::Ok)]);
    assert_eq!(seen[0].events[0].name, "run.resumed");
}

#[test]
fn a_broken_limit_stands_on_the_run() {
    let flow = given("a:noop b:noop").edges("a>b").most_executions(1);
    let seen = traced(&flow, &play(&flow, &[(0, Do::Start)]));
    let attributes = &seen[0].attributes;
    assert_eq!(attributes["openwop.cap_kind"], "node-executions");
    assert_eq!(
        (&attributes["openwop.cap_limit"], &attributes["openwop.cap_observed"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(seen[0].status.message.as_deref(), Some("recursion_limit_exceeded"));
}

#[test]
fn what_a_call_used_stands_on_its_attempt() {
    let flow = given("a:ai");
    let mut played = play(&flow, &[(0, Do::Start)]);
    let usage = Usage { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
    let meta = ChunkMeta {
        finish_reason: None,
        model: Some("m-1".into()),
        usage: Some(usage),
        provider: Some("acme".into()),
    };
    let chunk =
        Fact::Chunk { index: 0, text: "a secret text".into(), is_last: true, meta: Some(meta) };
    let tell =
        callboard_core::Command::RecordFacts { attempt: played.attempt("a"), facts: vec![chunk] };
    let entries = played.run.decide(&tell, at(1)).expect("current");
    played.log.extend(entries);
    let seen = traced(&flow, &played);
    let attributes = &named(&seen, "openwop.node.core.ai.callPrompt.attempt").attributes;
    let told: Vec<&Value> = [
        "openwop.cost.tokens.input",
        "openwop.cost.tokens.output",
        "openwop.cost.tokens.total",
        "openwop.cost.provider",
        "gen_ai.response.model",
    ]
    .iter()
    .map(|name| &attributes[*name])
    .collect();
    assert_eq!(json!(told), json!([3, 4, 7, "acme", "m-1"]));
    assert!(!json!(seen).to_string().contains("a secret text"));
}

#[test]
fn tags_stand_on_the_run_without_credentials() {
    let flow = given("a:noop");
    let played = play(&flow, &[(0, Do::Start)]);
    let mut birth = flow.birth();
    birth.tags = vec!["nightly".into(), format!("key=sk-{}", "0123456789abcdef0123")];
    let seen = spans(&birth, played.run.plan(), &played.log, &[]);
    assert_eq!(seen[0].attributes["openwop.run.tags"], json!(["nightly", "key=[REDACTED]"]));
    assert!(!seen[1].attributes.contains_key("openwop.run.tags"));
}

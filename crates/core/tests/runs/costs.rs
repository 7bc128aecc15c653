//! What a run has cost, as its snapshot says it.

use callboard_core::{Command, Fact};
use callboard_protocol::{ChunkMeta, Usage};
use serde_json::{Value, json};

use crate::given::{Do, at, given};
use crate::story::play;

fn cost(snapshot: &impl serde::Serialize) -> Value {
    json!(snapshot)["metrics"]["openwopCost"].clone()
}

/// R77: the names of the protocol alone, and nothing that looks like a key.
#[test]
fn a_node_that_reports_cost_leaves_it_on_the_run() {
    let emit = json!({ "typeId": "conformance.cost.emit", "config": { "attrs": {
        "openwop.cost.tokens.input": 100, "openwop.cost.tokens.output": 50,
        "openwop.cost.usd": 0.5, "openwop.cost.provider": "anthropic",
        "openwop.cost.model": "dropped", "openwop.cost.leaked_token": "sk-ant-0123456789abcdef0123",
    } } });
    let flow = given("a:noop b:noop").edges("a>b").node("a", emit.clone()).node("b", emit);
    let played = play(&flow, &[(0, Do::Start)]);
    let expected =
        json!({ "usd": 1.0, "tokens": { "input": 200, "output": 100 }, "provider": "anthropic" });
    assert_eq!(cost(&played.run.snapshot()), expected);
    let free = play(&given("a:noop"), &[(0, Do::Start)]);
    assert_eq!(cost(&free.run.snapshot()), Value::Null);
}

#[test]
fn a_scripted_stream_leaves_what_it_used_on_the_run() {
    let flow = given("a:ai");
    let mut played = play(&flow, &[(0, Do::Start)]);
    let usage = Usage { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
    let meta = ChunkMeta {
        finish_reason: None,
        model: Some("m-1".into()),
        usage: Some(usage),
        provider: Some("mock".into()),
    };
    let chunk = Fact::Chunk { index: 0, text: "hello".into(), is_last: true, meta: Some(meta) };
    let tell = Command::RecordFacts { attempt: played.attempt("a"), facts: vec![chunk] };
    let entries = played.run.decide(&tell, at(1)).expect("current");
    played.log.extend(entries);
    // Nobody said what it cost, and unknown is not free.
    let expected =
        json!({ "tokens": { "input": 3, "output": 4 }, "model": "m-1", "provider": "mock" });
    assert_eq!(cost(&played.run.snapshot()), expected);
}

//! `provider.usage` against its schema.

use callboard_protocol::ProviderUsage;
use serde_json::{Value, json};

use super::{check, compile, openwop};

pub(super) fn full() -> ProviderUsage {
    ProviderUsage {
        provider: "anthropic".into(),
        model: "claude-sonnet-4-5".into(),
        input_tokens: 12,
        output_tokens: 3,
        total_tokens: Some(15),
        cost_estimate_usd: Some(0.000_081),
        currency: Some("USD".into()),
        cache_hit: Some(false),
        cache_read_tokens: Some(4),
        cache_write_tokens: Some(0),
        node_id: Some("agent".into()),
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
    }
}

fn spare() -> ProviderUsage {
    ProviderUsage {
        total_tokens: None,
        cost_estimate_usd: None,
        currency: None,
        cache_hit: None,
        cache_read_tokens: None,
        cache_write_tokens: None,
        node_id: None,
        trace_id: None,
        ..full()
    }
}

///
#[test]
fn what_a_call_used_matches_its_schema() {
    let Some(folder) = openwop() else { return };
    let place = "https://openwop.dev/spec/v1/run-event-payloads.schema.json#/$defs/providerUsage";
    let validator = compile(&folder, &json!({ "$ref": place }));
    for usage in [full(), spare()] {
        check(&validator, "provider.usage", &json!(usage));
    }
}

///
#[test]
fn nothing_else_can_be_said_of_a_call() {
    let mut value = json!(full());
    value["credentialRef"] = json!("secret:anthropic");
    assert!(serde_json::from_value::<ProviderUsage>(value).is_err());
    let least = json!({ "provider": "a", "model": "b", "inputTokens": 0, "outputTokens": 0 });
    let read: ProviderUsage = serde_json::from_value(least.clone()).expect("the least");
    assert_eq!(serde_json::to_value(read).expect("JSON"), least);
    assert_eq!(json!(spare())["costEstimateUsd"], Value::Null, "an unknown cost is left out");
}

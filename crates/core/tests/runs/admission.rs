//! What is checked before a run exists (F12, F13, F27, F51, F52), and the versions it is stamped with (F55).

use std::collections::BTreeMap;

use callboard_core::{Confidence, ConformanceNodes, HostLimits, Inadmissible, RunLimits};
use callboard_protocol::{ENGINE_VERSION, EffectiveBudget};
use serde_json::{Value, json};

use crate::given::{Do, Given, given, object};
use crate::story::check_within;

const HOST: HostLimits = HostLimits {
    max_node_executions: 100,
    max_run_duration_ms: 60_000,
    max_loop_iterations: 20,
    max_family_runs: 100,
    confidence_floor: Confidence::FLOOR,
    execution_model: 3,
    transcript_window: 100,
    run_budget: UNBOUNDED,
    member_day: UNBOUNDED,
    tenant_day: UNBOUNDED,
};
const UNBOUNDED: EffectiveBudget = EffectiveBudget {
    max_tokens: None,
    max_cost_usd: None,
    max_tool_calls: None,
    max_retries: None,
};

fn admit(flow: &Given, inputs: Value, configurable: Value) -> Result<RunLimits, Inadmissible> {
    flow.plan().expect("runs").admit(&object(inputs), &object(configurable), HOST)
}

fn variables(list: Value) -> Given {
    given("n:noop").top(json!({ "variables": list }))
}

/// F12: required without a default must be sent; what nobody declared is tolerated.
#[test]
fn f12_a_required_input_must_be_sent() {
    let flow = variables(json!([{ "name": "nonce", "type": "string", "required": true }]));
    let refusal = admit(&flow, json!({}), json!({})).expect_err("missing");
    assert_eq!((refusal.code, refusal.path.as_str()), ("validation_error", "inputs.nonce"));
    assert_eq!(refusal.to_string(), "inputs.nonce: is required");
    assert!(admit(&flow, json!({ "nonce": "x", "userField": [1] }), json!({})).is_ok());
    let defaulted =
        variables(json!([{ "name": "n", "type": "number", "required": true, "defaultValue": 1 }]));
    assert!(admit(&defaulted, json!({}), json!({})).is_ok());
}

/// F12: an input has the type that its variable declares.
#[test]
fn f12_an_input_has_its_declared_type() {
    let right = json!({ "string": "s", "number": 1.5, "boolean": true, "object": {}, "array": [] });
    for (kind, value) in right.as_object().expect("fields") {
        let flow = variables(json!([{ "name": "v", "type": kind }]));
        assert!(admit(&flow, json!({ "v": value }), json!({})).is_ok(), "{kind}");
        for (other, value) in
            right.as_object().expect("fields").iter().filter(|(other, _)| *other != kind)
        {
            let refusal = admit(&flow, json!({ "v": value }), json!({})).expect_err(other);
            assert_eq!(refusal.message, format!("must be of type {kind}"));
        }
    }
}

/// F13: a format is advice; an input or default that does not match it runs all the same.
#[test]
fn f13_a_format_never_fails_a_run() {
    let flow = variables(
        json!([{ "name": "mail", "type": "string", "format": "email", "defaultValue": "not one" }]),
    );
    assert!(admit(&flow, json!({ "mail": "nor this" }), json!({})).is_ok());
    check_within(&flow, &[(0, Do::Start)], &["run.completed"]);
}

/// F23: a caller does not write channels.
#[test]
fn f23_an_input_named_like_a_channel_is_refused() {
    let flow = given("n:noop").top(json!({ "channels": { "c": { "reducer": "append" } } }));
    assert_eq!(
        admit(&flow, json!({ "c": [] }), json!({})).expect_err("a channel").path,
        "inputs.c"
    );
}

/// F27: a type that nobody here performs is refused, with what it would need.
#[test]
fn f27_a_gated_type_is_refused_by_name() {
    for (kind, capability) in
        [("core.ai.structuredOutput", "aiProviders"), ("vendor.acme.thing", "nodePacks")]
    {
        let flow = given(&format!("ok:noop gated:{kind}"));
        let plan = flow.plan().expect("a definition");
        let refusal =
            plan.admit_types(|_| false, &BTreeMap::new(), ConformanceNodes::On).expect_err(kind);
        assert_eq!(refusal.code, "capability_required");
        let expected =
            json!({ "requiredCapability": capability, "offendingTypeId": kind, "nodeId": "gated" });
        assert_eq!(Value::Object(refusal.details), expected);
        assert!(
            plan.admit_types(
                |performed| performed.as_str() == kind,
                &BTreeMap::new(),
                ConformanceNodes::On
            )
            .is_ok()
        );
    }
    let plan = given("n:conformance.requiresMissing").plan().expect("a definition");
    assert!(plan.admit_types(|_| false, &BTreeMap::new(), ConformanceNodes::On).is_ok());
    assert!(plan.admit_types(|_| false, &BTreeMap::new(), ConformanceNodes::Off).is_err());
}

/// F49, F51: the smallest of what the caller, the workflow and the host allow.
#[test]
fn f51_limits_are_the_smallest_of_all() {
    let limits = |timeout: Value, configurable: Value| {
        let flow = given("n:noop").top(json!({ "settings": timeout }));
        admit(&flow, json!({}), configurable)
            .map(|limits| (limits.node_executions, limits.duration_ms))
    };
    assert_eq!(limits(json!({}), json!({})), Ok((100, 60_000)));
    assert_eq!(limits(json!({ "timeout": 0 }), json!({})), Ok((100, 60_000)));
    assert_eq!(limits(json!({ "timeout": 500 }), json!({})), Ok((100, 500)));
    assert_eq!(limits(json!({ "timeout": 500 }), json!({ "runTimeoutMs": 400 })), Ok((100, 400)));
    assert_eq!(limits(json!({ "timeout": 500 }), json!({ "runTimeoutMs": 900 })), Ok((100, 500)));
    assert_eq!(
        limits(json!({}), json!({ "recursionLimit": 3, "runTimeoutMs": 99_999 })),
        Ok((3, 60_000))
    );
    assert_eq!(limits(json!({}), json!({ "recursionLimit": 5_000 })), Ok((100, 60_000)));
}

/// The protocol's reserved keys have their types and ranges whatever the workflow says.
#[test]
fn reserved_keys_are_checked() {
    for (key, wrong) in [
        ("recursionLimit", json!(0)),
        ("recursionLimit", json!("3")),
        ("runTimeoutMs", json!(-5)),
        ("runTimeoutMs", json!(1.5)),
        ("maxLoopIterations", json!(0)),
        ("model", json!("")),
        ("temperature", json!(2.1)),
        ("maxTokens", json!(0)),
        ("escalationThreshold", json!(-0.1)),
        ("promptOverrides", json!({ "a": 1 })),
        ("reasoningVerbosity", json!("loud")),
        ("mockProvider", json!("stream-text")),
        ("mockProvider", json!({ "id": "stream-text", "extra": 1 })),
    ] {
        let refusal = admit(&given("n:noop"), json!({}), json!({ key: wrong })).expect_err(key);
        assert_eq!(
            (refusal.code, refusal.path),
            ("validation_error", format!("configurable.{key}"))
        );
    }
    let fine = json!({ "model": "m", "temperature": 2, "maxTokens": 1, "escalationThreshold": 0,
        "promptOverrides": { "a": "b" }, "reasoningVerbosity": "off", "mineToo": [1],
        "mockProvider": { "id": "stream-text", "config": { "tokens": ["a"], "delayMsPerToken": 5000 } } });
    assert!(admit(&given("n:noop"), json!({}), fine).is_ok());
}

#[test]
fn an_unknown_mock_provider_is_refused_with_those_that_exist() {
    let refusal = admit(&given("n:noop"), json!({}), json!({ "mockProvider": { "id": "oracle" } }))
        .expect_err("unknown");
    assert_eq!(refusal.code, "unsupported_mock_provider");
    assert_eq!(Value::Object(refusal.details), json!({ "supported": ["stream-text"] }));
    for config in [json!({ "tokens": [1] }), json!({ "delayMsPerToken": 5_001 }), json!([])] {
        let provider = json!({ "mockProvider": { "id": "stream-text", "config": config } });
        assert!(admit(&given("n:noop"), json!({}), provider).is_err(), "{config}");
    }
}

/// M-83: more turns than the host allows count as what it allows; fewer than one are refused.
#[test]
fn m83_turns_are_clamped_to_the_hosts() {
    let flow = given("n:noop");
    for (asked, expected) in [(5, 5), (1_000, 20)] {
        let limits = admit(&flow, json!({}), json!({ "maxLoopIterations": asked }));
        assert_eq!(limits.expect("limits").loop_iterations, expected);
    }
    assert_eq!(admit(&flow, json!({}), json!({})).expect("limits").loop_iterations, 20);
    for wrong in [json!(0), json!(-1), json!(1.5), json!("5")] {
        let refusal = admit(&flow, json!({}), json!({ "maxLoopIterations": wrong }));
        assert_eq!(refusal.expect_err("a refusal").path, "configurable.maxLoopIterations");
    }
}

/// F52: the workflow's own schema for `configurable` is enforced, and kept for readers.
#[test]
fn f52_the_configurable_schema_is_enforced() {
    let schema = json!({ "type": "object", "additionalProperties": false,
        "properties": { "recursionLimit": { "type": "integer", "minimum": 1 }, "tags": { "type": "array" } } });
    let flow = given("n:noop").top(json!({ "configurableSchema": schema }));
    assert!(admit(&flow, json!({}), json!({ "recursionLimit": 2, "tags": [] })).is_ok());
    for wrong in [json!({ "recursionLimit": "2" }), json!({ "other": 1 })] {
        assert_eq!(admit(&flow, json!({}), wrong).expect_err("refused").code, "validation_error");
    }
    let plan = flow.plan().expect("runs");
    assert_eq!(json!(plan.definition().configurable_schema), schema);
    let broken = given("n:noop").top(json!({ "configurableSchema": { "type": "nothing" } }));
    assert_eq!(broken.plan().expect_err("no schema").path, "configurableSchema");
}

/// F55: events carry the version that the run was created under, or the one a test forced.
#[test]
fn f55_a_run_is_stamped_with_its_version() {
    let mut birth = given("n:noop").birth();
    assert_eq!((birth.stamped_version(), birth.is_from_the_future()), (ENGINE_VERSION, false));
    birth.forced_engine_version = Some(7);
    assert_eq!((birth.stamped_version(), birth.is_from_the_future()), (7, false));
    birth.engine_version = ENGINE_VERSION + 1;
    assert!(birth.is_from_the_future());
}

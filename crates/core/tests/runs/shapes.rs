//! Definitions that are refused, with the place that is wrong (F1).

use serde_json::{Value, json};

use crate::given::{Given, given};

fn whole() -> Given {
    given("a:noop b:noop")
        .edges("a>b")
        .edge(0, json!({ "condition": { "type": "equals", "left": "x", "right": 1 } }))
        .ports("a", json!({ "p": { "type": "static", "value": 1 } }))
        .node("b", json!({ "agent": { "agentId": "core.x" } }))
        .top(json!({
            "variables": [{ "name": "v", "type": "string" }],
            "channels": { "c": { "reducer": "append", "access": { "readers": ["a"] } } },
            "groups": [{ "id": "g", "name": "g", "nodeIds": [], "position": { "x": 0, "y": 0 }, "size": { "width": 1, "height": 1 } }],
            "defaults": {},
        }))
}

fn refused(definition: &Value) -> (String, String) {
    let error =
        callboard_core::Plan::parse(definition.to_string().as_bytes()).expect_err("refused");
    (error.path, error.message)
}

#[test]
fn the_whole_definition_is_accepted() {
    whole().plan().expect("accepted");
}

/// F1: an unknown key is named, with the place where it stands.
#[test]
fn f1_an_unknown_key_is_refused_at_every_level() {
    for (place, path) in [
        ("", "extra"),
        ("/nodes/0", "nodes[0].extra"),
        ("/nodes/0/inputs/p", "nodes[0].inputs.p"),
        ("/nodes/1/agent", "nodes[1].agent.extra"),
        ("/edges/0", "edges[0].extra"),
        ("/edges/0/condition", "edges[0].condition.extra"),
        ("/triggers/0", "triggers[0].extra"),
        ("/variables/0", "variables[0].extra"),
        ("/channels/c", "channels.c.extra"),
        ("/channels/c/access", "channels.c.access"),
        ("/groups/0", "groups[0].extra"),
        ("/defaults", "defaults.extra"),
    ] {
        let mut definition = whole().definition;
        definition.pointer_mut(place).expect(place)["extra"] = json!(1);
        let (found, message) = refused(&definition);
        assert_eq!(found, path, "{place}: {message}");
        assert!(message.contains("`extra`"), "{place}: {message}");
    }
    for place in ["/metadata", "/settings", "/nodes/0/config", "/nodes/0/position"] {
        let mut flow = whole();
        flow.definition.pointer_mut(place).expect(place)["extra"] = json!(1);
        assert!(flow.plan().is_ok(), "{place} is open");
    }
}

/// F1: ids, types, names and numbers that the schema does not admit.
#[test]
fn f1_a_value_out_of_its_pattern_is_refused() {
    for (place, value, path) in [
        ("/id", json!("Upper"), "id"),
        ("/id", json!("dots.not"), "id"),
        ("/id", json!("9first"), "id"),
        ("/id", json!(""), "id"),
        ("/id", json!("a".repeat(129)), "id"),
        ("/name", json!(""), "name"),
        ("/name", json!("n".repeat(257)), "name"),
        ("/version", json!(""), "version"),
        ("/nodes", json!([]), "nodes"),
        ("/nodes/0/id", json!(""), "nodes[0].id"),
        ("/nodes/0/typeId", json!("Core.noop"), "nodes[0].typeId"),
        ("/nodes/0/typeId", json!("core noop"), "nodes[0].typeId"),
        ("/nodes/0/inputs/p/type", json!("magic"), "nodes[0].inputs.p.type"),
        ("/edges/0/triggerRule", json!("sometimes"), "edges[0].triggerRule"),
        ("/edges/0/condition/type", json!("maybe"), "edges[0].condition.type"),
        ("/triggers/0/type", json!("moon"), "triggers[0].type"),
        ("/variables/0/type", json!("date"), "variables[0].type"),
        ("/channels/c/reducer", json!("sum"), "channels.c.reducer"),
        ("/channels/c/access", json!("friends"), "channels.c.access"),
    ] {
        let mut definition = whole().definition;
        *definition.pointer_mut(place).expect(place) = value.clone();
        let (found, message) = refused(&definition);
        assert_eq!(found, path, "{value}: {message}");
    }
}

#[test]
fn f1_bounds_of_channels_and_settings() {
    for (channel, field) in [
        (json!({ "maxSize": 0 }), "maxSize"),
        (json!({ "ttlMs": 0 }), "ttlMs"),
        (json!({ "ttlMs": 31_536_000_001_u64 }), "ttlMs"),
        (json!({ "schemaVersion": 0 }), "schemaVersion"),
    ] {
        let mut definition = whole().definition;
        definition["channels"]["c"][field] = channel[field].clone();
        assert_eq!(refused(&definition).0, format!("channels.c.{field}"));
    }
    let mut definition = whole().definition;
    definition["settings"] = json!({ "maxLoopbackIterations": 0 });
    assert_eq!(refused(&definition).0, "settings.maxLoopbackIterations");
}

/// F1: every required field is missed by name.
#[test]
fn f1_a_missing_field_is_named() {
    for field in
        ["id", "name", "version", "nodes", "edges", "triggers", "variables", "metadata", "settings"]
    {
        let mut definition = whole().definition;
        definition.as_object_mut().expect("fields").remove(field);
        let (_, message) = refused(&definition);
        assert!(message.contains(&format!("`{field}`")), "{message}");
    }
    for field in ["id", "typeId", "name", "position", "config", "inputs"] {
        let mut definition = whole().definition;
        definition["nodes"][0].as_object_mut().expect("fields").remove(field);
        let (path, message) = refused(&definition);
        assert_eq!(path, "nodes[0]");
        assert!(message.contains(&format!("`{field}`")), "{message}");
    }
}

/// What parses and still cannot run.
#[test]
fn a_graph_that_does_not_hold_together_is_refused() {
    let twice = given("a:noop a:noop");
    assert_eq!(twice.plan().expect_err("twice").path, "nodes[1].id");
    let nowhere = given("a:noop").edges("a>ghost");
    assert_eq!(nowhere.plan().expect_err("no ghost").path, "edges[0].targetNodeId");
    let from_nowhere = given("a:noop").edges("ghost>a");
    assert_eq!(from_nowhere.plan().expect_err("no ghost").path, "edges[0].sourceNodeId");
    let edge_twice = given("a:noop b:noop").edges("a>b a>b").edge(1, json!({ "id": "e00" }));
    assert_eq!(edge_twice.plan().expect_err("twice").path, "edges[1]");
}

#[test]
fn text_that_is_no_json_is_refused_without_a_panic() {
    for text in ["", "{", "[]", "null", "{\"id\": \"\u{fffd}\"}", "{} {}"] {
        assert!(callboard_core::Plan::parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(callboard_core::Plan::parse(b"\xff\xfe").is_err());
}

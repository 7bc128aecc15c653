//! The published node types that core computes, each with an example that its pack's own schemas judge.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use callboard_core::{ConformanceNodes, NODE_TYPES, OWN_CONFIG, Schema, published_type};
use serde_json::{Value, json};

use crate::given::{Do, given};
use crate::story::play;

/// The folder with the published packs; none, with a line that says so, where it is missing and not required.
#[expect(clippy::disallowed_methods, reason = "only a test may ask whether it may be skipped")]
fn packs() -> Option<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/openwop/node-packs");
    let folder = PathBuf::from(folder);
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|part| part.trim() == "openwop");
    assert!(!is_required, "openwop is required and not there");
    // Past the capture of test output: a skipped test must be seen.
    let told = std::io::stderr()
        .write_all(b"skipped: the published node packs are not at ../shared/openwop/node-packs\n");
    told.expect("standard error is open");
    None
}

type Example = (String, Value, Value, Value);

/// Runs one node.
fn outcome(type_id: &str, config: &Value, inputs: &Value) -> Value {
    let ports: serde_json::Map<String, Value> = inputs
        .as_object()
        .expect("an object")
        .iter()
        .map(|(port, value)| (port.clone(), json!({ "type": "static", "value": value })))
        .collect();
    let flow = given(&format!("n:{type_id}")).config("n", config.clone());
    let played =
        play(&flow.ports("n", Value::Object(ports)), &[(0, Do::Start), (90_000, Do::Continue)]);
    match played.count("node.completed") {
        0 => json!({ "failed": played.payload("node.failed")["error"] }),
        _ => played.payload("node.completed")["outputs"].clone(),
    }
}

/// Type, configuration, inputs, and what of the outputs must be so; `failed` for an example that must fail.
fn examples() -> Vec<Example> {
    serde_json::from_str(include_str!("packs.json")).expect("a list of examples")
}

#[test]
fn every_published_type_does_what_its_example_says() {
    let mut tried = BTreeSet::new();
    for (type_id, config, inputs, expected) in examples() {
        let outcome = outcome(&type_id, &config, &inputs);
        for (name, value) in expected.as_object().expect("an object") {
            assert_eq!(&outcome[name], value, "{type_id} {name}: {outcome:#}");
        }
        let may_fail = expected.get("failed").is_some();
        assert!(may_fail || outcome.get("failed").is_none(), "{type_id}: {outcome:#}");
        tried.insert(type_id);
    }
    let computed = |type_id: &str| {
        ["core.flow.", "core.openwop.data.", "core.crypto."]
            .iter()
            .any(|pack| type_id.starts_with(pack))
    };
    // What a workflow comes to that another one runs, `each.rs` says.
    let is_run = |type_id: &str| type_id == "core.flow.sub-workflow-invoke";
    let known = NODE_TYPES.iter().filter(|known| computed(known.type_id));
    for known in known.filter(|known| !is_run(known.type_id)) {
        assert!(tried.contains(known.type_id), "{} has no example", known.type_id);
    }
}

#[test]
fn configuration_inputs_and_outputs_match_the_schemas_of_the_packs() {
    let Some(packs) = packs() else { return };
    let examples = examples();
    let mut checked = 0;
    for pack in std::fs::read_dir(&packs).expect("the packs") {
        let folder = pack.expect("a folder").path();
        let Ok(manifest) = std::fs::read(folder.join("pack.json")) else { continue };
        let manifest: Value = serde_json::from_slice(&manifest).expect("a manifest");
        for node in manifest["nodes"].as_array().into_iter().flatten() {
            let mine = examples.iter().filter(|(type_id, ..)| node["typeId"] == **type_id);
            for (type_id, config, inputs, _) in mine {
                let outputs = outcome(type_id, config, inputs);
                assert_matches(&folder, &node["configSchemaRef"], config, type_id);
                assert_matches(&folder, &node["inputSchemaRef"], inputs, type_id);
                if outputs.get("failed").is_none() {
                    assert_matches(&folder, &node["outputSchemaRef"], &outputs, type_id);
                }
                checked += 1;
            }
        }
    }
    assert_eq!(checked, examples.len(), "every example is of a published type");
}

/// Each published type runs or is refused by its name; none is taken for another.
#[test]
fn every_other_published_type_is_refused_by_its_name() {
    let Some(packs) = packs() else { return };
    let mut refused = 0;
    for pack in std::fs::read_dir(&packs).expect("the packs") {
        let manifest = pack.expect("a folder").path().join("pack.json");
        let Ok(manifest) = std::fs::read(manifest) else { continue };
        let manifest: Value = serde_json::from_slice(&manifest).expect("a manifest");
        for node in manifest["nodes"].as_array().into_iter().flatten() {
            let type_id = node["typeId"].as_str().expect("a type id");
            let plan = given(&format!("n:{type_id}")).plan();
            // Some of the reserved types want a configuration first.
            let Ok(plan) = plan else { continue };
            let runs = |id: &str| NODE_TYPES.iter().any(|known| known.type_id == id);
            let admitted = plan.admit_types(
                |type_id| runs(type_id.as_str()),
                &std::collections::BTreeMap::new(),
                ConformanceNodes::Off,
            );
            assert_eq!(admitted.is_ok(), runs(type_id), "{type_id}");
            if let Err(error) = admitted {
                assert!(error.message.contains(type_id), "{}", error.message);
                refused += 1;
            }
        }
    }
    assert!(refused > 80, "{refused}");
}

/// What is embedded is what the packs have; `cargo xtask nodes` writes it anew.
#[test]
fn the_embedded_schemas_are_those_of_the_packs() {
    let Some(packs) = packs() else { return };
    let mut compared = 0;
    for pack in std::fs::read_dir(&packs).expect("the packs") {
        let folder = pack.expect("a folder").path();
        let Ok(manifest) = std::fs::read(folder.join("pack.json")) else { continue };
        let manifest: Value = serde_json::from_slice(&manifest).expect("a manifest");
        for node in manifest["nodes"].as_array().into_iter().flatten() {
            let type_id = node["typeId"].as_str().expect("a type id");
            let is_run = NODE_TYPES.iter().any(|known| known.type_id == type_id);
            let embedded = published_type(type_id);
            assert_eq!(embedded.is_some(), is_run && !OWN_CONFIG.contains(&type_id), "{type_id}");
            let Some(embedded) = embedded else { continue };
            let parts = [
                ("configSchemaRef", &embedded.config),
                ("inputSchemaRef", &embedded.inputs),
                ("outputSchemaRef", &embedded.outputs),
            ];
            for (part, embedded) in parts {
                let path = folder.join(node[part].as_str().expect("a path"));
                let mut schema: Value =
                    serde_json::from_slice(&std::fs::read(path).expect("a schema")).expect("JSON");
                without_dialects(&mut schema);
                assert_eq!(*embedded, schema, "{type_id} {part}; run `cargo xtask nodes`");
            }
            compared += 1;
        }
    }
    assert!(compared > 75, "{compared}");
}

/// A configuration that its pack does not allow is refused before anything runs, with its place.
#[test]
fn a_configuration_that_its_pack_does_not_allow_is_refused_with_its_place() {
    let cases = [
        ("core.flow.if", json!({}), "nodes.n.config"),
        ("core.flow.limit", json!({ "count": "three" }), "nodes.n.config.count"),
        ("core.openwop.data.string-case", json!({ "mode": "loud" }), "nodes.n.config.mode"),
        ("core.openwop.http.fetch", json!({ "methd": "GET" }), "nodes.n.config"),
        ("core.hitl.form-request", json!({}), "nodes.n.config"),
    ];
    for (type_id, config, path) in cases {
        let flow = given(&format!("n:{type_id}")).config("n", config);
        let refused = flow.plan().expect_err("it is refused");
        assert_eq!(refused.path, path, "{refused}");
    }
    // Whatever its type, an agent does the work.
    let agents = given("n:core.flow.if").node("n", json!({ "agent": { "agentId": "a.b.c" } }));
    assert!(agents.plan().is_ok());
    let body = json!({ "body": [{ "typeId": "core.flow.limit", "config": { "count": "x" } }] });
    let refused = given("n:callboard.each").config("n", body).plan().expect_err("it is refused");
    assert_eq!(refused.path, "nodes.n.config.body[0].config.count");
}

fn assert_matches(folder: &Path, schema: &Value, value: &Value, type_id: &str) {
    let schema = folder.join(schema.as_str().expect("a path"));
    let schema = std::fs::read(&schema).expect("a schema");
    let mut schema: Value = serde_json::from_slice(&schema).expect("JSON");
    without_dialects(&mut schema);
    let schema = Schema::compile(schema.to_string().as_bytes()).expect("a schema that compiles");
    assert_eq!(schema.violations(value), Vec::<String>::new(), "{type_id}: {value:#}");
}

/// Some parts of the published schemas name their dialect again, which only a whole one may.
fn without_dialects(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for name in ["$schema", "$id", "title"] {
                if fields.get(name).is_some_and(Value::is_string) {
                    fields.remove(name);
                }
            }
            fields.values_mut().for_each(without_dialects);
        }
        Value::Array(items) => items.iter_mut().for_each(without_dialects),
        _ => {}
    }
}

//! Our reading of `pack.json` beside the protocol's schema: both say yes, or both say no.

use callboard_protocol::PackManifest;
use serde_json::{Value, json};

use crate::given::good;
use crate::openwop::{openwop, schema};

/// A manifest with every field that the schema knows, but for the code that packs may bring.
fn full() -> Value {
    let mut manifest = good().manifest;
    let more = json!({
        "kind": "node",
        "description": "Sorts the mail.",
        "author": "Acme",
        "license": "MIT",
        "homepage": "https://acme.example",
        "repository": "https://acme.example/desk",
        "keywords": ["mail"],
        "dependencies": { "core.openwop.agents": ">=1.0.0" },
        "peerDependenciesMeta": { "agents.manifestRuntime": { "optional": true } },
        "signing": { "method": "manual", "publicKeyRef": "acme-1", "signatureRef": "keys/a.sig" }
    });
    let agent = json!({
        "evalSuiteRef": "evals/a.json",
        "requiresCapabilities": ["host.workspace"],
        "label": "Triage",
        "promptLibraryRef": "desk",
        "promptOverrides": {
            "user": "prompt:greeting@1.0.0",
            "few-shot": { "templateId": "shots", "libraryId": "desk", "version": "1.0.0" }
        }
    });
    manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let first = manifest["agents"][0].as_object_mut().unwrap();
    first.extend(agent.as_object().unwrap().clone());
    manifest
}

/// Every place of a value as a pointer.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                places(value, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, &format!("{at}/{index}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The value without a place, with something strange in it, or with something strange beside it.
fn variants(manifest: &Value, place: &str) -> Vec<Value> {
    let strange = [
        json!(null),
        json!(true),
        json!(7),
        json!(-0.5),
        json!(""),
        json!("x"),
        json!("a.b"),
        json!("x".repeat(2_000)),
        json!([]),
        json!([1]),
        json!([""]),
        json!(["a", "a"]),
        json!({}),
        json!({ "x": 1 }),
        json!({ "x": "y" }),
        json!({ "x": {} }),
    ];
    let mut variants: Vec<Value> = strange
        .into_iter()
        .map(|strange| {
            let mut variant = manifest.clone();
            *variant.pointer_mut(place).unwrap() = strange;
            variant
        })
        .collect();
    if let Some((parent, name)) = place.rsplit_once('/') {
        let mut variant = manifest.clone();
        let parent = variant.pointer_mut(parent).unwrap();
        if let Value::Object(fields) = parent {
            fields.remove(name);
            variants.push(variant);
        }
    }
    let mut variant = manifest.clone();
    if let Some(fields) = variant.pointer_mut(place).and_then(Value::as_object_mut) {
        fields.insert("unknown".to_owned(), json!("x"));
        variants.push(variant);
    }
    variants
}

#[test]
fn we_read_manifests_as_the_schema_does() {
    let Some(openwop) = openwop() else { return };
    let schema = schema(&openwop, "node-pack-manifest.schema.json");
    let full = full();
    let mut all = Vec::new();
    places(&full, "", &mut all);
    let mut differing = Vec::new();
    let mut refused = 0;
    for place in all {
        for variant in variants(&full, &place) {
            let ours = PackManifest::parse(variant.to_string().as_bytes());
            let theirs = schema.is_valid(&variant);
            refused += usize::from(!theirs);
            if ours.is_ok() != theirs {
                differing.push(format!("{place}: {:?} {ours:?}", variant.pointer(&place)));
            }
        }
    }
    assert!(refused > 500, "{refused} variants were wrong");
    assert!(differing.is_empty(), "{} differ: {differing:#?}", differing.len());
}

//! Manifests that differ from a good one in a single thing.

use callboard_agents::PackError;
use serde_json::{Value, json};

use crate::given::{Draft, good};

fn check(what: &str, spoil: impl FnOnce(&mut Draft), expected: &str) {
    let mut draft = good();
    spoil(&mut draft);
    let found = draft.vet().map(|_| "installed").unwrap_or_else(|error| error.code());
    assert_eq!(found, expected, "{what}");
}

fn set(field: &'static str, value: Value) -> impl FnOnce(&mut Draft) {
    move |draft| draft.manifest[field] = value
}

fn set_agent(field: &'static str, value: Value) -> impl FnOnce(&mut Draft) {
    move |draft| draft.agent()[field] = value
}

#[test]
fn the_good_pack_is_good() {
    check("as it is", |_| {}, "installed");
}

#[test]
fn a_manifest_is_held_to_its_schema() {
    check("unknown key", set("extra", json!(1)), "invalid_manifest");
    check("name", set("name", json!("acme")), "invalid_manifest");
    check("scope", set("name", json!("local.acme.desk")), "invalid_manifest");
    check("version", set("version", json!("1.0")), "invalid_manifest");
    check("engines", set("engines", json!({})), "invalid_manifest");
    check("no agents", set("agents", json!([])), "invalid_manifest");
    check("keywords", set("keywords", json!(vec!["w"; 51])), "invalid_manifest");
    check("description", set("description", json!("x".repeat(1025))), "invalid_manifest");
    check(
        "language",
        set("runtime", json!({"language": "cobol", "entry": "x"})),
        "invalid_manifest",
    );
    check("signing", set("signing", json!({"method": "seal"})), "invalid_manifest");
    let meta = json!({"a.b": {"optional": true, "more": 1}});
    check("meta", set("peerDependenciesMeta", meta), "invalid_manifest");
    check("kind", set("kind", json!("workflow-chain")), "pack_kind_invalid");
    check("kind node", set("kind", json!("node")), "installed");
}

#[test]
fn an_agent_is_held_to_its_schema() {
    check("unknown key", set_agent("extra", json!(1)), "invalid_manifest");
    check("no persona", set_agent("persona", json!("")), "invalid_manifest");
    check("model class", set_agent("modelClass", json!("chat")), "invalid_manifest");
    check("host agent", set_agent("agentId", json!("host:desk")), "invalid_manifest");
    check("memory", set_agent("memoryShape", json!({"vector": true})), "invalid_manifest");
    check(
        "threshold",
        set_agent("confidence", json!({"defaultThreshold": 1.1})),
        "invalid_manifest",
    );
    check("label", set_agent("label", json!("x".repeat(101))), "invalid_manifest");
    check("description", set_agent("description", json!("x".repeat(501))), "invalid_manifest");
    check("empty tool", set_agent("toolAllowlist", json!([""])), "invalid_manifest");
    check(
        "capability twice",
        set_agent("requiresCapabilities", json!(["a", "a"])),
        "invalid_manifest",
    );
    check("library", set_agent("promptLibraryRef", json!("A")), "invalid_manifest");
    check("override", set_agent("promptOverrides", json!({"user": "greet"})), "invalid_manifest");
    check(
        "override kind",
        set_agent("promptOverrides", json!({"more": "prompt:a"})),
        "invalid_manifest",
    );
    check(
        "good override",
        set_agent("promptOverrides", json!({"user": "prompt:a@1.0.0"})),
        "installed",
    );
    check("empty handoff", set_agent("handoff", json!({"taskSchemaRef": ""})), "invalid_manifest");
}

#[test]
fn a_role_of_published_packs_is_accepted_and_no_other() {
    check("skill", set_agent("role", json!("skill")), "installed");
    check("assistant", set_agent("role", json!("assistant")), "installed");
    check("boss", set_agent("role", json!("boss")), "invalid_manifest");
}

#[test]
fn an_agent_has_one_prompt() {
    check("both", set_agent("systemPrompt", json!("Sort.")), "invalid_manifest");
    let neither = |draft: &mut Draft| {
        draft.agent().as_object_mut().unwrap().remove("systemPromptRef");
    };
    check("neither", neither, "invalid_manifest");
    let inline = |draft: &mut Draft| {
        neither(draft);
        draft.agent()["systemPrompt"] = json!("Sort.");
    };
    check("inline", inline, "installed");
}

#[test]
fn agents_stay_below_their_pack() {
    for (id, expected) in [
        ("vendor.acme.desk", "installed"),
        ("vendor.acme.desk.other", "installed"),
        ("vendor.acme.desktop", "invalid_manifest"),
        ("vendor.acme.other.triager", "invalid_manifest"),
        ("local.acme.desk.triager", "invalid_manifest"),
        ("core.openwop.agents.react", "invalid_manifest"),
    ] {
        check(id, set_agent("agentId", json!(id)), expected);
    }
    let twice = |draft: &mut Draft| {
        let agent = draft.agent().clone();
        draft.manifest["agents"].as_array_mut().unwrap().push(agent);
    };
    check("twice", twice, "invalid_manifest");
}

#[test]
fn code_is_not_installed() {
    let runtime = |language: &str| set("runtime", json!({"language": language, "entry": "x.js"}));
    check("javascript", runtime("javascript"), "unsupported_runtime");
    check("nodes", set("nodes", json!([{"typeId": "a"}])), "unsupported_runtime");
    let wants = json!({"language": "remote", "entry": "pack.json", "requires": ["subprocess"]});
    check("subprocess", set("runtime", wants), "pack_runtime_requirement_unmet");
    let twice = json!({"language": "remote", "entry": "a", "requires": ["clock", "clock"]});
    check("twice", set("runtime", twice), "invalid_manifest");
}

#[test]
fn a_pack_for_another_version_of_the_protocol_is_not_installed() {
    let made_for = |range: &str| set("engines", json!({ "openwop": range }));
    for range in [">=1.1.0 <2.0.0", "^1.1", "~1.0", "1.x", "*", "0.9 || 1.1"] {
        check(range, made_for(range), "installed");
    }
    for range in [">=2.0.0", "<1.0.0", ">=1.2.0 <2.0.0", "0.x", "^0.9"] {
        check(range, made_for(range), "pack_runtime_requirement_unmet");
    }
    check("no range", made_for("the newest"), "invalid_manifest");
}

#[test]
fn a_reference_stays_inside_the_pack() {
    for path in [
        "../secret.md",
        "prompts/../../secret.md",
        "prompts/../prompts/triager.md",
        "/etc/passwd",
        "\\secret.md",
        "C:\\secret.md",
        "https://example.org/prompt.md",
        "file:///etc/passwd",
        "prompts//triager.md",
    ] {
        check(path, set_agent("systemPromptRef", json!(path)), "invalid_manifest");
        check(path, set_agent("evalSuiteRef", json!(path)), "invalid_manifest");
        for field in ["taskSchemaRef", "returnSchemaRef"] {
            check(path, |draft| draft.agent()["handoff"][field] = json!(path), "invalid_manifest");
        }
    }
    check("dot", set_agent("systemPromptRef", json!("./prompts/triager.md")), "installed");
}

#[test]
fn a_reference_leads_to_a_file() {
    for path in ["prompts/gone.md", "prompts", "Prompts/triager.md"] {
        check(path, set_agent("systemPromptRef", json!(path)), "tarball_entry_missing");
        check(path, set_agent("evalSuiteRef", json!(path)), "tarball_entry_missing");
        for field in ["taskSchemaRef", "returnSchemaRef"] {
            check(
                path,
                |draft| draft.agent()["handoff"][field] = json!(path),
                "tarball_entry_missing",
            );
        }
    }
}

#[test]
fn what_a_reference_leads_to_can_be_used() {
    check("prompt", |draft| draft.file("prompts/triager.md", [0xff, 0xfe]), "pack_load_failure");
    for file in ["schemas/task.json", "schemas/return.json"] {
        check(file, |draft| draft.file(file, "{"), "pack_load_failure");
        check(file, |draft| draft.file(file, "7"), "pack_load_failure");
        check(file, |draft| draft.file(file, r#"{"type": "thing"}"#), "pack_load_failure");
    }
    check("suite", |draft| draft.file("evals/a.json", "{"), "installed");
    let suite = |draft: &mut Draft| {
        draft.file("evals/a.json", "{");
        draft.agent()["evalSuiteRef"] = json!("evals/a.json");
    };
    check("suite in use", suite, "pack_load_failure");
}

#[test]
fn what_is_no_json_is_no_manifest() {
    let mut entries = good().entries();
    entries[0].bytes = b"{ not json".to_vec();
    let error = crate::given::read(crate::given::archive(&entries)).unwrap_err();
    assert_eq!(error.code(), "tarball_manifest_not_json");
    entries[0].bytes = b"[]".to_vec();
    let error = crate::given::read(crate::given::archive(&entries)).unwrap_err();
    assert_eq!(error.code(), "invalid_manifest");
}

#[test]
fn a_refusal_names_the_place() {
    let mut draft = good();
    draft.agent()["memoryShape"]["vector"] = json!(true);
    let error = draft.vet().unwrap_err();
    assert!(
        matches!(&error, PackError::Manifest(shape) if shape.path == "agents[0].memoryShape.vector"),
        "{error:?}"
    );
    draft = good();
    draft.agent()["systemPromptRef"] = json!("../x.md");
    let error = draft.vet().unwrap_err().to_string();
    assert_eq!(
        error,
        "systemPromptRef of vendor.acme.desk.triager: \"../x.md\" is not a path inside the pack"
    );
}

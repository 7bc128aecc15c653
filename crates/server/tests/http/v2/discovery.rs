//! Versions, headers and the closed document.

use axum::http::Method;
use callboard_server::{Majors, ServerConfig, operations};
use serde_json::{Value, json};

use super::{check, refused};
use crate::given::{LIVE, Reply, TestHost};

const WELL_KNOWN: &str = "/.well-known/openwop";

async fn asked(host: &TestHost, path: &str, version: Option<&str>) -> Reply {
    let call = host.get(path);
    match version {
        Some(version) => call.header("openwop-version", version).send().await,
        None => call.send().await,
    }
}

/// V-01, V-06, V-07, V-09; floor: root-closed, era-key.
#[tokio::test]
async fn the_document_is_closed_and_its_records_are_whole() {
    let host = TestHost::start().await;
    let document = asked(&host, WELL_KNOWN, Some("2.0")).await.json;
    assert_eq!(document["protocolVersions"], json!(["1.0", "1.1", "2.0"]));
    assert_eq!(document["preferredVersion"], "1.1");
    assert_eq!(document["protocolVersion"], "1.1");
    assert_eq!(document["eventLogSchemaVersion"], 3);
    for needed in ["interrupt", "replay", "webhooks", "idempotency", "eventLog", "runList"] {
        assert!(document.get(needed).is_some(), "{needed}");
    }
    without_supported(&document);
    let Some((families, metadata)) = check::capability_keys() else { return };
    for (name, value) in document.as_object().expect("an object") {
        if !families.contains(name) {
            assert!(metadata.contains(name), "{name} is no key of the document");
            continue;
        }
        assert_eq!(value["status"], "stable", "{name}");
        assert_eq!(value["since"], "2.0", "{name}");
        assert!(value.get("until").is_none(), "{name}");
        let witnesses = ["witnessable-gated", "claims-check"];
        assert!(witnesses.contains(&value["witness"].as_str().unwrap_or_default()), "{name}");
    }
    for name in document["extensions"].as_object().expect("extensions").keys() {
        assert!(name.starts_with("callboard."), "{name}");
    }
}

fn without_supported(value: &Value) {
    match value {
        Value::Object(fields) => {
            assert!(!fields.contains_key("supported"), "{value}");
            fields.values().for_each(without_supported);
        }
        Value::Array(items) => items.iter().for_each(without_supported),
        _ => {}
    }
}

/// V-01, V-08; floor: preferred-version-default, version-header-honored.
#[tokio::test]
async fn one_resource_has_two_representations() {
    let host = TestHost::start().await;
    let first = asked(&host, WELL_KNOWN, None).await;
    assert_eq!(first.header("openwop-version"), "1.1");
    assert_eq!(first.json["preferredVersion"], "1.1");
    assert_eq!(first.json["protocolVersions"], json!(["1.0", "1.1", "2.0"]));
    assert_eq!(first.json["eventLogSchemaVersion"], 2);
    for same in ["1", "1.0", "1.1"] {
        assert_eq!(asked(&host, WELL_KNOWN, Some(same)).await.bytes, first.bytes, "{same}");
    }
    let second = asked(&host, WELL_KNOWN, Some("2")).await;
    assert_eq!(second.bytes, asked(&host, WELL_KNOWN, Some("2.0")).await.bytes);
    assert_ne!(first.bytes, second.bytes);
    assert_eq!(second.header("openwop-version"), "2.0");
    assert_eq!(second.header("capabilities-etag"), "");
    assert_ne!(first.header("etag"), second.header("etag"));
    for (version, reply) in [("1", &first), ("2", &second)] {
        let vary: Vec<_> = reply.headers.get_all("vary").iter().collect();
        assert!(vary.iter().any(|value| *value == "OpenWOP-Version"), "{vary:?}");
        let again = host.get(WELL_KNOWN).header("openwop-version", version);
        let again = again.header("if-none-match", reply.header("etag")).send().await;
        assert_eq!((again.status, again.bytes.len()), (304, 0));
        assert_eq!(again.header("openwop-version"), reply.header("openwop-version"));
        let other =
            host.get(WELL_KNOWN).header("openwop-version", if version == "1" { "2" } else { "1" });
        let other = other.header("if-none-match", reply.header("etag")).send().await;
        assert_eq!(other.status, 200);
    }
}

/// V-03, V-04, V-05.
#[tokio::test]
async fn the_path_says_the_major_and_a_header_may_not_contradict() {
    let host = TestHost::start().await;
    for version in [None, Some("2"), Some("2.0"), Some("2.7")] {
        let reply = asked(&host, "/runs", version).await;
        assert_eq!((reply.status, reply.header("openwop-version")), (200, "2.0"), "{version:?}");
    }
    assert_eq!(refused(&asked(&host, "/runs", Some("1.1")).await), (404, "not_found"));
    for (path, version) in [
        ("/runs", "3"),
        ("/runs", "0"),
        ("/runs", "banana"),
        ("/runs", "2.x"),
        ("/runs", ""),
        (WELL_KNOWN, "7.1"),
        ("/nowhere", "3.0"),
    ] {
        let reply = asked(&host, path, Some(version)).await;
        assert_eq!(refused(&reply), (406, "protocol_version_unsupported"), "{path} {version}");
        assert_eq!(reply.json["details"]["protocolVersions"], json!(["1.0", "1.1", "2.0"]));
    }
    let twice = host.get("/runs").header("openwop-version", "1.1").header("openwop-version", "2.0");
    assert_eq!(refused(&twice.send().await), (406, "protocol_version_unsupported"));
    for version in ["2", "2.0", "3", "banana"] {
        for path in ["/v1/runs/x", "/v1/openapi.json", "/v1/nowhere"] {
            let reply = asked(&host, path, Some(version)).await;
            assert_eq!(reply.refusal(), (400, "protocol_version_mismatch"), "{path} {version}");
            assert_eq!(reply.header("openwop-version"), "1.1");
        }
    }
    assert_eq!(asked(&host, "/v1/openapi.json", Some("1")).await.status, 200);
    for claim in ["2.46.32", "nonsense", "99.99.99", ""] {
        let reply = host.get("/runs").header("openwop-client-version", claim).send().await;
        assert_eq!(reply.status, 200, "{claim}");
    }
}

/// V-02: refusals, wrong methods and heads of streams included.
#[tokio::test]
async fn every_answer_of_the_protocol_names_its_contract() {
    let host = TestHost::start().await;
    for (path, version) in [
        ("/v1/host/callboard/runs", "1.1"),
        ("/v1/nowhere", "1.1"),
        ("/runs", "2.0"),
        ("/nowhere", "2.0"),
        ("/runs/~zz", "2.0"),
        ("/runs/%zz", "2.0"),
        ("/v2/runs", "2.0"),
        ("/", "2.0"),
    ] {
        assert_eq!(host.get(path).send().await.header("openwop-version"), version, "{path}");
    }
    let wrong = host.call(Method::DELETE, "/runs").send().await;
    assert_eq!(refused(&wrong), (405, "callboard.method_not_allowed"));
    assert_eq!(host.get("/runs").anonymous().send().await.header("openwop-version"), "2.0");
    for path in ["/healthz", "/readyz", "/metrics", "/ok", "/health"] {
        assert_eq!(host.get(path).send().await.header("openwop-version"), "", "{path}");
    }
}

/// V-14: what the first major serves of the manifest, the second serves; the rest is not there.
#[tokio::test]
async fn paths_of_the_manifest_answer_without_a_version() {
    let host = TestHost::start().await;
    for path in [
        "/.well-known/openwop",
        "/openapi.json",
        "/runs",
        "/agents",
        "/agents/roster",
        "/agents/org-chart",
        "/tools",
        "/prompts",
        "/workflows/noop",
        "/host/callboard/whoami",
        "/audit/verify",
    ] {
        let reply = host.get(path).header("openwop-version", "2.0").send().await;
        assert_eq!((reply.status, reply.header("openwop-version")), (200, "2.0"), "{path}");
    }
    for path in [
        "/packs",
        "/host/workspace/files",
        "/host/events",
        "/content/pages",
        "/proposals",
        "/connection-providers",
        "/host/sample/anything",
        "/conformance/seams/sample/anything",
    ] {
        assert_eq!(host.get(path).send().await.refusal(), (404, "not_found"), "{path}");
    }
    let run = host.second_noop().await;
    for rest in ["compensation", "eval-summary", "debug-bundle", "approvals/only"] {
        let path = format!("/runs/{}/{rest}", super::segment(&run));
        assert_eq!(refused(&host.get(&path).send().await), (404, "not_found"), "{path}");
    }
    let document = host.get("/openapi.json").send().await.json;
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.keys().all(|path| !path.starts_with("/v1")), "{:?}", paths.keys());
    for operation in operations().filter_map(|operation| operation.second_path()) {
        assert!(paths.contains_key(&operation), "{operation}");
    }
    let first = host.get("/v1/openapi.json").send().await.json;
    assert!(first["paths"].get("/runs").is_none() && first["paths"].get("/v1/runs").is_some());
}

/// §0: the end of the first major and the new preference are one step.
#[tokio::test]
async fn one_switch_ends_the_first_major() {
    let config = ServerConfig { majors: Majors::Second, ..ServerConfig::default() };
    let host = TestHost::configured(config).await;
    let document = asked(&host, WELL_KNOWN, None).await;
    assert_eq!(document.header("openwop-version"), "2.0");
    assert_eq!(document.json["protocolVersions"], json!(["2.0"]));
    assert_eq!(document.json["preferredVersion"], "2.0");
    assert_eq!(
        asked(&host, WELL_KNOWN, Some("1.1")).await.refusal(),
        (406, "protocol_version_unsupported")
    );
    for path in ["/v1/runs", "/v1/openapi.json", "/v1/host/callboard/runs"] {
        assert_eq!(refused(&asked(&host, path, None).await), (404, "not_found"), "{path}");
    }
    let run = host.second_noop().await;
    assert_eq!(host.second_snapshot(&run).await["runId"], json!(run));
    // The host's own programs go on, under its own name, and that is no contract of the protocol.
    let own = host.get(&format!("/host/callboard/v1/runs/{}", super::bare(&run))).send().await;
    assert_eq!((own.status, own.header("openwop-version")), (200, ""), "{own:?}");
    assert_eq!(own.json["runId"], super::bare(&run));
    let anonymous = host.get("/host/callboard/v1/host/callboard/runs").anonymous().send().await;
    assert_eq!(anonymous.refusal(), (401, "unauthenticated"));
    let path = format!("/runs/{}", super::bare(&run));
    assert_eq!(refused(&host.get(&path).key(LIVE).send().await), (400, "validation_error"));
}

/// V-42: whoever made a run, the first major tells of it as it always has.
#[tokio::test]
async fn the_first_major_does_not_see_which_major_made_a_run() {
    let host = TestHost::start().await;
    let first = host.run("chain", json!({})).await;
    let second = host.second_run(json!({ "workflowId": "chain", "inputs": {} })).await;
    let second = super::bare(&second).to_owned();
    let mut told = Vec::new();
    for run in [&first, &second] {
        let events = host.end_of(run).await;
        let snapshot = host.get(&format!("/v1/runs/{run}")).send().await;
        assert_eq!(snapshot.header("openwop-version"), "1.1");
        let text = json!([events, snapshot.json]).to_string().replace(run.as_str(), "run");
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        without_times(&mut value);
        told.push(value);
    }
    assert_eq!(told[0], told[1]);
    for path in [format!("/v1/runs/{first}/effects"), "/v1/host/effect-seams".to_owned()] {
        assert_eq!(host.get(&path).send().await.refusal(), (404, "not_found"), "{path}");
    }
}

fn without_times(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_times),
        Value::Object(fields) => {
            fields.retain(|name, _| {
                !name.ends_with("At") && !["timestamp", "durationMs"].contains(&name.as_str())
            });
            fields.values_mut().for_each(without_times);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

//! What this host answers against the protocol's own schemas, where they are at hand.

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::given::{TEST, TestHost};

/// The folder with the protocol's data; none, with a line that says so, where it is missing and not required.
pub(crate) fn openwop() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/openwop"));
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|part| part.trim() == "openwop"),
        "openwop is required and not there"
    );
    // Past the capture of test output: a skipped test must be seen.
    let said = std::io::stderr()
        .write_all(b"skipped: the protocol's schemas are not at ../shared/openwop\n");
    said.expect("standard error is open");
    None
}

/// Reads schemas that refer to each other by file name.
struct Files(PathBuf);

impl jsonschema::Retrieve for Files {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let name = uri.as_str().rsplit('/').next().unwrap_or_default();
        Ok(serde_json::from_slice(&std::fs::read(self.0.join("schemas").join(name))?)?)
    }
}

pub(crate) fn check(folder: &std::path::Path, schema: &str, body: &Value) {
    let text = std::fs::read(folder.join("schemas").join(schema)).expect("the schema");
    let schema_value: Value = serde_json::from_slice(&text).expect("JSON");
    let options = jsonschema::options().with_retriever(Files(folder.to_owned()));
    let validator = options.build(&schema_value).expect("a schema");
    let errors: Vec<String> = validator
        .iter_errors(body)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{schema}: {errors:#?}\n{body:#}");
}

/// R2, R3.
#[tokio::test]
async fn discovery_matches_the_protocol() {
    let Some(folder) = openwop() else { return };
    let host = TestHost::start().await;
    let mut document = host.get("/.well-known/openwop").anonymous().send().await.json;
    // The stored schema is older than the RFCs 0230 and 0232, which give these two their seats.
    for place in ["/triggerBridge", "/capabilities/triggerBridge"] {
        let bridge = document.pointer_mut(place).and_then(Value::as_object_mut).expect("a family");
        assert!(bridge.remove("deadLetter").is_some());
        let ingestion = bridge["ingestion"].as_object_mut().expect("an object");
        assert!(ingestion.remove("inboundSigning").is_some());
    }
    check(&folder, "capabilities.schema.json", &document);
}

/// R16, R26, R29.
#[tokio::test(start_paused = true)]
async fn runs_events_and_refusals_match_the_protocol() {
    let Some(folder) = openwop() else { return };
    let host = TestHost::start().await;
    let mock = json!({ "mockProvider": { "id": "stream-text" } });
    for (workflow, configurable) in
        [("chain", json!({})), ("fail", json!({})), ("wait", json!({})), ("chat", mock)]
    {
        let body = json!({ "workflowId": workflow, "configurable": configurable, "tags": ["t"], "metadata": { "m": 1 } });
        let run = host.run_as(TEST, body).await;
        for event in host.end_as(TEST, &run).await {
            check(&folder, "run-event.schema.json", &event);
        }
        let snapshot = host.get(&format!("/v1/runs/{run}")).key(TEST).send().await.json;
        check(&folder, "run-snapshot.schema.json", &snapshot);
    }
    let subscription = json!({ "source": "queue", "workflowId": "noop" });
    let ours = "/v1/host/callboard/trigger-subscriptions";
    let made = host.post(ours, &subscription).key(TEST).send().await.json;
    check(&folder, "trigger-subscription.schema.json", &made["subscription"]);
    let id = made["subscription"]["subscriptionId"].as_str().expect("an id");
    let put = host.post(&format!("{ours}/{id}/deliver"), &json!({ "id": "a" })).key(TEST);
    for event in host.end_as(TEST, &put.send().await.text_at("runId")).await {
        check(&folder, "run-event.schema.json", &event);
    }
    for path in ["/v1/runs/run_0", "/nowhere", "/v1/runs/x/events?streamMode=no"] {
        check(&folder, "error-envelope.schema.json", &host.get(path).send().await.json);
    }
}

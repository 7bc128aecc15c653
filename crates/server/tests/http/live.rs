//! Live agents behind the door of the protocol's suite, with the events that the suite reads: S-07, S-08, S-09.

use std::sync::Arc;

use callboard_agents::{Installed, Offer, Policy, Report, Unsigned, WorkflowTools, bundle, vet};
use callboard_conformance as conformance;
use callboard_engine::PackOwner;
use callboard_protocol::Timestamp;
use callboard_server::Tools;
use serde_json::{Value, json};

use crate::given::{LIVE, RIVAL, Setup, TestHost, TestSeams};
use crate::models::{kinds, of};

const SENDER: &str = "vendor.acme.tasks.sender";

/// An agent that may send off one workflow.
fn sender() -> Installed {
    let agent = json!({
        "agentId": SENDER, "persona": "Sender", "modelClass": "general", "systemPrompt": "Send it.",
        "toolAllowlist": ["openwop:workflow.noop"],
    });
    let manifest = json!({
        "name": "vendor.acme.tasks", "version": "1.0.0", "agents": [agent],
        "engines": { "openwop": ">=1.1.0 <2.0.0" },
        "runtime": { "language": "remote", "entry": "pack.json" },
    });
    let file = ("pack.json".to_owned(), manifest.to_string().into_bytes().into());
    let archive = bundle(&[file].into()).expect("an archive");
    let policy = Policy { unsigned: Unsigned::Allowed, ..Policy::default() };
    let vetted = vet(Offer::plain(archive.into()), &policy, &mut Report::default());
    Installed::new(PackOwner::Host, vetted.expect("a good pack"), Timestamp::default())
}

async fn host() -> TestHost {
    let mut packs = conformance::packs(&Policy::default(), Timestamp::default()).expect("ours");
    packs.push(sender());
    let workflows = Arc::new(WorkflowTools::default());
    let tools = Tools { toolbox: Arc::clone(&workflows) as _, ..Tools::default() };
    let setup = Setup { packs, tools, seams: TestSeams::On, is_live: true, ..Setup::default() };
    let host = TestHost::of(setup).await;
    workflows.attach(&host.engine);
    host
}

/// What the door answers, and the events of the run as the suite reads them.
async fn invoked(host: &TestHost, body: Value) -> (Value, Vec<Value>) {
    let reply = host.post("/v1/host/sample/agents/live-invoke", &body).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let path = format!("/v1/host/sample/test/runs/{}/events", reply.text_at("runId"));
    let events = host.get(&path).send().await.json["events"].as_array().cloned();
    (reply.json, events.expect("events"))
}

#[tokio::test(start_paused = true)]
async fn s07_one_invocation_is_bracketed_and_its_brackets_are_silent() {
    let host = host().await;
    let (report, events) = invoked(&host, json!({ "source": "run-api" })).await;
    let agents: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"].as_str().is_some_and(|kind| kind.starts_with("agent.")))
        .collect();
    let (first, last) = (agents[0], agents[agents.len() - 1]);
    assert_eq!(first["type"], "agent.invocation.started");
    assert_eq!(last["type"], "agent.invocation.completed");
    assert_eq!(first["payload"]["source"], "run-api");
    assert_eq!(last["payload"]["outcome"], "completed");
    for event in [first, last] {
        assert_eq!(event["payload"]["invocationId"], report["invocationId"]);
        for banned in
            ["prompt", "result", "body", "input", "output", "apiKey", "secret", "credentials"]
        {
            assert!(event["payload"].get(banned).is_none(), "{banned}");
        }
        assert!(event["payload"].get("token").is_none());
    }
    assert_eq!(of(&events, "agent.invocation.started").len(), 1, "one per run");
}

#[tokio::test(start_paused = true)]
async fn s07_an_invocation_comes_from_where_the_suite_says() {
    let host = host().await;
    for source in ["run-api", "chat-mention", "workflow-node"] {
        let (report, events) = invoked(&host, json!({ "source": source })).await;
        assert_eq!(report["outcome"], "completed", "{source}");
        let started = of(&events, "agent.invocation.started");
        assert_eq!(started.len(), 1, "{source}");
        assert_eq!(started[0]["source"], source);
    }
}

#[tokio::test(start_paused = true)]
async fn s08_a_result_that_breaks_its_schema_fails() {
    let host = host().await;
    let body =
        json!({ "returnSchemaRef": "conformance-strict-handoff", "forceInvalidResult": true });
    let (report, events) = invoked(&host, body).await;
    assert_eq!(report["outcome"], "failed");
    let completed = of(&events, "agent.invocation.completed");
    assert_ne!(completed[0]["schemaValidated"], true);
    assert_eq!(of(&events, "run.failed")[0]["error"]["code"], "handoff_return_schema_violation");
}

#[tokio::test(start_paused = true)]
async fn s09_a_tool_outside_the_list_is_not_called_under_any_name() {
    let host = host().await;
    let body = json!({ "attemptTool": "conformance-disallowed-tool" });
    let (report, events) = invoked(&host, body).await;
    assert_eq!(report["outcome"], "completed");
    assert!(of(&events, "provider.usage").len() > 1, "the model has tried: {:?}", kinds(&events));
    for called in of(&events, "agent.toolCalled") {
        for name in ["tool", "toolId", "name", "toolName"] {
            assert_ne!(called[name], "conformance-disallowed-tool");
        }
    }
}

/// through the whole host, with the keys of two tenants.
#[tokio::test(start_paused = true)]
async fn a_run_that_an_agent_sends_off_is_seen_by_its_tenant_alone() {
    let host = host().await;
    let inputs = json!({ "text": "[[scripted: tool openwop_workflow_noop {}]]" });
    let run = host.run_as(RIVAL, json!({ "agentId": SENDER, "inputs": inputs })).await;
    let events = host.end_as(RIVAL, &run).await;
    let returned = of(&events, "agent.toolReturned");
    let sent = returned[0]["outcome"]["runId"].as_str().expect("a run").to_owned();
    let seen = async |key: &str| host.get(&format!("/v1/runs/{sent}")).key(key).send().await;
    assert_eq!(seen(RIVAL).await.status, 200);
    assert_eq!(seen(LIVE).await.status, 404);
}

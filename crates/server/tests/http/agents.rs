//! Agents that perform nodes, S-06, and what a caller sees of a run of one.

use std::path::Path;

use axum::http::Method;
use callboard_agents::{Installed, Policy, Unsigned, collect};
use callboard_agents::{Offer, Report, vet};
use callboard_conformance as conformance;
use callboard_engine::PackOwner;
use callboard_protocol::Timestamp;
use serde_json::{Value, json};

use crate::given::{LIVE, RIVAL, Setup, TestHost, TestSeams, workflow};
use crate::packs::{install, signed};

pub(crate) const TRIAGER: &str = "community.callboard.starter.triager";
pub(crate) const REVIEWER: &str = "community.callboard.starter.reviewer";
const FIXTURE: &str = "core.openwop.agent-examples.structured-fixture";

/// The pack that ships in the repository, for every tenant.
pub(crate) fn starter() -> Installed {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packs/starter");
    let archive = collect(&folder).expect("a pack").into();
    let offer = Offer { archive, expected: None, integrity: None, signature: None };
    let policy = Policy { unsigned: Unsigned::Allowed, ..Policy::default() };
    let vetted = vet(offer, &policy, &mut Report::default()).expect("a good pack");
    Installed::new(PackOwner::Host, vetted, Timestamp::default())
}

pub(crate) async fn host() -> TestHost {
    TestHost::of(setup()).await
}

pub(crate) fn setup() -> Setup {
    let mut packs = conformance::packs(&Policy::default(), Timestamp::default()).expect("ours");
    packs.push(starter());
    Setup { packs, seams: TestSeams::On, ..Setup::default() }
}

pub(crate) fn task() -> Value {
    json!({ "message": "The printer is on fire." })
}

pub(crate) fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

async fn shown(host: &TestHost, run: &str) -> Value {
    host.get(&format!("/v1/runs/{run}")).send().await.json
}

/// For forms: what an agent is given and returns; its prompt only for who may read what models are sent.
#[tokio::test(start_paused = true)]
async fn what_an_agent_is_given_and_returns_can_be_read() {
    let host = host().await;
    let path = format!("/v1/host/callboard/agents/{TRIAGER}");
    let whole = host.get(&path).send().await;
    assert_eq!(whole.status, 200, "{whole:?}");
    assert_eq!(whole.json["taskSchema"]["required"], json!(["message"]));
    assert_eq!(whole.json["resultSchema"]["type"], "object");
    assert!(whole.text_at("prompt").contains("what comes in"), "{whole:?}");
    let body = json!({ "name": "viewer", "scopes": ["manifest:read"] });
    let key = host.post("/v1/host/callboard/keys", &body).send().await.text_at("key");
    let less = host.get(&path).key(&key).send().await;
    assert_eq!((less.status, less.json.get("prompt")), (200, None));
    assert_eq!(less.json["taskSchema"], whole.json["taskSchema"]);
    let unknown = host.get("/v1/host/callboard/agents/nobody").send().await;
    assert_eq!(unknown.status, 404);
}

/// a run of an agent alone, from its task to its result.
#[tokio::test(start_paused = true)]
async fn an_agent_is_run_like_a_workflow() {
    let host = host().await;
    let run = host.run_as(LIVE, json!({ "agentId": TRIAGER, "inputs": task() })).await;
    let events = host.end_of(&run).await;
    let expected = [
        "run.started",
        "node.started",
        "provider.usage",
        "agent.reasoned",
        "agent.decided",
        "node.completed",
        "run.completed",
    ];
    assert_eq!(kinds(&events), expected, "and no invocation events without a live runtime");
    // Whatever its schema leaves room for, the run says that no model answered.
    assert_eq!(events[2]["payload"]["provider"], "scripted");
    for event in &events[3..5] {
        assert_eq!(event["payload"]["agentId"], TRIAGER);
        assert_eq!(
            (&event["nodeId"], &event["contentTrust"]),
            (&json!("agent"), &json!("untrusted"))
        );
    }
    for (agent, count) in [(TRIAGER, 1), (REVIEWER, 0)] {
        let list = host.get(&format!("/v1/host/callboard/runs?agentId={agent}")).send().await;
        assert_eq!(list.json["runs"].as_array().map(Vec::len), Some(count), "{list:?}");
    }
    let snapshot = shown(&host, &run).await;
    assert_eq!(snapshot["workflowId"], format!("agent.{TRIAGER}"));
    let agent = json!({ "agentId": TRIAGER, "version": "1.0.0", "sourceManifestId": TRIAGER });
    assert_eq!(snapshot["agent"], agent);
    assert_eq!(snapshot["metrics"]["openwopCost"]["provider"], "scripted");
    let result = &events[6]["payload"]["outputs"];
    assert_eq!(
        (&events[4]["payload"]["decision"], &snapshot["variables"]["agent"]),
        (result, result)
    );
    let first = serde_json::to_string(result).expect("JSON");
    assert!(first.contains("[scripted]"), "plainly labelled: {first}");
}

/// a task that does not fit never reaches the agent, and the run says so after its 201.
#[tokio::test(start_paused = true)]
async fn a44_a_task_that_does_not_fit_is_refused_before_the_agent() {
    let host = host().await;
    let run = host.run_as(LIVE, json!({ "agentId": TRIAGER, "inputs": { "nothing": 1 } })).await;
    let events = host.end_of(&run).await;
    assert_eq!(kinds(&events), ["run.started", "node.started", "node.failed", "run.failed"]);
    let error = &events[2]["payload"]["error"];
    assert_eq!(error["code"], "handoff_task_schema_violation");
}

/// The handoff fixture of the protocol: a good task, a bad one, a bad result.
#[tokio::test(start_paused = true)]
async fn a45_a_result_that_does_not_fit_is_not_shipped() {
    let host = host().await;
    let mut gated = workflow("handoff", &[("noop", "core.identity")]);
    gated["metadata"]["requiresAgentId"] = json!(FIXTURE);
    let reply = host.post("/v1/host/callboard/workflows", &gated).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    for (inputs, code) in [
        (json!({ "text": "x", "extractionFields": ["a"] }), None),
        (json!({ "text": "x" }), Some("handoff_task_schema_violation")),
        (
            json!({ "scenario": "mock-return-violation", "text": "x", "extractionFields": ["a"] }),
            Some("handoff_return_schema_violation"),
        ),
    ] {
        let run = host.run("handoff", inputs.clone()).await;
        let events = host.end_of(&run).await;
        let failed = events.iter().find(|event| event["type"] == "node.failed");
        let found = failed.and_then(|event| event["payload"]["error"]["code"].as_str());
        assert_eq!(found, code, "{inputs}");
        assert_eq!(kinds(&events).contains(&"agent.decided"), code.is_none(), "{inputs}");
    }
}

/// A name that nobody installed is a name: the node does what its type says. It still shows.
#[tokio::test(start_paused = true)]
async fn a58_an_agent_that_is_not_installed_is_a_name() {
    let host = host().await;
    let mut plain = workflow("plain", &[("echo", "core.identity")]);
    let pinned = json!({ "agentId": "core.nobody.here", "sourceManifestId": "core.some.manifest" });
    plain["nodes"][0]["agent"] = pinned.clone();
    host.post("/v1/host/callboard/workflows", &plain).send().await;
    let run = host.run("plain", json!({})).await;
    let events = host.end_of(&run).await;
    assert_eq!(kinds(&events), ["run.started", "node.started", "node.completed", "run.completed"]);
    assert_eq!(shown(&host, &run).await["agent"], pinned);
}

/// An installed one performs its node, and control that passes between two is told once.
#[tokio::test(start_paused = true)]
async fn an_installed_agent_performs_its_node_and_hands_over() {
    let host = host().await;
    let mut pair = workflow("pair", &[("first", "core.identity"), ("second", "core.identity")]);
    for (place, agent, port) in [(0, TRIAGER, "message"), (1, REVIEWER, "change")] {
        pair["nodes"][place]["agent"] = json!({ "agentId": agent });
        pair["nodes"][place]["inputs"] = json!({ port: { "type": "static", "value": "words" } });
    }
    host.post("/v1/host/callboard/workflows", &pair).send().await;
    let run = host.run("pair", json!({})).await;
    let events = host.end_of(&run).await;
    let handoffs: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "agent.handoff").collect();
    assert_eq!(handoffs.len(), 1, "{:?}", kinds(&events));
    let told = json!({ "fromAgentId": TRIAGER, "toAgentId": REVIEWER });
    assert_eq!((&handoffs[0]["payload"], &handoffs[0]["nodeId"]), (&told, &json!("second")));
    assert_eq!(shown(&host, &run).await["agent"]["agentId"], REVIEWER);
}

/// What cannot be meant.
#[tokio::test(start_paused = true)]
async fn wrong_orders_of_agents_are_refused() {
    let host = host().await;
    let both = json!({ "agentId": TRIAGER, "workflowId": "noop" });
    let reply = host.post("/v1/runs", &both).send().await;
    assert_eq!((reply.status, reply.text_at("error").as_str()), (400, "validation_error"));
    let unknown = host.post("/v1/runs", &json!({ "agentId": "core.no.body" })).send().await;
    assert_eq!((unknown.status, unknown.text_at("error").as_str()), (400, "validation_error"));
    assert_eq!(unknown.json["details"]["agentId"], "core.no.body");
}

/// A replay of an agent's run takes its facts over and asks nobody.
#[tokio::test(start_paused = true)]
async fn a_replay_takes_an_agents_facts_over() {
    let host = host().await;
    let run = host.run_as(LIVE, json!({ "agentId": TRIAGER, "inputs": task() })).await;
    let before = host.end_of(&run).await;
    let reply =
        host.post(&format!("/v1/runs/{run}:fork"), &json!({ "mode": "replay" })).send().await;
    let replayed = host.end_of(&reply.text_at("runId")).await;
    let told = |events: &[Value]| -> Vec<Value> {
        events
            .iter()
            .map(|event| json!([event["type"], event["nodeId"], event["payload"]]))
            .collect()
    };
    assert_eq!(told(&replayed), told(&before));
}

/// S-06: the suite's door runs the agent for real and shows every event with its agent.
#[tokio::test(start_paused = true)]
async fn s06_the_door_dispatches_once() {
    let host = host().await;
    let path = |agent: &str| format!("/v1/host/sample/agents/{agent}/dispatch");
    let body = json!({ "task": {}, "validateHandoff": false, "availableTools": [] });
    let reply = host.post(&path(TRIAGER), &body).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(
        (&reply.json["agentId"], &reply.json["status"]),
        (&json!(TRIAGER), &json!("completed"))
    );
    let events = reply.json["events"].as_array().expect("events");
    let told: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(told, ["agent.reasoned", "agent.decided"]);
    assert!(events.iter().all(|event| event["agentId"] == TRIAGER));
    let unknown = host.post(&path("core.no.body"), &body).send().await;
    assert_eq!((unknown.status, unknown.text_at("error").as_str()), (404, "agent_not_found"));
    let foreign = host.post(&path(TRIAGER), &body).key(RIVAL).send().await;
    assert_eq!(foreign.status, 200, "what the host brought is everybody's");
    let strict = host.post(&path(TRIAGER), &json!({ "task": {} })).send().await;
    assert_eq!(strict.json["error"]["code"], "handoff_task_schema_violation");
}

/// a run goes on with the version that it began with, also when that is gone from the inventory.
#[tokio::test(start_paused = true)]
async fn a18_a_run_keeps_its_version() {
    let host = host().await;
    let unschemaed = |version: &'static str| {
        signed(move |manifest| {
            manifest["version"] = json!(version);
            manifest["agents"][0].as_object_mut().expect("an agent").remove("handoff");
        })
    };
    assert_eq!(install(&host, LIVE, unschemaed("1.0.0")).await.0, 201);
    let mut gated =
        workflow("gated-agent", &[("gate", "core.approvalGate"), ("work", "core.identity")]);
    gated["nodes"][1]["agent"] = json!({ "agentId": "vendor.acme.desk.assistant" });
    host.post("/v1/host/callboard/workflows", &gated).send().await;
    let begin = || async {
        let run = host.run("gated-agent", json!({})).await;
        while shown(&host, &run).await["status"] != "waiting-approval" {
            tokio::task::yield_now().await;
        }
        run
    };
    let old = begin().await;
    assert_eq!(install(&host, LIVE, unschemaed("1.1.0")).await.0, 201);
    let new = begin().await;
    let gone = host.call(Method::DELETE, "/v1/host/callboard/packs/vendor.acme.desk/1.0.0").send();
    assert_eq!(gone.await.status, 204);
    for (run, version) in [(old, "1.0.0"), (new, "1.1.0")] {
        let answer = json!({ "resumeValue": { "action": "accept" } });
        host.post(&format!("/v1/runs/{run}/interrupts/gate"), &answer).send().await;
        let events = host.end_of(&run).await;
        assert_eq!(events.last().expect("events")["type"], "run.completed", "{version}");
        assert_eq!(shown(&host, &run).await["agent"]["version"], version);
    }
    let listed = host.get("/v1/host/callboard/packs").send().await.json;
    let versions = listed["packs"].as_array().into_iter().flatten();
    let of_acme = versions.filter(|pack| pack["name"] == "vendor.acme.desk");
    assert_eq!(of_acme.map(|pack| &pack["version"]).collect::<Vec<_>>(), ["1.1.0"]);
}

/// S-32: what a pack's runtime asks for is refused by name unless it is granted.
#[tokio::test(start_paused = true)]
async fn s32_the_install_gate_names_what_is_unmet() {
    let host = host().await;
    let manifest = json!({ "name": "vendor.acme.x", "version": "1.2.0",
        "runtime": { "requires": ["clock", "crypto"] } });
    let path = "/v1/host/sample/packs/install-gate";
    let send = |body: Value| host.post(path, &body).send();
    let refused = send(json!({ "manifest": manifest, "grantSet": ["clock"] })).await;
    assert_eq!(
        (refused.status, refused.text_at("error").as_str()),
        (400, "pack_runtime_requirement_unmet")
    );
    for told in [&refused.json, &refused.json["details"]] {
        assert_eq!(told["unmet"], json!(["crypto"]), "{refused:?}");
        assert_eq!(told["manifest"], "vendor.acme.x@1.2.0", "{refused:?}");
    }
    let granted = json!({ "manifest": manifest, "grantSet": ["clock", "crypto"] });
    assert_eq!(send(granted).await.json["outcome"], "installed");
    let ungated = send(json!({ "manifest": manifest, "gating": false })).await;
    assert_eq!(ungated.json["requiresProjected"], json!(["clock", "crypto"]));
    let odd = json!({ "manifest": { "runtime": { "requires": ["telepathy"] } } });
    assert_eq!(send(odd).await.status, 400);
}

/// A-35, S-33: the agents that the suite's variables `OPENWOP_DEGRADED_AGENT_ID` and
/// `OPENWOP_DEGRADED_CAPABILITY_AGENT_ID` name say what they go without, and run even so.
#[tokio::test(start_paused = true)]
async fn s33_degraded_agents_say_what_they_go_without() {
    let host = host().await;
    let entry = async |agent: &str| host.get(&format!("/v1/agents/{agent}")).send().await.json;
    let forgetful = entry("core.conformance.degraded.memory").await;
    assert_eq!(forgetful["memoryDegraded"], true, "{forgetful}");
    let dimensions = forgetful["degradedMemoryDimensions"].as_array().expect("a list");
    assert!(dimensions.contains(&json!("long-term-durability")), "{forgetful}");
    let demanding = entry("core.conformance.degraded.capability").await;
    let missing = demanding["degraded"].as_array().expect("a list");
    assert!(missing.contains(&json!("host.conformance.absent")), "{demanding}");
    assert!(demanding.get("memoryDegraded").is_none(), "{demanding}");
    for agent in ["core.conformance.degraded.memory", "core.conformance.degraded.capability"] {
        let run = host.run_as(LIVE, json!({ "agentId": agent, "inputs": task() })).await;
        let events = host.end_of(&run).await;
        assert_eq!(events.last().expect("events")["type"], "run.completed", "{agent}");
    }
}

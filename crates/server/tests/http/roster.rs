//! Standing members over HTTP: RFC 0086, `contract/roster.md` §17, A-22.

use axum::http::Method;
use callboard_server::ServerConfig;
use serde_json::{Value, json};

use crate::agents::{REVIEWER, TRIAGER, host, kinds, task};
use crate::given::{
    Fault, LAB, LIVE, OPS, READER, RIVAL, Reply, Setup, TestHost, TestSeams, workflow,
};
use crate::schemas::{check, openwop};

const ROSTER: &str = "/v1/host/callboard/roster";

/// Registers `campaign`, whose one node names an agent.
pub(crate) async fn register(host: &TestHost, key: &str, id: &str, agent: &str) {
    let mut definition = workflow(id, &[("write", "core.identity")]);
    definition["nodes"][0]["agent"] = json!({ "agentId": agent });
    let ports = json!({ "message": { "type": "variable", "variableName": "message" } });
    definition["nodes"][0]["inputs"] = ports;
    definition["variables"] = json!([{ "name": "message", "type": "string" }]);
    let reply = host.post("/v1/host/callboard/workflows", &definition).key(key).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
}

pub(crate) async fn hire(host: &TestHost, body: Value) -> Reply {
    host.post(ROSTER, &body).send().await
}

/// Sally, who owns `campaign` and runs the starter pack's triager.
pub(crate) async fn sally(host: &TestHost) -> String {
    register(host, LIVE, "campaign", TRIAGER).await;
    let body = json!({ "persona": "Sally", "agentRef": { "agentId": TRIAGER }, "workflows": ["campaign"] });
    let reply = hire(host, body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.text_at("rosterId")
}

pub(crate) async fn patch(host: &TestHost, path: &str, body: Value) -> Reply {
    host.call(Method::PATCH, path).json(&body).send().await
}

async fn fire(host: &TestHost, id: &str, workflow: &str) -> Reply {
    let body = json!({ "workflowId": workflow, "inputs": task() });
    host.post(&format!("{ROSTER}/{id}/fire"), &body).send().await
}

fn encoded(id: &str) -> String {
    id.replace(':', "%3A")
}

#[tokio::test(start_paused = true)]
async fn a_member_is_hired_shown_changed_and_dismissed() {
    let host = host().await;
    let id = sally(&host).await;
    assert!(id.starts_with("host:sally-"), "{id}");
    let entry = json!({
        "rosterId": id, "persona": "Sally", "agentRef": { "agentId": TRIAGER },
        "workflows": ["campaign"], "owner": { "tenantId": "acme" }, "enabled": true,
    });
    for path in [
        format!("/v1/agents/roster/{id}"),
        format!("/v1/agents/roster/{}", encoded(&id)),
        format!("{ROSTER}/{}", encoded(&id)),
    ] {
        let reply = host.get(&path).send().await;
        assert_eq!((reply.status, &reply.json), (200, &entry), "{path}");
    }
    for path in ["/v1/agents/roster", ROSTER] {
        let reply = host.get(path).send().await;
        assert_eq!(reply.json, json!({ "roster": [entry], "total": 1 }), "{path}");
    }
    let path = format!("{ROSTER}/{id}");
    let change = json!({ "persona": "Sal", "label": "Writer", "description": "Writes." });
    let changed = patch(&host, &path, change).await;
    assert_eq!((changed.status, changed.text_at("label")), (200, "Writer".to_owned()));
    let changed = patch(&host, &path, json!({ "label": null, "enabled": false })).await;
    assert_eq!(changed.json.get("label"), None);
    assert_eq!(changed.json["persona"], "Sal");
    assert_eq!(changed.json["description"], "Writes.");
    assert_eq!(changed.json["enabled"], false, "and a paused member is still shown");
    let gone = host.call(Method::DELETE, &path).send().await;
    assert_eq!((gone.status, gone.bytes.len()), (204, 0));
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(host.call(method, &path).send().await.refusal(), (404, "not_found"));
    }
    assert_eq!(
        host.get("/v1/agents/roster").send().await.json,
        json!({ "roster": [], "total": 0 })
    );
}

#[tokio::test(start_paused = true)]
async fn what_an_entry_may_say_is_checked_where_it_is_written() {
    let host = host().await;
    register(&host, LIVE, "campaign", TRIAGER).await;
    register(&host, RIVAL, "theirs", TRIAGER).await;
    let good = json!({ "persona": "Sally", "agentRef": { "agentId": TRIAGER }, "workflows": ["campaign"] });
    let id = hire(&host, good.clone()).await.text_at("rosterId");
    for (field, wrong, status, code) in [
        (
            "agentRef",
            json!({ "agentId": TRIAGER, "version": "1.0.0", "channel": "stable" }),
            400,
            "validation_error",
        ),
        ("agentRef", json!({ "agentId": TRIAGER, "channel": "stable" }), 400, "validation_error"),
        ("agentRef", json!({ "agentId": TRIAGER, "version": "9.9.9" }), 400, "validation_error"),
        ("agentRef", json!({ "agentId": "vendor.nobody.at.home" }), 400, "validation_error"),
        ("agentRef", json!({ "agentId": id }), 400, "validation_error"),
        ("agentRef", json!({ "agentId": TRIAGER, "persona": "X" }), 400, "validation_error"),
        ("workflows", json!(["campaign", "campaign"]), 400, "validation_error"),
        ("workflows", json!([1]), 400, "validation_error"),
        ("workflows", json!(["theirs"]), 403, "workspace_membership_required"),
        ("workflows", json!(["nobodys"]), 403, "workspace_membership_required"),
        ("persona", json!(""), 400, "validation_error"),
        ("label", json!(""), 400, "validation_error"),
        ("description", json!("x".repeat(501)), 400, "validation_error"),
        ("rosterId", json!("host:mine"), 400, "validation_error"),
        ("owner", json!({ "tenantId": "rival" }), 400, "validation_error"),
        ("schedule", json!("0 9 * * *"), 400, "validation_error"),
    ] {
        let mut body = good.clone();
        body[field] = wrong.clone();
        let hired = hire(&host, body).await;
        assert_eq!(hired.refusal(), (status, code), "hire {field} {wrong}");
        let changed = patch(&host, &format!("{ROSTER}/{id}"), json!({ field: wrong })).await;
        assert_eq!(changed.refusal(), (status, code), "change {field} {wrong}");
    }
    // A workflow of others and none at all are told in the same words.
    let told = async |workflow: &str| {
        let body =
            json!({ "persona": "S", "agentRef": { "agentId": TRIAGER }, "workflows": [workflow] });
        hire(&host, body).await.json.to_string().replace(workflow, "W")
    };
    assert_eq!(told("theirs").await, told("nobodys").await);
    let shown = host.get(&format!("{ROSTER}/{id}")).send().await.json;
    assert_eq!(shown["workflows"], json!(["campaign"]), "and nothing of it was kept");
}

#[tokio::test(start_paused = true)]
async fn another_tenant_gets_the_bytes_of_an_unknown_id() {
    let host = host().await;
    let id = sally(&host).await;
    let body = json!({ "workflowId": "campaign" });
    let work =
        host.post(&format!("{ROSTER}/{id}/work"), &json!({ "title": "x", "inputs": task() }));
    let work = work.send().await.text_at("workId");
    let calls = [
        (Method::GET, "/v1/agents/roster/ID".to_owned(), None),
        (Method::GET, format!("{ROSTER}/ID"), None),
        (Method::PATCH, format!("{ROSTER}/ID"), Some(json!({ "persona": "X" }))),
        (Method::DELETE, format!("{ROSTER}/ID"), None),
        (Method::POST, format!("{ROSTER}/ID/fire"), Some(body)),
        (Method::GET, format!("{ROSTER}/ID/activity"), None),
        (Method::GET, format!("{ROSTER}/ID/work"), None),
        (Method::POST, format!("{ROSTER}/ID/work"), Some(json!({ "title": "x" }))),
        (Method::PATCH, format!("{ROSTER}/ID/work/{work}"), Some(json!({ "state": "done" }))),
    ];
    for (method, path, body) in calls {
        let ask = async |id: &str, key: &str| {
            let mut call = host.call(method.clone(), &path.replace("ID", id)).key(key);
            if let Some(body) = &body {
                call = call.json(body);
            }
            let reply = call.send().await;
            let names: Vec<String> = reply.headers.keys().map(ToString::to_string).collect();
            (reply.status, reply.bytes, names)
        };
        let unknown = ask("host:nobody-1", RIVAL).await;
        assert_eq!(unknown.0, 404, "{method} {path}");
        assert_eq!(ask(&id, RIVAL).await, unknown, "{method} {path}");
    }
    assert_eq!(host.get("/v1/agents/roster").key(RIVAL).send().await.json["total"], 0);
    assert_eq!(host.get("/v1/agents/roster").anonymous().send().await.status, 401);
    assert_eq!(host.get("/v1/agents").anonymous().send().await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn a_workspace_has_members_of_its_own() {
    let host = host().await;
    let body = json!({ "persona": "Olga", "agentRef": { "agentId": TRIAGER } });
    let reply = host.post(ROSTER, &body).key(OPS).send().await;
    assert_eq!(reply.json["owner"], json!({ "tenantId": "acme", "workspaceId": "ops" }));
    let id = reply.text_at("rosterId");
    for (key, status) in [(OPS, 200), (LIVE, 200), (LAB, 404), (RIVAL, 404)] {
        let shown = host.get(&format!("/v1/agents/roster/{id}")).key(key).send().await;
        assert_eq!(shown.status, status, "{key}");
        let body = json!({ "agentId": id, "inputs": task() });
        let run = host.post("/v1/runs", &body).key(key).send().await;
        assert_eq!(run.status, if status == 200 { 201 } else { 400 }, "{key}: {run:?}");
    }
}

/// An attribution at its place, and the agent that really ran.
fn assert_attributed(events: &[Value], id: &str, workflow: &str, source: &str) {
    assert_eq!(events[0]["type"], "run.started");
    assert_eq!(events[1]["type"], "roster.run.initiated", "{:?}", kinds(events));
    assert_eq!(
        events[1]["payload"],
        json!({ "rosterId": id, "persona": "Sally", "agentId": TRIAGER, "workflowId": workflow,
            "triggerSource": source })
    );
    let told = events.iter().filter(|event| event["type"] == "roster.run.initiated");
    assert_eq!(told.count(), 1);
    let decided = events.iter().find(|event| event["type"] == "agent.decided");
    assert_eq!(decided.expect("the agent ran")["payload"]["agentId"], TRIAGER);
}

#[tokio::test(start_paused = true)]
async fn a_member_is_run_over_the_run_api() {
    let host = host().await;
    let id = sally(&host).await;
    let run = host.run_as(LIVE, json!({ "agentId": id, "inputs": task() })).await;
    let events = host.end_of(&run).await;
    assert_attributed(&events, &id, &format!("agent.{id}"), "callboard.manual");
    assert_eq!(events.last().expect("an end")["type"], "run.completed");
    let snapshot = host.get(&format!("/v1/runs/{run}")).send().await.json;
    let agent = json!({ "agentId": TRIAGER, "name": "Sally", "sourceManifestId": TRIAGER });
    assert_eq!(snapshot["agent"], agent);
    if let Some(folder) = openwop() {
        check(&folder, "run-snapshot.schema.json", &snapshot);
        events.iter().for_each(|event| check(&folder, "run-event.schema.json", event));
    }
    let refused = host.post("/v1/runs", &json!({ "agentId": "host:nobody-1" })).send().await;
    assert_eq!(refused.refusal(), (400, "validation_error"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_names_a_member_runs_it_and_attributes_the_run() {
    let host = host().await;
    let id = sally(&host).await;
    register(&host, LIVE, "named", &id).await;
    let run = host.run("named", task()).await;
    let events = host.end_of(&run).await;
    assert_attributed(&events, &id, "named", "callboard.manual");
    let snapshot = host.get(&format!("/v1/runs/{run}")).send().await.json;
    assert_eq!(snapshot["agent"]["name"], "Sally");
    // The same definition in another tenant names nobody.
    register(&host, RIVAL, "named", &id).await;
    let body = json!({ "workflowId": "named", "inputs": task() });
    let refused = host.post("/v1/runs", &body).key(RIVAL).send().await;
    assert_eq!(refused.refusal(), (400, "validation_error"));
}

/// Owning a workflow is not running it: whoever starts it by hand starts it for nobody.
#[tokio::test(start_paused = true)]
async fn a_plain_run_of_a_portfolio_workflow_is_nobodys() {
    let host = host().await;
    sally(&host).await;
    let run = host.run("campaign", task()).await;
    assert!(!kinds(&host.end_of(&run).await).contains(&"roster.run.initiated"));
}

#[tokio::test(start_paused = true)]
async fn firing_a_member_runs_its_workflow_for_it() {
    let host = host().await;
    let id = sally(&host).await;
    let reply = fire(&host, &id, "campaign").await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let run = reply.text_at("runId");
    assert_eq!(reply.json, json!({ "runId": run }));
    assert_attributed(&host.end_of(&run).await, &id, "campaign", "callboard.manual");
    let snapshot = host.get(&format!("/v1/runs/{run}")).send().await.json;
    assert_eq!(snapshot["agent"]["name"], "Sally", "its agent acts as the member");
    let outside = fire(&host, &id, "chain").await;
    assert_eq!(outside.refusal(), (403, "not_in_portfolio"));
    let listed = host.get(&format!("/v1/host/callboard/runs?rosterId={}", encoded(&id)));
    let listed = listed.send().await.json["runs"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    assert_eq!(listed[0]["rosterId"], json!(id));
    assert_eq!(listed[0]["triggerSource"], "callboard.manual");
    for (source, found) in [("callboard.manual", 1), ("schedule", 0)] {
        let path = format!("/v1/host/callboard/runs?triggerSource={source}");
        let runs = host.get(&path).send().await.json["runs"].clone();
        assert_eq!(runs.as_array().map(Vec::len), Some(found), "{source}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_fire_under_one_key_is_one_run() {
    let host = host().await;
    let id = sally(&host).await;
    let body = json!({ "workflowId": "campaign", "inputs": task() });
    let path = format!("{ROSTER}/{id}/fire");
    let call = || host.post(&path, &body).header("idempotency-key", "once");
    let (first, second) = (call().send().await, call().send().await);
    assert_eq!((first.status, first.json), (second.status, second.json));
}

#[tokio::test(start_paused = true)]
async fn a_paused_member_fires_nothing_and_answers_a_person() {
    let host = host().await;
    let id = sally(&host).await;
    patch(&host, &format!("{ROSTER}/{id}"), json!({ "enabled": false })).await;
    assert_eq!(fire(&host, &id, "campaign").await.refusal(), (409, "member_paused"));
    for source in ["schedule", "webhook", "queue", "email", "form"] {
        let body = json!({ "rosterId": id, "triggerSource": source });
        let reply = host.post("/v1/host/sample/roster/fire", &body).send().await;
        assert_eq!(reply.refusal(), (409, "member_paused"), "{source}");
    }
    let runs = host.get("/v1/host/callboard/runs").send().await.json["runs"].clone();
    assert_eq!(runs, json!([]), "no run began");
    // Explicit dispatch by a person is no trigger.
    let run = host.run_as(LIVE, json!({ "agentId": id, "inputs": task() })).await;
    assert_eq!(host.end_of(&run).await[1]["type"], "roster.run.initiated");
    patch(&host, &format!("{ROSTER}/{id}"), json!({ "enabled": true })).await;
    assert_eq!(fire(&host, &id, "campaign").await.status, 201);
}

/// Renamed, bound to another agent, dismissed: what a run says of its member stays, also in a replay.
#[tokio::test(start_paused = true)]
async fn an_attribution_outlives_its_member() {
    let host = host().await;
    let id = sally(&host).await;
    let run = fire(&host, &id, "campaign").await.text_at("runId");
    let told = host.end_of(&run).await[1]["payload"].clone();
    let path = format!("{ROSTER}/{id}");
    let change = json!({ "persona": "Bob", "agentRef": { "agentId": REVIEWER } });
    assert_eq!(patch(&host, &path, change).await.status, 200);
    assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
    for body in
        [json!({ "mode": "replay", "fromSeq": 0 }), json!({ "mode": "replay", "fromSeq": 1 })]
    {
        let fork = host.post(&format!("/v1/runs/{run}:fork"), &body).send().await;
        assert_eq!(fork.status, 201, "{fork:?}");
        let events = host.end_of(&fork.text_at("runId")).await;
        assert_eq!(events[1]["payload"], told, "{body}");
        assert!(!kinds(&events).contains(&"replay.diverged"), "{body}");
    }
    let snapshot = host.get(&format!("/v1/runs/{run}")).send().await.json;
    assert_eq!(snapshot["agent"]["name"], "Sally");
}

/// A member that is dismissed while its run waits: the run goes on with what it was born with.
#[tokio::test(start_paused = true)]
async fn a_run_goes_on_when_its_member_is_gone() {
    let host = host().await;
    let mut asks = workflow("asks", &[("gate", "core.approvalGate"), ("write", "core.identity")]);
    asks["nodes"][1]["agent"] = json!({ "agentId": TRIAGER });
    let message = json!({ "message": { "type": "literal", "value": "The printer." } });
    asks["nodes"][1]["inputs"] = message;
    assert_eq!(host.post("/v1/host/callboard/workflows", &asks).send().await.status, 201);
    let body =
        json!({ "persona": "Sally", "agentRef": { "agentId": TRIAGER }, "workflows": ["asks"] });
    let id = hire(&host, body).await.text_at("rosterId");
    let run = fire(&host, &id, "asks").await.text_at("runId");
    let poll = host.get(&format!("/v1/runs/{run}/events/poll?timeout=60")).send().await;
    assert_eq!(poll.json["runStatus"], "waiting-approval", "{poll:?}");
    let activity = host.get(&format!("{ROSTER}/{id}/activity")).send().await.json;
    assert_eq!(activity["waiting"][0]["runId"], json!(run));
    assert_eq!(activity["waiting"][0]["nodeId"], "gate");
    let inbox = host.get(&format!("/v1/host/callboard/inbox?rosterId={id}")).send().await.json;
    assert_eq!(inbox["interrupts"].as_array().map(Vec::len), Some(1));
    assert_eq!(host.call(Method::DELETE, &format!("{ROSTER}/{id}")).send().await.status, 204);
    let answer = json!({ "resumeValue": { "action": "accept" } });
    let answered = host.post(&format!("/v1/runs/{run}/interrupts/gate"), &answer).send().await;
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(host.end_of(&run).await.last().expect("an end")["type"], "run.completed");
}

#[tokio::test(start_paused = true)]
async fn the_inventory_shows_who_stands_for_an_agent() {
    let host = host().await;
    let id = sally(&host).await;
    let line = json!([{ "rosterId": id, "persona": "Sally", "workflows": ["campaign"] }]);
    let agent = host.get(&format!("/v1/agents/{TRIAGER}")).send().await.json;
    assert_eq!(agent["roster"], line);
    let all = host.get("/v1/agents").send().await.json;
    for agent in all["agents"].as_array().expect("agents") {
        let expected = (agent["agentId"] == TRIAGER).then_some(&line);
        assert_eq!(agent.get("roster"), expected, "{agent}");
    }
    let theirs = host.get(&format!("/v1/agents/{TRIAGER}")).key(RIVAL).send().await.json;
    assert_eq!(theirs.get("roster"), None, "a member of others is not shown");
    if let Some(folder) = openwop() {
        check(&folder, "agent-inventory-response.schema.json", &all);
        let roster = host.get("/v1/agents/roster").send().await.json;
        check(&folder, "agent-roster-response.schema.json", &roster);
        check(&folder, "agent-roster-entry.schema.json", &roster["roster"][0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_sorted_by_id() {
    let host = host().await;
    for persona in ["Zoe", "Adam", "Mia"] {
        hire(&host, json!({ "persona": persona, "agentRef": { "agentId": TRIAGER } })).await;
    }
    let reply = host.get("/v1/agents/roster").send().await.json;
    let ids = reply["roster"].as_array().expect("a list").iter();
    let ids: Vec<String> = ids.map(|entry| entry["rosterId"].to_string()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    assert_eq!(reply["total"], 3);
}

/// Scopes decide, and being on a roster gives none.
#[tokio::test(start_paused = true)]
async fn a_key_needs_the_scopes_and_a_member_gives_none() {
    let host = host().await;
    let id = sally(&host).await;
    let hire = host.post(ROSTER, &json!({ "persona": "X", "agentRef": { "agentId": TRIAGER } }));
    assert_eq!(hire.key(READER).send().await.refusal(), (403, "forbidden"));
    let body = json!({ "workflowId": "campaign" });
    let fire = host.post(&format!("{ROSTER}/{id}/fire"), &body).key(READER).send().await;
    assert_eq!(fire.refusal(), (403, "forbidden"));
    let before = host.get(&format!("/v1/agents/{TRIAGER}")).send().await.json;
    assert_eq!(before["toolAllowlist"], json!([]), "a portfolio widens no agent's tools");
}

#[tokio::test(start_paused = true)]
async fn where_no_roster_is_offered_nothing_of_it_is_there() {
    let mut config = ServerConfig::default();
    if let Some(agents) = &mut config.agents {
        agents.roster = None;
    }
    let host = TestHost::of(Setup { config, seams: TestSeams::On, ..Setup::default() }).await;
    for path in ["/v1/agents/roster", "/v1/agents/roster/host:a", ROSTER] {
        let reply = host.get(path).send().await;
        assert_eq!(reply.refusal(), (501, "capability_not_provided"), "{path}");
    }
    let discovery = host.get("/.well-known/openwop").send().await.json;
    assert_eq!(discovery["agents"].get("roster"), None);
}

/// S-13: the suite's door goes through the same code.
#[tokio::test(start_paused = true)]
async fn s13_a_fire_through_the_door_is_attributed_like_any_other() {
    let host = host().await;
    let door = "/v1/host/sample/roster/fire";
    let nobody = json!({ "rosterId": "host:nobody-1", "triggerSource": "schedule" });
    assert_eq!(host.post(door, &nobody).send().await.refusal(), (404, "not_found"));
    let id = sally(&host).await;
    let reply = host.post(door, &json!({ "triggerSource": "schedule" })).send().await;
    let run = reply.text_at("runId");
    assert_eq!(reply.json, json!({ "runId": run, "rosterId": id }));
    let seam = host.get(&format!("/v1/host/sample/test/runs/{run}/events")).send().await.json;
    assert_eq!(seam["events"][1]["payload"]["triggerSource"], "schedule");
    let body = json!({ "triggerSource": "webhook", "asWorkItem": true });
    let reply = host.post(door, &body).send().await;
    let events = host.end_of(&reply.text_at("runId")).await;
    assert_eq!(events[1]["payload"]["triggerSubscriptionId"], reply.json["triggerSubscriptionId"]);
    assert!(reply.json["triggerSubscriptionId"].is_string(), "{reply:?}");
    assert_eq!(events[1]["payload"]["triggerSource"], "webhook");
    assert_eq!(events[0]["causationId"], events[2]["eventId"], "delivered like any item");
    let work = host.get(&format!("{ROSTER}/{id}/work")).send().await.json;
    assert_eq!(work["work"][0]["runId"], reply.json["runId"]);
    let unknown = host.post(door, &json!({ "triggerSource": "kanban" })).send().await;
    assert_eq!(unknown.refusal(), (400, "validation_error"));
}

/// S-13: the suite names nobody on a host that it has just started.
#[tokio::test(start_paused = true)]
async fn the_door_hires_somebody_for_a_fixture_where_nobody_is() {
    let host = host().await;
    let door = "/v1/host/sample/roster/fire";
    let reply = host.post(door, &json!({ "triggerSource": "schedule" })).send().await;
    let roster = host.get(ROSTER).send().await.json;
    assert_eq!(roster["roster"][0]["rosterId"], reply.json["rosterId"], "{reply:?}");
    assert_eq!((&roster["roster"][0]["persona"], &roster["total"]), (&json!("Standby"), &json!(1)));
    let again = host.post(door, &json!({})).send().await;
    assert_eq!(again.json["rosterId"], reply.json["rosterId"], "once hired, nobody else is");
}

/// S-13: who has the answer can read what was told.
#[tokio::test(start_paused = true)]
async fn the_door_answers_when_the_run_has_begun() {
    let host = host().await;
    sally(&host).await;
    host.store.fail(Fault::Late);
    let door = "/v1/host/sample/roster/fire";
    let run =
        host.post(door, &json!({ "triggerSource": "schedule" })).send().await.text_at("runId");
    let log = host.get(&format!("/v1/host/sample/test/runs/{run}/events")).send().await.json;
    assert_eq!(log["events"][1]["type"], "roster.run.initiated", "{log}");
}

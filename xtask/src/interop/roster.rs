//! Standing members: hired, fired, attributed, and invisible to other tenants.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::STRANGER;
use super::session::Session;
use crate::wire::Request;

const WITHIN: Duration = Duration::from_secs(10);
const AGENT: &str = "core.conformance.agent-pack.installed-agent";
const ROSTER: &str = "/v1/host/callboard/roster";
const DOOR: &str = "/v1/host/sample/roster/fire";
/// What no attribution may hold.
const CONTENT: [&str; 8] =
    ["body", "prompt", "input", "payload", "apiKey", "secret", "credentials", "token"];

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let outcome = seeded(session).await;
    session.book.enter("roster: a fire through the door finds somebody on a fresh host", outcome);
    let outcome = hired(session).await;
    session.book.enter("roster: the reads, the inventory, and nothing for a stranger", outcome);
    let outcome = fired(session).await;
    session.book.enter("roster: a fire is attributed first, without content", outcome);
    let outcome = dispatched(session).await;
    session
        .book
        .enter("roster: a member is dispatched as host:<id>, and replayed as it was", outcome);
    let outcome = placed(session).await;
    session.book.enter("org chart: the reads, and nothing for a stranger", outcome);
    let outcome = bounded(session).await;
    session.book.enter("budget: told in order, ended in budget_exhausted", outcome);
    let outcome = watched(session).await;
    session.book.enter("heartbeat: only a change is told, a slow look is given up", outcome);
    let outcome = session.settle();
    session.book.enter("roster: every body matches its schema", outcome);
    Ok(())
}

async fn seeded(session: &mut Session) -> Result<()> {
    let fired =
        session.expect(200, Request::post(DOOR, &json!({ "triggerSource": "schedule" }))).await?;
    attributed(session, &fired, "schedule").await.map(drop)
}

async fn hired(session: &mut Session) -> Result<()> {
    let hire = json!({ "persona": "Sally", "agentRef": { "agentId": AGENT },
        "workflows": ["conformance-noop"], "description": "Owns the empty workflow." });
    let entry = session.expect(201, Request::post(ROSTER, &hire)).await?;
    session.note("agent-roster-entry", &entry);
    let id = entry["rosterId"].as_str().context("no id")?.to_owned();
    let list = session.expect(200, Request::get("/v1/agents/roster")).await?;
    session.note("agent-roster-response", &list);
    let roster = list["roster"].as_array().context("no roster")?;
    ensure!(list["total"] == json!(roster.len()), "{list}");
    ensure!(roster.iter().map(|entry| entry["rosterId"].as_str()).is_sorted(), "not sorted");
    let path = format!("/v1/agents/roster/{}", id.replace(':', "%3A"));
    ensure!(session.expect(200, Request::get(path.clone())).await? == entry, "another entry");
    let inventory = session.expect(200, Request::get("/v1/agents")).await?;
    session.note("agent-inventory-response", &inventory);
    ensure!(inventory.to_string().contains(&id), "the inventory does not show {id}");
    let unknown = "/v1/agents/roster/host:nobody-1";
    let ours = session.send(&Request::get(path).bearer(STRANGER)).await?;
    let none = session.send(&Request::get(unknown).bearer(STRANGER)).await?;
    ensure!(ours.status == 404 && ours.body == none.body, "a stranger learns of {id}");
    let empty = session.send(&Request::get("/v1/agents/roster").bearer(STRANGER)).await?.json()?;
    ensure!(empty == json!({ "roster": [], "total": 0 }), "{empty}");
    for (agent, workflows, status) in [
        (json!({ "agentId": AGENT, "version": "1.0.0", "channel": "stable" }), json!([]), 400),
        (json!({ "agentId": "core.no.body" }), json!([]), 400),
        (json!({ "agentId": AGENT }), json!(["nobodys-workflow"]), 403),
    ] {
        let body = json!({ "persona": "X", "agentRef": agent, "workflows": workflows });
        session.expect(status, Request::post(ROSTER, &body)).await?;
    }
    Ok(())
}

async fn fired(session: &mut Session) -> Result<()> {
    let body = json!({ "triggerSource": "webhook", "asWorkItem": true });
    let fired = session.expect(200, Request::post(DOOR, &body)).await?;
    let told = attributed(session, &fired, "webhook").await?;
    let over = &fired["triggerSubscriptionId"];
    ensure!(over.is_string() && told["triggerSubscriptionId"] == *over, "{told}");
    let id = fired["rosterId"].as_str().context("no member")?;
    let runs = format!("/v1/host/callboard/runs?rosterId={id}");
    let listed = session.expect(200, Request::get(runs)).await?;
    ensure!(listed.to_string().contains(fired["runId"].as_str().unwrap_or("?")), "{listed}");
    session.expect(200, Request::get(format!("{ROSTER}/{id}/activity"))).await?;
    Ok(())
}

/// Answers what the log says of the member.
async fn attributed(session: &mut Session, fired: &Value, source: &str) -> Result<Value> {
    let run = fired["runId"].as_str().context("no run")?.to_owned();
    let observed = session.observe(&run, WITHIN).await?;
    observed.is_a_log()?;
    let second = observed.events.get(1).context("no second event")?;
    ensure!(second["type"] == "roster.run.initiated", "{second}");
    ensure!(observed.payloads("roster.run.initiated").len() == 1, "told twice");
    let told = second["payload"].clone();
    ensure!(told["rosterId"] == fired["rosterId"] && told["triggerSource"] == source, "{told}");
    ensure!(CONTENT.iter().all(|name| told.get(name).is_none()), "content: {told}");
    Ok(told)
}

async fn dispatched(session: &mut Session) -> Result<()> {
    let list = session.expect(200, Request::get("/v1/agents/roster")).await?;
    let roster = list["roster"].as_array().context("no roster")?;
    let sally = roster.iter().find(|entry| entry["persona"] == "Sally").context("no Sally")?;
    let id = sally["rosterId"].as_str().context("no id")?;
    let run = session.create(&json!({ "agentId": id, "inputs": { "x": 1 } })).await?;
    let observed = session.observe(&run, WITHIN).await?;
    let order = ["run.started", "roster.run.initiated", "agent.decided", "run.completed"];
    observed.in_order(&order)?;
    let agent = json!({ "agentId": AGENT, "name": "Sally", "sourceManifestId": AGENT });
    ensure!(observed.snapshot["agent"] == agent, "{}", observed.snapshot["agent"]);
    let dismiss = Request::get(format!("{ROSTER}/{id}")).method("DELETE");
    let dismissed = session.ask(dismiss).await?;
    ensure!(dismissed.status == 204, "{}", dismissed.text());
    let fork = json!({ "mode": "replay", "fromSeq": 0 });
    let fork = session.expect(201, Request::post(format!("/v1/runs/{run}:fork"), &fork)).await?;
    let again = session.observe(fork["runId"].as_str().context("no fork")?, WITHIN).await?;
    let told = |events: &[Value]| events.get(1).map(|event| event["payload"].clone());
    ensure!(told(&again.events) == told(&observed.events), "{:?}", told(&again.events));
    Ok(())
}

async fn placed(session: &mut Session) -> Result<()> {
    let hire = json!({ "persona": "Bob", "agentRef": { "agentId": AGENT }, "workflows": ["conformance-noop"] });
    let bob = session.expect(201, Request::post(ROSTER, &hire)).await?;
    let chart = json!({
        "departments": [
            { "departmentId": "desk", "name": "Desk", "roles": [{ "roleId": "lead", "name": "Lead" }] },
            { "departmentId": "night", "name": "Night", "parentDepartmentId": "desk", "roles": [] },
        ],
        "members": [{ "rosterId": bob["rosterId"], "departmentId": "night", "roleId": "lead", "reportsTo": null }],
    });
    let put = Request::post("/v1/host/callboard/org-chart", &chart).method("PUT");
    session.expect(200, put).await?;
    let read = session.expect(200, Request::get("/v1/agents/org-chart")).await?;
    session.note("agent-org-chart", &read);
    let view = session.expect(200, Request::get("/v1/agents/org-chart/desk")).await?;
    session.note("org-chart-responsibility-view", &view);
    ensure!(view["responsibilities"] == json!(["conformance-noop"]), "{view}");
    let alone = Request::get("/v1/agents/org-chart/desk?recursive=false");
    let alone = session.expect(200, alone).await?;
    ensure!(alone["members"] == json!([]), "{alone}");
    let theirs = Request::get("/v1/agents/org-chart/desk").bearer(STRANGER);
    let none = Request::get("/v1/agents/org-chart/nowhere").bearer(STRANGER);
    let (theirs, none) = (session.send(&theirs).await?, session.send(&none).await?);
    ensure!(theirs.status == 404 && theirs.body == none.body, "a stranger learns of a department");
    Ok(())
}

async fn bounded(session: &mut Session) -> Result<()> {
    let door = "/v1/host/sample/budget/run";
    let spent = Request::post(door, &json!({ "scenario": "hard-cost-exhaust" }));
    let spent = session.expect(200, spent).await?;
    let run = spent["runId"].as_str().context("no run")?.to_owned();
    let observed = session.observe(&run, WITHIN).await?;
    observed.is_a_log()?;
    observed.in_order(&[
        "run.started",
        "budget.reserved",
        "provider.usage",
        "budget.consumed",
        "budget.threshold.crossed",
        "budget.exhausted",
        "cap.breached",
        "run.failed",
    ])?;
    ensure!(observed.snapshot["error"]["code"] == "budget_exhausted", "{}", observed.snapshot);
    let denied = Request::post(door, &json!({ "scenario": "model-denied" }));
    let denied = session.expect(200, denied).await?;
    ensure!(denied["error"] == "budget_model_denied" && denied["modelCalled"] == false, "{denied}");
    Ok(())
}

async fn watched(session: &mut Session) -> Result<()> {
    let door = "/v1/host/sample/heartbeat/tick";
    for (state, slow, status, changed, runs) in [
        (1, 0, "ok", false, 0),
        (1, 0, "ok", false, 0),
        (2, 60_000, "timeout", false, 0),
        (2, 0, "ok", true, 1),
    ] {
        let body = json!({
            "heartbeatId": "interop", "observedState": { "size": state }, "simulateSlowMs": slow,
        });
        let beat = session.expect(200, Request::post(door, &body)).await?;
        let evaluated = &beat["evaluated"][0];
        session.note("heartbeat-evaluated", evaluated);
        ensure!(evaluated["status"] == status && evaluated["changed"] == changed, "{beat}");
        ensure!(beat["enqueuedRuns"] == runs, "{beat}");
        let told = beat["stateChanged"].as_array().context("no list")?;
        ensure!(told.len() == usize::from(changed), "{beat}");
        told.iter().for_each(|told| session.note("heartbeat-state-changed", told));
    }
    Ok(())
}

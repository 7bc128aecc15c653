//! R52–R58: what a fork is, what is refused, and replays of everything that has ended here.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{SOON, enter, fork, replay, told};
use crate::interop::session::Session;
use crate::interop::{READER, STRANGER};
use crate::wire::Request;

pub(super) async fn check(session: &mut Session) -> Result<()> {
    let source = session.create(&json!({ "workflowId": "conformance-multi-node" })).await?;
    let last = session.observe(&source, SOON).await?.events.len() - 1;
    let outcome = refused(session, &source, last).await;
    enter(session, "fork: what is refused, and how", outcome);
    let outcome = hidden(session, &source).await;
    enter(session, "fork: whoever may not read a run may not fork it", outcome);
    let outcome = branched(session, &source).await;
    enter(session, "fork: a branch keeps its history, changes options, leaves its source", outcome);
    let outcome = repeated(session, &source).await;
    enter(session, "fork: one key makes one fork", outcome);
    for (name, run) in everything(session).await? {
        let outcome = replays_alike(session, &run).await;
        enter(
            session,
            &format!("fork: {name} replays alike from its first event to its last"),
            outcome,
        );
    }
    Ok(())
}

/// R52, R53.
async fn refused(session: &mut Session, source: &str, last: usize) -> Result<()> {
    let overlay = json!({ "tags": ["x"] });
    for (body, status) in [
        (json!({ "mode": "replay", "fromSeq": -1 }), 400),
        (json!({ "mode": "replay", "fromSeq": 1.5 }), 400),
        (json!({ "mode": "replay", "fromSeq": "1" }), 400),
        (json!({ "mode": "rewind", "fromSeq": 0 }), 400),
        (json!({ "fromSeq": 0 }), 400),
        (json!({ "mode": "branch" }), 400),
        (json!({ "mode": "replay", "fromSeq": 0, "runOptionsOverlay": overlay }), 400),
        (json!({ "mode": "replay", "fromSeq": 99_999 }), 422),
        (json!({ "mode": "branch", "fromSeq": last + 1 }), 422),
    ] {
        let request = Request::post(format!("/v1/runs/{source}:fork"), &body);
        session.expect(status, request).await.with_context(|| body.to_string())?;
    }
    fork(session, source, &json!({ "mode": "replay" })).await?;
    fork(session, source, &json!({ "mode": "replay", "fromSeq": last })).await?;
    let unknown = Request::post("/v1/runs/run_nowhere:fork", &json!({ "mode": "replay" }));
    session.expect(404, unknown).await?;
    Ok(())
}

/// R52.
async fn hidden(session: &mut Session, source: &str) -> Result<()> {
    let request = || Request::post(format!("/v1/runs/{source}:fork"), &json!({ "mode": "replay" }));
    for (key, status) in [(STRANGER, 404), (READER, 403)] {
        let answer = session.send(&request().bearer(key)).await?;
        ensure!(answer.status == status, "{key} gets {}", answer.status);
    }
    ensure!(session.send(&request()).await?.status == 401, "nobody may fork");
    Ok(())
}

/// R58.
async fn branched(session: &mut Session, source: &str) -> Result<()> {
    let before = session.log(source).await?;
    let overlay = json!({ "configurable": { "recursionLimit": 2 }, "tags": ["again"] });
    let body = json!({ "mode": "branch", "fromSeq": 3, "runOptionsOverlay": overlay });
    let branch = fork(session, source, &body).await?;
    let branch = session.observe(&branch, SOON).await?;
    branch.is_a_log()?;
    let taken_over = |event: &Value| [event["type"].clone(), event["payload"].clone()];
    let history = |events: &[Value]| events[..3].iter().map(taken_over).collect::<Vec<_>>();
    ensure!(history(&branch.events) == history(&before), "another history");
    let (error, tags) = (&branch.snapshot["error"], &branch.snapshot["tags"]);
    ensure!(error["code"] == "recursion_limit_exceeded", "the option does nothing: {error}");
    ensure!(*tags == json!(["again"]), "{tags}");
    let named = json!({ "sourceRunId": source, "fromSeq": 3, "mode": "branch" });
    ensure!(branch.snapshot["fork"] == named, "{}", branch.snapshot["fork"]);
    ensure!(branch.kinds().iter().all(|kind| *kind != "replay.diverged"), "a branch diverges");
    ensure!(session.log(source).await? == before, "the source has changed");
    Ok(())
}

async fn repeated(session: &mut Session, source: &str) -> Result<()> {
    let request = || {
        let request =
            Request::post(format!("/v1/runs/{source}:fork"), &json!({ "mode": "replay" }));
        request.header("idempotency-key", "fork-once")
    };
    let (first, again) = (session.ask(request()).await?, session.ask(request()).await?);
    ensure!(first.status == 201 && first.json()? == again.json()?, "two forks");
    ensure!(again.header("openwop-idempotent-replay") == Some("true"), "not said to be repeated");
    Ok(())
}

/// One ended run of every workflow that has run on this host, the newest.
async fn everything(session: &mut Session) -> Result<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut path = "/v1/host/callboard/runs?limit=100".to_owned();
    loop {
        let page = session.expect(200, Request::get(path)).await?;
        for run in page["runs"].as_array().context("no list of runs")? {
            let text = |name: &str| run[name].as_str().unwrap_or_default().to_owned();
            let is_ended = matches!(text("status").as_str(), "completed" | "failed");
            let (workflow, id) = (text("workflowId"), text("runId"));
            if is_ended && found.iter().all(|(known, _)| *known != workflow) {
                found.push((workflow, id));
            }
        }
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/v1/host/callboard/runs?limit=100&cursor={cursor}");
    }
    found.sort();
    Ok(found)
}

/// R54, R56, R57: twice from several places, without a divergence; `:diff` says the same.
async fn replays_alike(session: &mut Session, source: &str) -> Result<()> {
    let original = session.observe(source, SOON).await?;
    let last = original.events.len() - 1;
    let mut places = vec![0, last / 3, 2 * last / 3, last];
    places.dedup();
    for from in places {
        let (first, second) =
            (replay(session, source, from).await?, replay(session, source, from).await?);
        first.is_a_log()?;
        ensure!(told(&first) == told(&second), "two replays from {from} differ");
        ensure!(told(&first) == told(&original), "from {from}: {}", first.kinds().join(", "));
        let path = format!("/v1/runs/{source}:diff?against={}", first.run);
        let diff = session.expect(200, Request::get(path)).await?;
        session.note("run-diff-response", &diff);
        ensure!(diff["divergedAtSeq"].is_null() && diff["eventDiffs"] == json!([]), "{diff}");
    }
    ensure!(session.log(source).await? == original.again, "R58: the source has changed");
    Ok(())
}

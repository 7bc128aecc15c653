//! Files of workspaces: the suite's requests, their owner, and which turn of a loop sees them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::session::Session;
use super::{KEY, STRANGER};
use crate::wire::{Answer, Request};

const WITHIN: Duration = Duration::from_secs(10);
const FILES: &str = "/v1/host/workspace/files";
const LOOP: &str = "/v1/host/sample/agentloop/run";

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let outcome = round_trip(session).await;
    session.book.enter("RFC 0059 §C: a file is written, read, listed and removed", outcome);
    let outcome = conflicts(session).await;
    session.book.enter("RFC 0059 §C: a stale If-Match is refused, a large file too", outcome);
    let outcome = snapshot(session).await;
    session.book.enter("RFC 0059 §D: a run shows the files that it began with", outcome);
    let outcome = owners(session).await;
    session.book.enter("WCT-1: nobody sees the file of somebody else", outcome);
    let outcome = redacted(session).await;
    session.book.enter("WSR-1: what looks like a credential is not kept", outcome);
    let outcome = turns(session).await;
    session.book.enter("S-17, M-81: a turn sees what the turns before it wrote", outcome);
    let outcome = session.settle();
    session.book.enter("workspace: every body matches its schema", outcome);
    Ok(())
}

fn at(path: &str) -> String {
    format!("{FILES}/{}", path.replace('/', "%2F"))
}

fn write(path: &str, content: &str) -> Request {
    Request::post(at(path), &json!({ "content": content })).method("PUT")
}

fn remove(path: &str) -> Request {
    Request::get(at(path)).method("DELETE")
}

async fn round_trip(session: &mut Session) -> Result<()> {
    let path = "behavior/CRUD.md";
    let created = session.expect(200, write(path, "first body")).await?;
    session.note("workspace-file", &created);
    ensure!(created["version"] == 1 && created["etag"].is_string(), "{created}");
    let read = session.expect(200, Request::get(at(path))).await?;
    session.note("workspace-file", &read);
    ensure!(read["content"] == "first body", "{read}");
    let list = session.expect(200, Request::get(FILES)).await?;
    let files = list["files"].as_array().context("no files")?;
    let listed = files.iter().find(|file| file["path"] == path).context("not listed")?;
    ensure!(listed.get("content").is_none(), "{listed}");
    session.expect(200, write(path, "second body")).await?;
    let old = session.expect(200, Request::get(format!("{}?version=1", at(path)))).await?;
    ensure!(old["content"] == "first body", "{old}");
    let removed = session.ask(remove(path)).await?;
    ensure!(removed.status == 204, "{}", removed.status);
    session.expect(404, Request::get(at(path))).await?;
    Ok(())
}

async fn conflicts(session: &mut Session) -> Result<()> {
    let path = "behavior/ETAG.md";
    let first = session.expect(200, write(path, "v1")).await?;
    let stale = write(path, "nope").header("if-match", "\"definitely-stale\"");
    let stale = session.expect(409, stale).await?;
    ensure!(stale["error"] == "workspace_conflict", "{stale}");
    ensure!(stale["details"]["currentVersion"] == 1, "{stale}");
    let tag = first["etag"].as_str().context("no etag")?;
    let second = session.expect(200, write(path, "v2").header("if-match", tag)).await?;
    ensure!(second["version"] == 2, "{second}");
    session.ask(remove(path)).await?;
    let document = session.send(&Request::get("/.well-known/openwop")).await?.json()?;
    let most = document["workspace"]["maxFileBytes"].as_u64().context("no maxFileBytes")?;
    let large = "x".repeat(usize::try_from(most)? + 1);
    let refused = session.ask(write("behavior/TOOBIG.md", &large)).await?;
    ensure!(refused.status >= 400 && refused.json()?["error"] == "workspace_too_large");
    Ok(())
}

async fn snapshot(session: &mut Session) -> Result<()> {
    let path = "behavior/SNAPSHOT.md";
    session.expect(200, write(path, "snapshot body")).await?;
    let run = session.create(&json!({ "workflowId": "conformance-noop" })).await?;
    let observed = session.observe(&run, WITHIN).await?;
    let seen = observed.snapshot["workspace"].as_array().context("no workspace")?;
    ensure!(seen.iter().any(|file| file["path"] == path), "{seen:?}");
    session.ask(remove(path)).await?;
    let after = session.snapshot(&run).await?;
    ensure!(after["workspace"] == observed.snapshot["workspace"], "{}", after["workspace"]);
    Ok(())
}

async fn owners(session: &mut Session) -> Result<()> {
    let path = "blackbox.md";
    session.expect(200, write(path, "A-only")).await?;
    let as_stranger = async |session: &mut Session, path: &str| -> Result<Answer> {
        session.send(&Request::get(at(path)).bearer(STRANGER)).await
    };
    let theirs = as_stranger(session, path).await?;
    let nobodys = as_stranger(session, "unknown.md").await?;
    ensure!(theirs.status == 404 && theirs.text() == nobodys.text(), "{}", theirs.text());
    let listed = session.send(&Request::get(FILES).bearer(STRANGER)).await?;
    ensure!(!listed.text().contains(path), "{}", listed.text());
    session.ask(remove(path)).await?;
    let op = |tenant: &str, workspace: &str, op: &str| {
        let mut body = json!({ "tenant": tenant, "workspace": workspace, "op": op });
        if op != "list" {
            body["path"] = json!("WCT1-SECRET.md");
        }
        if op == "put" {
            body["content"] = json!("A-only secret body");
        }
        Request::post("/v1/host/sample/workspace/op", &body)
    };
    session.expect(200, op("wct1-tenant-a", "ws-a", "put")).await?;
    session.expect(404, op("wct1-tenant-a", "ws-b", "get")).await?;
    session.expect(404, op("wct1-tenant-b", "ws-a", "get")).await?;
    let listed = session.expect(200, op("wct1-tenant-a", "ws-b", "list")).await?;
    ensure!(listed["files"] == json!([]), "{listed}");
    let own = session.expect(200, op("wct1-tenant-a", "ws-a", "get")).await?;
    ensure!(own["content"] == "A-only secret body", "{own}");
    Ok(())
}

async fn redacted(session: &mut Session) -> Result<()> {
    let looks = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD";
    let written = session.expect(200, write("keys.md", &format!("key {looks}"))).await?;
    ensure!(!written.to_string().contains(looks), "{written}");
    let read = session.send(&Request::get(at("keys.md")).bearer(KEY)).await?.text();
    ensure!(!read.contains(looks), "{read}");
    session.ask(remove("keys.md")).await?;
    Ok(())
}

async fn turns(session: &mut Session) -> Result<()> {
    let body = json!({ "turns": 2, "workspaceWriteAtTurn": 1 });
    let shown = session.expect(200, Request::post(LOOP, &body)).await?;
    let visible = json!({ "atWriteTurn": false, "atNextTurn": true });
    ensure!(shown["workspaceVisible"] == visible, "{shown}");
    let body = json!({ "turns": 4, "suspendAtTurn": 2, "resume": true });
    let resumed = session.expect(200, Request::post(LOOP, &body)).await?;
    ensure!(resumed["resumedIteration"] == 2, "{resumed}");
    let counted: Vec<Value> = (1..=4).map(Value::from).collect();
    let decisions = resumed["decisions"].as_array().context("no decisions")?;
    let iterations: Vec<Value> = decisions.iter().map(|it| it["iteration"].clone()).collect();
    ensure!(iterations == counted, "{iterations:?}");
    Ok(())
}

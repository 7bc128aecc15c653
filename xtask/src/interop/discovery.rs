//! The discovery document, the API description and the definitions that the host was started with.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::session::Session;
use super::{families, fixtures, memory, models, orchestras, questions, talks};
use crate::wire::Request;

const PATH: &str = "/.well-known/openwop";

pub(crate) async fn check(session: &mut Session, folder: &Path) -> Result<()> {
    let answer = session.send(&Request::get(PATH)).await?;
    let document = answer.json()?;
    session.note("capabilities", &document);
    let outcome = session.settle();
    session.book.enter("discovery: matches capabilities.schema.json", outcome);
    session.book.enter("discovery: anonymous, JSON, cacheable", {
        let json =
            answer.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
        let cacheable = answer.header("cache-control").is_some();
        (|| {
            ensure!(
                answer.status == 200 && json && cacheable,
                "{} {:?}",
                answer.status,
                answer.header("content-type")
            );
            Ok(())
        })()
    });
    session
        .book
        .enter("discovery: limits are closed and the version has two parts", shape(&document));
    session
        .book
        .enter("discovery: each family stands at the root and in the mirror", mirror(&document));
    session.book.enter("discovery: lists every core fixture once", listed(&document));
    let outcome = validators(session).await;
    session.book.enter("discovery: its validators hold and answer 304", outcome);
    let outcome = description(session).await;
    session.book.enter("openapi: anonymous and 3.1, complete for its own paths", outcome);
    definitions(session, folder, &document).await
}

fn shape(document: &Value) -> Result<()> {
    let limits = document["limits"].as_object().context("no limits")?;
    for key in ["clarificationRounds", "schemaRounds", "envelopesPerTurn"] {
        ensure!(limits.get(key).is_some_and(Value::is_u64), "limits.{key}");
    }
    let version = document["protocolVersion"].as_str().context("no protocolVersion")?;
    let parts: Vec<&str> = version.split('.').collect();
    ensure!(parts.len() == 2 && parts.iter().all(|part| part.parse::<u32>().is_ok()), "{version}");
    let all = document["protocolVersions"].as_array().context("no protocolVersions")?;
    ensure!(all.contains(&document["protocolVersion"]), "protocolVersions lacks {version}");
    Ok(())
}

fn mirror(document: &Value) -> Result<()> {
    let mirror = document["capabilities"].as_object().context("no mirror under `capabilities`")?;
    for (family, value) in mirror {
        ensure!(document.get(family) == Some(value), "{family} differs between root and mirror");
    }
    ensure!(mirror.contains_key("production"), "the mirror lacks production");
    Ok(())
}

fn listed(document: &Value) -> Result<()> {
    let fixtures = document["fixtures"].as_array().context("no fixtures")?;
    let expected = fixtures::names().into_iter().chain(questions::names());
    let expected = expected.chain(memory::names());
    let expected = expected.chain(families::names()).chain(talks::names());
    for name in expected.chain(orchestras::names()).chain(models::names()) {
        let times = fixtures.iter().filter(|held| *held == name).count();
        ensure!(times == 1, "{name} is listed {times} times");
    }
    Ok(())
}

async fn validators(session: &mut Session) -> Result<()> {
    let (first, second) =
        (session.send(&Request::get(PATH)).await?, session.send(&Request::get(PATH)).await?);
    let tag = first.header("etag").context("no ETag")?;
    ensure!(second.header("etag") == Some(tag), "the ETag changes by itself");
    let capabilities = first.header("capabilities-etag").context("no Capabilities-Etag")?;
    ensure!(
        !capabilities.is_empty() && second.header("capabilities-etag") == Some(capabilities),
        "it changes by itself"
    );
    let conditional = session.send(&Request::get(PATH).header("if-none-match", tag)).await?;
    ensure!(conditional.status == 304 && conditional.body.is_empty(), "{}", conditional.status);
    Ok(())
}

async fn description(session: &mut Session) -> Result<()> {
    let answer = session.send(&Request::get("/v1/openapi.json")).await?;
    ensure!(answer.status == 200, "{}", answer.status);
    let document = answer.json()?;
    let version = document["openapi"].as_str().context("no openapi")?;
    ensure!(version.starts_with("3.1"), "{version}");
    for server in document["servers"].as_array().into_iter().flatten() {
        ensure!(
            !server["url"].as_str().unwrap_or_default().ends_with("/v1"),
            "a server's URL ends in /v1"
        );
    }
    let paths = document["paths"].as_object().context("no paths")?;
    for path in
        ["/v1/runs", "/v1/runs/{runId}", "/v1/runs/{runId}/events", "/v1/workflows/{workflowId}"]
    {
        ensure!(paths.contains_key(path), "{path} is not described");
    }
    Ok(())
}

/// Every seeded definition comes back as it was, also one that this host cannot run.
async fn definitions(session: &mut Session, folder: &Path, document: &Value) -> Result<()> {
    let mut files: Vec<_> =
        fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path()).collect();
    files.sort();
    let (mut listed, mut unlisted, mut faults) = (0, 0, Vec::new());
    for path in files.iter().filter(|path| path.extension().is_some_and(|ending| ending == "json"))
    {
        let file: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
        let id = file["id"].as_str().context("a fixture without an id")?.to_owned();
        let answer = session.ask(Request::get(format!("/v1/workflows/{id}"))).await?;
        if answer.status != 200 || answer.json()? != file {
            faults.push(id.clone());
        }
        let is_listed =
            document["fixtures"].as_array().is_some_and(|fixtures| fixtures.contains(&file["id"]));
        *if is_listed { &mut listed } else { &mut unlisted } += 1;
    }
    let verbatim = match faults.as_slice() {
        [] => session.settle(),
        _ => Err(anyhow::anyhow!("not verbatim: {}", faults.join(", "))),
    };
    let name =
        format!("workflows: {listed} listed and {unlisted} unlisted fixtures come back verbatim");
    session.book.enter(&name, verbatim);
    Ok(())
}

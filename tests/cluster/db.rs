//! `callboard db` about a database that hosts share.

use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{Cluster, register, workflow};

fn db(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.env_clear().env("CALLBOARD_DATABASE_URL", address).arg("db").args(arguments);
    command
}

fn status(address: &str) -> Result<Value> {
    let output = db(address, &["status", "--json"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_database_is_counted_while_hosts_serve() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let none = status(&cluster.address)?;
    ensure!(none["schema"].is_null(), "{none}");

    let (_one, api) = cluster.host("one")?;
    register(&api, &workflow("noop", "core.noop", json!({}))).await?;
    let run = api.create(&json!({ "workflowId": "noop" }), "once").await?;
    assert_eq!(api.finish(&run).await?, "completed");
    let found = status(&cluster.address)?;
    ensure!(found["schema"] == found["knownSchema"], "{found}");
    ensure!(found["tables"]["runs"] == 1 && found["runs"]["completed"] == 1, "{found}");
    ensure!(found["records"]["workflow"] == 1, "{found}");
    ensure!(!found.to_string().contains("not-a-secret"), "a password: {found}");
    Ok(())
}

//! The guard: no coding agent works on when its host is dead, or frozen beyond its lease (C-50).

use anyhow::Result;

use crate::api::Api;
use crate::stage::{Stage, WRITER, done, gone, hang, init, say, seen};

/// Short, so that a frozen host is found soon.
const LEASE: (&str, &str) = ("CALLBOARD_LEASE_MS", "1500");

fn hangs_then_answers() -> Result<Stage> {
    let first = format!("{}{}", say(&[init("s-1")]), hang());
    Stage::new(&[first, say(&[init("s-1"), done("I am done")])])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_host_leaves_no_coding_agent_behind() -> Result<()> {
    let stage = hangs_then_answers()?;
    let host = stage.host_with(&[LEASE])?;
    let api = Api::of(host.url())?;
    api.create(&crate::order(WRITER), "once").await?;
    let processes = [stage.number("pid.0").await?, stage.number("child").await?];
    host.stop("KILL")?;
    // Nobody else is started that could clean up.
    gone(&processes).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_host_loses_its_coding_agents_and_is_of_use_again() -> Result<()> {
    let stage = hangs_then_answers()?;
    let host = stage.host_with(&[LEASE])?;
    let api = Api::of(host.url())?;
    let run = api.create(&crate::order(WRITER), "once").await?;
    let processes = [stage.number("pid.0").await?, stage.number("child").await?];
    seen(&api, &run, "callboard.agent.session").await?;
    host.signal("STOP")?;
    gone(&processes).await?;
    host.signal("CONT")?;
    assert_eq!(api.finish(&run).await?, "completed");
    assert_eq!(stage.starts(), 2);
    Ok(())
}

//! The primary dies and its replica is promoted: hosts find it by themselves.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use crate::crashes::{load, settle};
use crate::database::Database;
use crate::rolling::Feed;
use crate::stage::{CRASH_LEASE, host_on, insist};
use crate::{inside, register, workflow};

/// How far places leap when another server gives them.
const LEAP: u64 = 1_000_000;

/// C-36, C-01: with a synchronous replica nothing acknowledged is lost, and no reader stands ahead of what comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_is_found_and_nothing_acknowledged_is_lost() -> Result<()> {
    let Some(primary) = Database::start()? else { return Ok(()) };
    crate::server::connect(&primary.address()).await?;
    let replica = primary.replica()?;
    inside::replicate_synchronously(&primary.address()).await?;
    let both = format!("127.0.0.1:{},127.0.0.1:{}", primary.port, replica.port);
    let address = primary.address().replace(&format!("127.0.0.1:{}", primary.port), &both);
    let address = format!("{address}?target_session_attrs=read-write");
    let folder = TempDir::new()?;
    let (one, first) = host_on(&folder, "one", &address, CRASH_LEASE)?;
    let (_other, second) = host_on(&folder, "other", &address, CRASH_LEASE)?;
    register(&first, &workflow("wait", "core.delay", json!({ "durationMs": 500 }))).await?;
    let apis = [first.clone(), second.clone()];
    let (feed, begun) = tokio::join!(Feed::follow(one.url()), async {
        // After the reader has come: it begins with what happens from then on.
        tokio::time::sleep(Duration::from_secs(2)).await;
        insist(&apis, "wait", "wait-first").await
    });
    let (feed, _) = (feed?, begun?);
    let mut load = load(&apis, "wait", 4, 8).await;
    load.spawn({
        let apis = apis.clone();
        async move { Ok(vec![("wait-first".into(), insist(&apis, "wait", "wait-first").await?)]) }
    });
    tokio::time::sleep(Duration::from_millis(800)).await;
    primary.crash()?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    replica.promote()?;
    let stories = settle(&second, "wait", load).await?;
    assert_eq!(stories.len(), 33);
    for (run, story) in &stories {
        ensure!(story.count("run.resumed") <= 1, "{run}: {story:?}");
    }
    let run = insist(&apis, "wait", "wait-last").await?;
    feed.check(&second, std::iter::once(&run)).await?;
    let seen = feed.seen();
    let leapt = seen.windows(2).any(|pair| pair[1].0 - pair[0].0 >= LEAP);
    ensure!(leapt, "places went on as if nothing had happened: {:?}", seen.last());
    Ok(())
}

//! A backup under load: the host goes on, is killed, and everything that it had acknowledged before the backup is in
//! the folder that is restored.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;

use crate::Scene;
use crate::api::Api;
use crate::support::host::Host;

/// Acknowledged before the backup begins.
const BEFORE: usize = 60;
const CALLERS: usize = 4;

fn db(arguments: &[&str], paths: &[&Path]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.env_clear().env("TMPDIR", std::env::temp_dir()).arg("db").args(arguments).args(paths);
    Ok(command.current_dir("/").output()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_write_up_to_a_backup_is_in_what_is_restored() -> Result<()> {
    let scene = Scene::new()?;
    let host = scene.start()?;
    let api = Api::of(host.url())?;
    let (acknowledged, is_over) =
        (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (api, runs, is_over) = (api.clone(), Arc::clone(&acknowledged), Arc::clone(&is_over));
        callers.spawn(async move {
            for number in 0.. {
                let body = json!({ "workflowId": "noop" });
                // The last one of each caller meets a host that is gone.
                let Ok(run) = api.create(&body, &format!("backup-{caller}-{number}")).await else {
                    break;
                };
                runs.lock().unwrap_or_else(PoisonError::into_inner).push(run);
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
    }
    let known = || acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let deadline = Instant::now() + Duration::from_secs(60);
    while known().len() < BEFORE {
        ensure!(Instant::now() < deadline, "only {} runs", known().len());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ended = api.finish(&known()[0]).await?;
    ensure!(ended == "completed", "{ended}");
    let log = api.log(&known()[0]).await?;
    let before = known();
    let elsewhere = tempfile::tempdir()?;
    let archive = elsewhere.path().join("backup.tar");
    let data = scene.folder.path().join("data");
    let flag = data.to_str().context("a plain path")?;
    let backup = tokio::task::spawn_blocking({
        let (archive, flag) = (archive.clone(), flag.to_owned());
        move || db(&["backup", "--data", &flag], &[&archive])
    });
    let backup = backup.await??;
    ensure!(backup.status.success(), "{}", String::from_utf8_lossy(&backup.stderr));
    is_over.store(true, Ordering::SeqCst);
    host.stop("KILL")?;
    while callers.join_next().await.is_some() {}

    let host = restore(&scene, &archive, &elsewhere.path().join("restored"))?;
    let api = Api::of(host.url())?;
    for run in &before {
        api.status(run)
            .await
            .with_context(|| format!("{run} was acknowledged before the backup"))?;
        ensure!(api.finish(run).await? == "completed");
    }
    ensure!(api.log(&before[0]).await? == log, "another log");
    Ok(())
}

/// A host on what the archive becomes.
fn restore(scene: &Scene, archive: &Path, folder: &Path) -> Result<Host> {
    let plain = |path: &Path| path.to_str().map(str::to_owned).context("a plain path");
    let key = plain(&scene.folder.path().join("data/host.key"))?;
    let restore = db(&["restore", "--data", &plain(folder)?, "--key", &key], &[archive])?;
    ensure!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
    let workflows = plain(&scene.folder.path().join("workflows"))?;
    Host::start(folder, &["--workflows", &workflows])
}

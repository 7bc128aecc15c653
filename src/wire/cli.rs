//! The coding agents of a host: where they live, what a crash has left of them, when their folders go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use callboard_backends::{CliAgents, CliFolders, CliSettings, CliSurroundings};
use callboard_engine::{CodingSessions, Engine, KeyMode, Scope};
use callboard_protocol::{RunId, Tenant};
use callboard_store::SqliteStore;

use crate::exit::CommandError;

/// Where running coding agents are written down, below the host's data.
const RECORDS: &str = "coding-agents";
/// How often folders of runs that have ended are looked for: they cost space, not time.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How often runs are looked at for which a program waits: there are few, and only for a minute.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Coding agents with their folders.
#[derive(Debug, Clone)]
pub(super) struct Coders {
    pub(super) agents: Arc<CliAgents>,
    pub(super) folders: CliFolders,
    sessions: Arc<dyn CodingSessions>,
}

/// Ends what a lost host has left running before anything is resumed: one session has one agent.
pub(super) fn open(
    settings: &CliSettings,
    data: &Path,
    store: &Arc<SqliteStore>,
) -> Result<Coders, CommandError> {
    let records = data.join(RECORDS);
    match CliAgents::clean_up(records.clone()) {
        Ok(0) => {}
        Ok(ended) => tracing::info!(ended, "coding agents of a lost host ended"),
        Err(error) => {
            return Err(CommandError::failed(format!(
                "what coding agents a lost host has left cannot be told: {error}"
            ))
            .hint(format!("let this user read {}", records.display())));
        }
    }
    // Neither the agents' homes nor their work lie beside the host's keys.
    let folders = CliFolders::at(std::env::temp_dir().join(format!("callboard-{}", store.name())));
    let surroundings = CliSurroundings {
        environment: environment(),
        folders: folders.clone(),
        records: Some(records),
        sessions: Some(store.clone()),
    };
    let agents = Arc::new(CliAgents::new(settings.clone(), surroundings));
    Ok(Coders { agents, folders, sessions: store.clone() })
}

/// What is no text is of no use to a program either.
pub(crate) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// What may be wrong with where coding agents work.
pub(super) fn check(settings: &CliSettings, data: &Path) -> Result<(), CommandError> {
    let Some(folder) = &settings.work_dir else { return Ok(()) };
    let shown = folder.display();
    let hint = "name a folder with work_dir in [cli], or leave it out: then each run gets its own";
    let refused = |why: &str| CommandError::usage(format!("cli.work_dir {shown} {why}")).hint(hint);
    let real = folder.canonicalize().map_err(|_| refused("is not there"))?;
    if !real.is_dir() {
        return Err(refused("is no folder"));
    }
    let data: PathBuf = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let data = data.canonicalize().unwrap_or(data);
    if real.starts_with(&data) {
        return Err(refused("lies in the data folder, where the host's keys are"));
    }
    if data.starts_with(&real) {
        tracing::warn!(
            work_dir = %shown,
            "the data folder lies where coding agents work: move it with --data"
        );
    }
    Ok(())
}

impl Coders {
    /// Removes what is left of runs that are over until told to stop.
    pub(super) async fn sweep(self, engine: Engine, stop: CancellationToken) {
        let folders = every(SWEEP_EVERY, &stop, || self.tick(&engine));
        let held = every(LOOK_EVERY, &stop, || self.let_go(&engine));
        tokio::join!(folders, held);
    }

    /// Ends programs that wait for an answer which nobody will give any more.
    async fn let_go(&self, engine: &Engine) {
        for (tenant, run) in self.agents.held() {
            if is_over(engine, &tenant, &run).await {
                self.agents.let_go(&tenant, &run);
            }
        }
    }

    async fn tick(&self, engine: &Engine) {
        if let Err(error) = self.sessions.forget_sessions().await {
            tracing::warn!(%error, "sessions of coding agents stay");
        }
        let found = match self.folders.list() {
            Ok(found) => found,
            Err(error) => return tracing::warn!(%error, "folders of coding agents not looked at"),
        };
        for folder in found {
            if is_over(engine, &folder.tenant, &folder.run).await
                && let Err(error) = folder.remove()
            {
                tracing::warn!(%error, run = %folder.run, "a coding agent's folder stays");
            }
        }
    }
}

async fn every<F: Future<Output = ()>>(
    pause: Duration,
    stop: &CancellationToken,
    mut tick: impl FnMut() -> F,
) {
    loop {
        tick().await;
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// A run that cannot be looked at now is looked at later.
async fn is_over(engine: &Engine, tenant: &Tenant, run: &RunId) -> bool {
    for mode in [KeyMode::Live, KeyMode::Test] {
        let scope = Scope { tenant: tenant.clone(), workspace: None, mode };
        match engine.snapshot(&scope, run).await {
            Ok(Some(seen)) => return seen.status.is_terminal(),
            Ok(None) => {}
            Err(_) => return false,
        }
    }
    true
}

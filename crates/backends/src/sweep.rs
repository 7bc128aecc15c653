//! When folders of runs go: a coding agent's when its run is over, a workspace when its run is removed.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use callboard_engine::{CodingSessions, KeyMode, Scope, Store, StoreError};
use callboard_protocol::{RunId, Tenant};

use crate::cli::CliAgents;
use crate::folders::{RunFolders, on_disk};

/// How often folders of runs that have ended are looked for: they cost space, not time.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How often workspaces are compared with the runs that are there: those go days after their end.
const COMPARE_EVERY: Duration = Duration::from_secs(3_600);
/// How often runs are looked at for which a program waits: there are few, and only for a minute.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Removes what runs leave on this disk.
#[derive(Debug, Clone)]
pub struct FolderSweeper {
    pub store: Arc<dyn Store>,
    pub sessions: CodingSessions,
    pub agents: Arc<CliAgents>,
    /// Where coding agents work.
    pub coding: RunFolders,
    /// What tools have written.
    pub workspaces: RunFolders,
}

/// The states of a run, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Open,
    Ended,
    Removed,
}

impl FolderSweeper {
    /// Sleeps and removes folders until asked to stop. An interrupted removal is finished after the next start.
    pub async fn run(self, stop: CancellationToken) {
        let coding = every(SWEEP_EVERY, || self.sweep_coding());
        let workspaces = every(COMPARE_EVERY, || self.sweep_workspaces());
        let held = every(LOOK_EVERY, || self.release());
        stop.run_until_cancelled(async { tokio::join!(coding, workspaces, held) }).await;
    }

    /// Removes what coding agents have left of runs that are over.
    pub async fn sweep_coding(&self) {
        if let Err(error) = self.sessions.forget_sessions().await {
            tracing::warn!(%error, "sessions of coding agents stay");
        }
        self.sweep(&self.coding, Fate::Ended).await;
    }

    /// Removes the files of runs that are kept no longer.
    pub async fn sweep_workspaces(&self) {
        self.sweep(&self.workspaces, Fate::Removed).await;
    }

    /// Ends programs that wait for an answer which will not come any more.
    async fn release(&self) {
        for (tenant, run) in self.agents.held() {
            if self.fate(&tenant, &run).await.is_ok_and(|fate| fate >= Fate::Ended) {
                self.agents.release(&tenant, &run);
            }
        }
    }

    async fn sweep(&self, folders: &RunFolders, last: Fate) {
        let folders = folders.clone();
        let found = match on_disk(move || folders.list()).await {
            Ok(found) => found,
            Err(error) => return tracing::warn!(%error, "folders of runs not looked at"),
        };
        for folder in found {
            // A run that cannot be looked at now is looked at later.
            let Ok(fate) = self.fate(&folder.tenant, &folder.run).await else { continue };
            if fate < last {
                continue;
            }
            let run = folder.run.clone();
            if let Err(error) = on_disk(move || folder.remove()).await {
                tracing::warn!(%error, %run, "the folder of a run stays");
            }
        }
    }

    async fn fate(&self, tenant: &Tenant, run: &RunId) -> Result<Fate, StoreError> {
        for mode in [KeyMode::Live, KeyMode::Test] {
            let scope = Scope { tenant: tenant.clone(), workspace: None, mode };
            if let Some(found) = self.store.find(&scope, run).await? {
                let is_over = found.status.is_terminal();
                return Ok(if is_over { Fate::Ended } else { Fate::Open });
            }
        }
        Ok(Fate::Removed)
    }
}

async fn every<F: Future<Output = ()>>(pause: Duration, mut tick: impl FnMut() -> F) {
    loop {
        tick().await;
        tokio::time::sleep(pause).await;
    }
}

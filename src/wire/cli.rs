//! The coding agents of a host: their folders, and the processes that a crash has left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_backends::{
    CliAgents, CliSettings, CliSurroundings, FolderSweeper, RunFolders, private_folder,
};
use callboard_engine::{CodingSessions, patient};

use super::agents::WORKSPACES;
use super::database::Database;
use super::sandbox::{self, Places};
use crate::config::Config;
use crate::exit::CommandError;
use crate::handover;

/// Where running coding agents are written down, below the host's data.
const RECORDS: &str = "coding-agents";

/// Coding agents, with who removes the folders of runs.
#[derive(Debug, Clone)]
pub(super) struct Coders {
    pub(super) agents: Arc<CliAgents>,
    pub(super) sweeper: FolderSweeper,
    /// Where running ones are written down.
    pub(super) records: PathBuf,
}

/// Ends what a lost host has left running before anything is resumed: one session has one agent.
pub(super) fn open(
    config: &Config,
    places: &Places,
    database: &Database,
) -> Result<Coders, CommandError> {
    let store = database.store();
    let data = places.data.as_path();
    let records = data.join(RECORDS);
    match CliAgents::clean_up(records.clone()) {
        Ok(0) => {}
        Ok(ended) => tracing::info!(ended, "coding agents of a lost host ended"),
        Err(error) => {
            return Err(CommandError::failed(format!(
                "cannot find out which coding agents a crashed host has left: {error}"
            ))
            .hint(format!("let this user read {}", records.display())));
        }
    }
    // Created when it is needed, and not used where another process was faster.
    let ours = if places.scratch.exists() { private_folder(&places.scratch) } else { Ok(()) };
    ours.map_err(|error| {
        let place = places.scratch.display();
        CommandError::failed(format!("coding agents cannot use {place}: {error}"))
            .hint("remove it, or name another temporary folder with TMPDIR")
    })?;
    let folders = RunFolders::at(&places.runs);
    let surroundings = CliSurroundings {
        environment: handover::variables(),
        folders: folders.clone(),
        records: Some(records.clone()),
        // Kept by whoever drives a run, which waits for a store that is away.
        sessions: Some(CodingSessions::new(patient(store.clone(), database.clock()))),
        hidden: sandbox::hidden(config, places),
        scratch: Some(places.scratch.clone()),
        launcher: Some(sandbox::coding_launcher(config, places)),
    };
    let agents = Arc::new(CliAgents::new(config.cli.clone(), surroundings));
    let sweeper = FolderSweeper {
        store: store.clone(),
        sessions: CodingSessions::new(store.clone()),
        agents: Arc::clone(&agents),
        coding: folders,
        workspaces: RunFolders::at(data.join(WORKSPACES)),
    };
    Ok(Coders { agents, sweeper, records })
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
        return Err(refused("is inside the data folder, which holds the host's keys"));
    }
    if data.starts_with(&real) {
        tracing::warn!(
            work_dir = %shown,
            "the data folder is inside the work folder of coding agents, so they cannot create files next to it: move it with --data"
        );
    }
    Ok(())
}

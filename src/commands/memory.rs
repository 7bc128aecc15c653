//! `callboard memory`: what agents and workflows remember.

mod forget;
mod get;
mod history;
mod list;
mod restore;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;

use callboard_protocol::Timestamp;

use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard memory list --text invoice
  callboard memory history mem_q83vEjRW
  callboard memory restore mem_q83vEjRW --version 1"
)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    command: MemoryCommand,
}

#[derive(Debug, Subcommand)]
enum MemoryCommand {
    /// List what is remembered, newest first
    List(list::ListArgs),
    /// Show one entry
    Get(get::GetArgs),
    /// Show every version of an entry, and who wrote it
    History(history::HistoryArgs),
    /// Write an old version of an entry anew
    Restore(restore::RestoreArgs),
    /// Erase an entry with all of its versions
    Forget(forget::ForgetArgs),
}

pub(crate) async fn run(args: MemoryArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        MemoryCommand::List(args) => list::run(args, earlier).await,
        MemoryCommand::Get(args) => get::run(args, earlier).await,
        MemoryCommand::History(args) => history::run(args, earlier).await,
        MemoryCommand::Restore(args) => restore::run(args, earlier).await,
        MemoryCommand::Forget(args) => forget::run(args, earlier).await,
    }
}

/// One version of an entry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: String,
    #[serde(default)]
    scope_id: String,
    memory_ref: String,
    content: String,
    tags: Vec<String>,
    expires_at: Option<Timestamp>,
    version: u64,
    written_at: Timestamp,
    author: Author,
    #[serde(default)]
    sources: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Author {
    run_id: Option<String>,
    node_id: Option<String>,
    agent_id: Option<String>,
    principal: Option<String>,
}

impl Entry {
    fn read(found: Value) -> Result<Self, CommandError> {
        serde_json::from_value(found).map_err(|error| CommandError::unreadable(&error))
    }

    /// Where it is kept.
    fn place(&self) -> String {
        match self.scope_id.is_empty() {
            true => words::plain(&self.memory_ref),
            false => words::plain(&format!("{} in {}", self.memory_ref, self.scope_id)),
        }
    }

    /// Who wrote it, the agent or person first.
    fn author(&self) -> String {
        let Author { run_id, node_id, agent_id, principal } = &self.author;
        let run = match (run_id, node_id) {
            (Some(run), Some(node)) => Some(format!("{run} at {node}")),
            (run, _) => run.clone(),
        };
        let who = agent_id.clone().or_else(|| principal.clone());
        let parts: Vec<String> = who.into_iter().chain(run).collect();
        words::plain(&parts.join(", "))
    }

    fn print(&self) -> Result<(), CommandError> {
        output::field("entry", &self.id)?;
        output::field("version", &self.version.to_string())?;
        output::field("kept in", &self.place())?;
        output::field("written", &self.written_at.to_string())?;
        output::field("by", &self.author())?;
        if let Some(at) = self.expires_at {
            output::field("expires", &at.to_string())?;
        }
        if !self.sources.is_empty() {
            output::field("made from", &words::plain(&self.sources.join(", ")))?;
        }
        if !self.tags.is_empty() {
            output::field("tags", &words::plain(&self.tags.join(", ")))?;
        }
        output::line("")?;
        output::line(&words::plain(&self.content))
    }
}

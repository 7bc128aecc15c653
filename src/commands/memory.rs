//! `callboard memory`: memory of agents and workflows.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::{Listing, given};
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
    /// List entries, newest first
    List(ListArgs),
    /// Show one entry
    Get(GetArgs),
    /// Show every version of an entry, and who wrote it
    History(HistoryArgs),
    /// Write another content over an entry
    Edit(EditArgs),
    /// Write an old version of an entry as the newest
    Restore(RestoreArgs),
    /// Erase an entry with all of its versions
    Forget(ForgetArgs),
}

pub(crate) async fn run(args: MemoryArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        MemoryCommand::List(args) => list(args, earlier).await,
        MemoryCommand::Get(args) => get(args, earlier).await,
        MemoryCommand::History(args) => history(args, earlier).await,
        MemoryCommand::Edit(args) => edit(args, earlier).await,
        MemoryCommand::Restore(args) => restore(args, earlier).await,
        MemoryCommand::Forget(args) => forget(args, earlier).await,
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

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard memory forget mem_q83vEjRW

A forgotten entry cannot be restored, and forks of old runs do not see it either.")]
struct ForgetArgs {
    /// Id of the entry
    #[arg(value_name = "ENTRY")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

async fn forget(args: ForgetArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    client.remove(&Kind::MEMORY, &args.id).await?;
    output::done(&format!("{} forgotten", args.id))
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard memory get mem_q83vEjRW --json")]
struct GetArgs {
    /// Id of the entry
    #[arg(value_name = "ENTRY")]
    id: String,
    #[command(flatten)]
    host: HostArgs,
}

async fn get(args: GetArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let found: Value = client.get(&Kind::MEMORY, &args.id, "").await?;
    match args.host.json {
        true => output::json(&found)?,
        false => Entry::read(found)?.print()?,
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard memory history mem_q83vEjRW")]
struct HistoryArgs {
    /// Id of the entry
    #[arg(value_name = "ENTRY")]
    id: String,
    #[command(flatten)]
    host: HostArgs,
}

async fn history(args: HistoryArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = args.host.client(earlier)?.get(&Kind::MEMORY, &args.id, "/history").await?;
    Listing::new("versions", ["version", "written", "by", "content"], "no versions").show(
        found,
        args.host.json,
        |entry: Entry| {
            [
                Cell::new(entry.version),
                Cell::new(words::moment(entry.written_at)),
                Cell::new(entry.author()),
                Cell::new(words::preview(&entry.content.clone().into())),
            ]
        },
    )
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard memory list --text \"invoice Müller\"
  callboard memory list --scope agent/vendor.acme.desk.triager --tag source:run --json")]
struct ListArgs {
    /// Only entries of this scope or reference
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Only entries with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only entries that contain all of these words
    #[arg(long, value_name = "WORDS")]
    text: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Cursor of the next page, as printed by the previous one
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let found = client.list(&Kind::MEMORY, &query(&args)).await?;
    let headers = ["entry", "version", "kept in", "written", "content"];
    Listing::new("entries", headers, "nothing is remembered").show(
        found,
        args.host.json,
        |entry: Entry| {
            [
                Cell::new(&entry.id),
                Cell::new(entry.version),
                Cell::new(entry.place()),
                Cell::new(words::moment(entry.written_at)),
                Cell::new(words::preview(&entry.content.clone().into())),
            ]
        },
    )
}

fn query(args: &ListArgs) -> Vec<(&'static str, String)> {
    given([
        ("scopeId", args.scope.clone()),
        ("tag", args.tag.clone()),
        ("text", args.text.clone()),
        ("limit", Some(args.limit.to_string())),
        ("cursor", args.cursor.clone()),
    ])
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard memory restore mem_q83vEjRW --version 1
  callboard memory restore mem_q83vEjRW --version 1 --expected 3")]
struct RestoreArgs {
    /// Id of the entry
    #[arg(value_name = "ENTRY")]
    id: String,
    /// The version to restore
    #[arg(long, value_name = "N")]
    version: u64,
    /// Refuse unless this is the current version
    #[arg(long, value_name = "N")]
    expected: Option<u64>,
    #[command(flatten)]
    host: HostArgs,
}

async fn restore(args: RestoreArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let mut body = json!({ "version": args.version });
    if let Some(expected) = args.expected {
        body["expectedVersion"] = expected.into();
    }
    let restored: Value = client.post(&Kind::MEMORY, &args.id, "/restore", Some(&body)).await?;
    if args.host.json {
        return output::document(&restored);
    }
    let entry = Entry::read(restored)?;
    let (id, version) = (&entry.id, entry.version);
    output::line(&format!(
        "{id} is back as it was in version {}; now version {version}",
        args.version
    ))?;
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard memory edit mem_q83vEjRW --expected 2 --content 'The invoice is paid.'

What stood there stays in the history.")]
struct EditArgs {
    /// Id of the entry
    #[arg(value_name = "ENTRY")]
    id: String,
    /// The new content
    #[arg(long, value_name = "TEXT")]
    content: String,
    /// The version that was read; the entry is left as it is if another one is the current
    #[arg(long, value_name = "N")]
    expected: u64,
    #[command(flatten)]
    host: HostArgs,
}

async fn edit(args: EditArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let body = json!({ "content": args.content, "expectedVersion": args.expected });
    let written: Value = client.replace(&Kind::MEMORY, &args.id, &body).await?;
    if args.host.json {
        return output::document(&written);
    }
    let entry = Entry::read(written)?;
    output::line(&format!("{} is version {} now", entry.id, entry.version))?;
    Ok(Exit::Done)
}

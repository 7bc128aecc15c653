//! `callboard workflows apply`: files become definitions of a host, once or whenever they change.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use callboard_authoring::ProblemKind;
use clap::Args;
use owo_colors::OwoColorize;
use serde_json::{Value, json};

use super::file::{Files, Types, check};
use crate::args::{Connection, HostArgs};
use crate::client::Client;
use crate::commands::known;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

/// How often files are looked at: nobody notices half a second, and a look costs nothing.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard workflows apply nightly-report.yaml
  callboard workflows apply workflows/* --watch

A run in flight keeps the definition that it started with. With --watch, files are applied again
whenever they change, until Ctrl-C; what is wrong with one is shown, and the rest goes on.")]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    files: Files,
    /// Apply files again whenever they change
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(args: ApplyArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let files = &args.files.files;
    if !args.watch {
        let applied = apply(&client, files, args.host.json).await?;
        if args.host.json {
            output::json(&json!({ "workflows": applied }))?;
        }
        return Ok(Exit::Done);
    }
    tokio::select! {
        ended = watch(&client, files, args.host.json) => ended,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok(Exit::Done)
        }
    }
}

/// All or, where one of them is wrong, none.
async fn apply(client: &Client, files: &[PathBuf], json: bool) -> Result<Vec<Value>, CommandError> {
    let mut checked = Vec::new();
    let mut wrong = Vec::new();
    for file in files {
        match check(file, Types::Any) {
            Ok(found) => checked.push((file, found)),
            Err(mistakes) => wrong.push(mistakes.into_error(file)),
        }
    }
    if let Some(first) = wrong.first() {
        let all: Vec<&str> = wrong.iter().map(|error| error.what.as_str()).collect();
        let error = CommandError::failed(all.join("\n"));
        return Err(match &first.hint {
            Some(hint) => error.hint(hint.clone()),
            None => error,
        });
    }
    let mut applied = Vec::new();
    for (file, found) in checked {
        let id = found.plan.id().to_string();
        let names_others = found.names_others();
        let put = client.put_workflow(&id, found.canonical.into_bytes()).await;
        let is_new = put.map_err(|error| CommandError {
            what: format!("{}: {}", file.display(), error.what),
            ..error
        })?;
        let done = if is_new { "created" } else { "replaced" };
        if !json {
            output::line(&format!("{} {id} {done}", "✓".green()))?;
        }
        applied.push(json!({ "workflowId": id, "outcome": done }));
        if names_others {
            warn(client, file).await;
        }
    }
    Ok(applied)
}

/// An agent or tool that the host does not have may still come; but it is likelier spelt wrong, and a step whose agent
/// is only a name does nothing.
async fn warn(client: &Client, file: &Path) {
    let names = known::of_host(client).await;
    let Err(mistakes) = check(file, Types::Known(&names)) else { return };
    for problem in mistakes.listed.iter().filter(|it| it.kind == ProblemKind::Reference) {
        output::note(&format!("{} {}:{problem}", "warning:".yellow().bold(), file.display()));
    }
}

/// Applies each file when it was changed. What is wrong is shown, and mended by the next change.
async fn watch(client: &Client, files: &[PathBuf], json: bool) -> Result<Exit, CommandError> {
    output::hint("files are applied whenever they change; Ctrl-C ends it");
    let mut seen: Vec<Option<State>> = vec![None; files.len()];
    loop {
        for (file, before) in files.iter().zip(&mut seen) {
            let now = State::of(file);
            if now == *before {
                continue;
            }
            *before = now;
            match apply(client, std::slice::from_ref(file), json).await {
                Ok(applied) if json => {
                    for outcome in applied {
                        output::json_line(&outcome)?;
                    }
                }
                Ok(_) => {}
                Err(error) => output::error(&error),
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What tells a changed file from the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl State {
    /// None where there is no such file; an editor may be writing it anew.
    fn of(file: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(file).ok()?;
        Some(Self { modified: metadata.modified().ok(), bytes: metadata.len() })
    }
}

//! `callboard workflows validate`: everything that is wrong with files, without a host.

use callboard_authoring::Problem;
use clap::Args;
use owo_colors::OwoColorize;
use serde::Serialize;

use super::file::{Files, Types, check};
use crate::args::Connection;
use crate::commands::known::KnownArgs;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard workflows validate nightly-report.yaml
  callboard workflows validate workflows/* --json
  callboard workflows validate letters.yaml --url http://127.0.0.1:8787

Works without a host, and knows the [nodes] of the configuration. With --url, node types, agents and
tools are those of that host. All problems are shown at once, each with its line, column and path.")]
pub(super) struct ValidateArgs {
    #[command(flatten)]
    files: Files,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    known: KnownArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    file: String,
    is_valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    /// Of the first problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<Problem>,
}

pub(super) async fn run(args: ValidateArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let names = args.known.names(earlier).await?;
    let mut verdicts = Vec::new();
    for file in &args.files.files {
        let name = file.display().to_string();
        verdicts.push(match check(file, Types::Known(&names)) {
            Ok(checked) => {
                let id = checked.plan.id().to_string();
                if !args.json {
                    output::line(&format!("{} {name}: {id}", "✓".green()))?;
                }
                Verdict {
                    file: name,
                    is_valid: true,
                    workflow_id: Some(id),
                    path: None,
                    message: None,
                    problems: Vec::new(),
                }
            }
            Err(mistakes) => {
                if !args.json {
                    mistakes.show(file);
                }
                let (path, message) = mistakes.first();
                Verdict {
                    file: name,
                    is_valid: false,
                    workflow_id: None,
                    path: Some(path),
                    message: Some(message),
                    problems: mistakes.listed,
                }
            }
        });
    }
    if args.json {
        output::json(&serde_json::json!({ "files": verdicts }))?;
    }
    let is_good = verdicts.iter().all(|verdict| verdict.is_valid);
    Ok(if is_good { Exit::Done } else { Exit::Failed })
}

//! `callboard workflows validate`: every check that needs no host.

use clap::Args;
use owo_colors::OwoColorize;
use serde::Serialize;

use super::{Files, check, complaint};
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard workflows validate nightly-report.json
  callboard workflows validate workflows/*.json --json

Works without a host. Node types that a host may lack are reported by `apply` and by `run`.")]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    files: Files,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    file: String,
    is_valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

pub(super) fn run(args: &ValidateArgs) -> Result<Exit, CommandError> {
    let mut verdicts = Vec::new();
    for file in &args.files.files {
        let checked = check(file);
        if !args.json {
            match &checked {
                Ok(checked) => output::line(&format!(
                    "{} {}: {}",
                    "✓".green(),
                    file.display(),
                    checked.plan.id()
                ))?,
                Err(error) => {
                    output::note(&format!("{} {}", "error:".red().bold(), complaint(file, error)))
                }
            }
        }
        verdicts.push(Verdict {
            file: file.display().to_string(),
            is_valid: checked.is_ok(),
            workflow_id: checked.as_ref().ok().map(|checked| checked.plan.id().to_string()),
            path: checked.as_ref().err().map(|error| error.path.clone()),
            message: checked.as_ref().err().map(|error| error.message.clone()),
        });
    }
    if args.json {
        output::json(&serde_json::json!({ "files": verdicts }))?;
    }
    let wrong = verdicts.iter().filter(|verdict| !verdict.is_valid).count();
    Ok(if wrong == 0 { Exit::Done } else { Exit::Failed })
}

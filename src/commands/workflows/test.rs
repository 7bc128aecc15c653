//! `callboard workflows test`: cases in a file, played without a host.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_authoring::{Cases, Format, Verdict, read_tree};
use callboard_core::{HostLimits, Plan};
use callboard_protocol::WorkflowId;
use clap::Args;
use owo_colors::OwoColorize;
use serde_json::json;

use super::file::{Types, check};
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows test letters.test.yaml

Works without a host: agents, models, tools and people answer what the file says, and time is simulated.
docs/guides/testing.md says what a case can have.")]
pub(super) struct TestArgs {
    /// Files of cases, YAML or JSON
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &TestArgs) -> Result<Exit, CommandError> {
    let mut failed = 0;
    let mut passed = 0;
    let mut told = Vec::new();
    for file in &args.files {
        for Verdict { name, complaint } in play(file)? {
            let is_good = complaint.is_none();
            passed += usize::from(is_good);
            failed += usize::from(!is_good);
            if !args.json {
                show(&name, complaint.as_deref())?;
            }
            told.push(json!({
                "file": file.display().to_string(), "case": name, "passed": is_good,
                "complaint": complaint,
            }));
        }
    }
    if args.json {
        output::json(&json!({ "cases": told, "passed": passed, "failed": failed }))?;
    } else {
        output::line(&format!("{passed} passed, {failed} failed"))?;
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

fn show(name: &str, complaint: Option<&str>) -> Result<(), CommandError> {
    let Some(complaint) = complaint else {
        return output::line(&format!("{} {name}", "✓".green()));
    };
    output::line(&format!("{} {name}", "✗".red()))?;
    for line in complaint.lines() {
        output::line(&format!("    {line}"))?;
    }
    Ok(())
}

fn play(file: &Path) -> Result<Vec<Verdict>, CommandError> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| CommandError::usage(format!("{name} cannot be read: {error}")))?;
    let format = Format::of_file(&file.to_string_lossy()).unwrap_or(Format::Yaml);
    let tree = read_tree(&text, format)
        .map_err(|problem| CommandError::failed(format!("{name}:{problem}")))?;
    let cases = Cases::of(&tree).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|it| format!("{name}:{it}")).collect();
        CommandError::failed(lines.join("\n"))
    })?;
    // The workflow lies beside its cases.
    let workflow = file.parent().unwrap_or(Path::new("")).join(&cases.workflow);
    let checked = check(&workflow, Types::Any)
        .map_err(|mistakes| CommandError::failed(mistakes.lines(&workflow).join("\n")))?;
    let plan = Arc::new(checked.plan);
    let folder = workflow.parent().unwrap_or(Path::new("")).to_owned();
    // Each file is read once, however many runs of it there are.
    let found = RefCell::new(BTreeMap::new());
    let others = |id: &WorkflowId| {
        let found = &mut *found.borrow_mut();
        found.entry(id.clone()).or_insert_with(|| beside(&folder, id, &plan)).clone()
    };
    Ok(cases.play(&plan, HostLimits::default(), &others))
}

/// The workflow of another run: a file with its id as its name, beside the workflow that is tried, or that one itself.
fn beside(folder: &Path, id: &WorkflowId, tried: &Arc<Plan>) -> Option<Arc<Plan>> {
    if tried.id() == id {
        return Some(Arc::clone(tried));
    }
    // An id is one part of a path.
    let is_plain = !id.as_str().contains(['/', '\\', '.']);
    let names = ["yaml", "yml", "json"].map(|ending| folder.join(format!("{id}.{ending}")));
    let file = names.into_iter().find(|file| is_plain && file.is_file())?;
    check(&file, Types::Any).ok().map(|checked| Arc::new(checked.plan))
}

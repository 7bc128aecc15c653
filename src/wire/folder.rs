//! Definitions from folders: valid files are loaded, invalid ones are reported and skipped.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use callboard_authoring::{Format, Source};
use callboard_core::Plan;
use callboard_engine::Catalog;
use callboard_protocol::WorkflowDefinition;

use crate::exit::CommandError;

/// A file that may be a definition.
#[derive(Debug)]
pub(super) struct Candidate {
    file: PathBuf,
    source: Result<String, String>,
}

/// Reads `*.json`, `*.yaml` and `*.yml` of each folder itself, in the order of their names. A folder that is not there is a mistake.
pub(super) fn read(folders: &[PathBuf]) -> Result<Vec<Candidate>, CommandError> {
    let mut candidates = Vec::new();
    for folder in folders {
        for file in list(folder)? {
            let source = fs::read_to_string(&file).map_err(|error| error.to_string());
            candidates.push(Candidate { file, source });
        }
    }
    Ok(candidates)
}

/// Loads what compiles. Of two files with one id the later counts.
pub(super) fn load(candidates: Vec<Candidate>, catalog: &mut Catalog) {
    let mut known = BTreeSet::new();
    for Candidate { file, source } in candidates {
        let loaded = source
            .and_then(|source| canonical(&file, &source))
            .and_then(|source| catalog.load(&source).map_err(|error| error.to_string()));
        match loaded {
            Ok(id) if known.contains(&id) => {
                tracing::warn!(file = %file.display(), workflow = %id, "workflow definition replaces an earlier one");
            }
            Ok(id) => {
                known.insert(id);
            }
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "workflow definition skipped")
            }
        }
    }
    if !known.is_empty() {
        tracing::info!(workflows = known.len(), "workflow definitions loaded");
    }
}

/// The definitions of files that were found good. Of two with one id the later counts.
pub(super) fn sources(candidates: Vec<Candidate>) -> Vec<String> {
    let source = |Candidate { file, source }: Candidate| canonical(&file, &source.ok()?).ok();
    candidates.into_iter().filter_map(source).collect()
}

/// What is wrong with the files, each with its name and, where the text says it, the line.
pub(super) fn faults(candidates: &[Candidate]) -> Vec<String> {
    let fault = |Candidate { file, source }: &Candidate| {
        let compile = |source: String| {
            let plan = Plan::reopen(source.as_bytes()).and_then(|plan| plan.check_schemas());
            plan.map_err(|error| error.to_string())
        };
        let read = source.clone().and_then(|source| canonical(file, &source)).and_then(compile);
        read.err().map(|why| format!("{}: {why}", file.display()))
    };
    candidates.iter().filter_map(fault).collect()
}

/// What a file says as the protocol has it. A type that this host does not run keeps no definition from being read.
fn canonical(file: &Path, source: &str) -> Result<String, String> {
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let format = Format::of_file(&name).unwrap_or(Format::Json);
    if format == Format::Json && WorkflowDefinition::parse(source.as_bytes()).is_ok() {
        return Ok(source.to_owned());
    }
    let stem = file.file_stem().map(|stem| stem.to_string_lossy());
    let reading = callboard_authoring::expand(Source { text: source, format, id: stem.as_deref() });
    let problems: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
    reading.canonical.ok_or_else(|| problems.join("; "))
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let unreadable = |error| {
        CommandError::usage(format!(
            "the workflow folder {} cannot be read: {error}",
            folder.display()
        ))
        .hint("name an existing folder with --workflows or CALLBOARD_WORKFLOWS")
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        if Format::of_file(&name).is_some() && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

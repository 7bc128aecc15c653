//! The checks of coding agents: which are on `PATH`, and whether they answer.

use std::path::{Path, PathBuf};

use callboard_agents::{CODING_PROVIDER, ModelTable};
use callboard_backends::{CODING_KINDS, CliAgents, CliSurroundings, RunFolders};

use super::{Check, State};
use crate::config::Config;
use crate::handover;
use crate::wire::{self, sandbox::Places};

/// Nothing is asked of any model: a program is asked for its version, and that is all.
pub(super) async fn check(
    config: &Config,
    data: &Path,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<Check> {
    let surroundings = CliSurroundings {
        environment: handover::variables(),
        folders: RunFolders::at(std::env::temp_dir()),
        records: None,
        sessions: None,
        hidden: Vec::new(),
        scratch: None,
        launcher: Some(wire::sandbox::coding_launcher(config, &Places::of(data, "doctor"))),
    };
    let agents = CliAgents::new(config.cli.clone(), surroundings);
    // What is wrong with the models is said where they are checked.
    let providers = config.provider_settings(&variable).unwrap_or_default();
    let table = config.model_table(&providers, &variable).unwrap_or_default();
    let known = CODING_KINDS.iter().map(|kind| {
        let named = config.cli.agents.get(kind.name).and_then(|ours| ours.program.as_deref());
        (kind.name, named.unwrap_or(Path::new(kind.program)))
    });
    let own = config.cli.agents.iter().filter_map(|(name, ours)| {
        let program = ours.acp.as_ref()?.first()?;
        Some((name.as_str(), Path::new(program.as_str())))
    });
    let looks = known.chain(own).map(|(name, usual)| {
        let program = find(usual, variable("PATH"));
        look(name, usual, program, is_wanted(&table, name), &agents)
    });
    let found: Vec<Check> =
        futures_util::future::join_all(looks).await.into_iter().flatten().collect();
    if found.is_empty() {
        let programs = CODING_KINDS.map(|kind| kind.program).join(", ");
        let nobody = format!("none on PATH ({programs})");
        return vec![Check::new(NAME, State::Skipped, nobody)];
    }
    found
}

const NAME: &str = "coding agent";

/// One that is neither configured nor installed is not listed.
async fn look(
    name: &str,
    usual: &Path,
    program: Option<PathBuf>,
    is_wanted: bool,
    agents: &CliAgents,
) -> Option<Check> {
    let Some(program) = program else {
        return is_wanted.then(|| {
            let usual = usual.display();
            let found = format!("{name}: a model names it, and {usual} is not on PATH");
            Check::new(NAME, State::Failed, found).hint(format!(
                "install it, or name its program in [cli.{name}]; the host's own PATH counts"
            ))
        });
    };
    let shown = program.display();
    Some(match agents.version(name).await {
        Ok(version) => Check::new(NAME, State::Ok, format!("{name}: {version}, {shown}")),
        Err(error) => {
            let state = if is_wanted { State::Failed } else { State::Warning };
            Check::new(NAME, state, format!("{error} ({shown})"))
                .hint(format!("run `{shown} --version` yourself to see its error"))
        }
    })
}

fn is_wanted(table: &ModelTable, name: &str) -> bool {
    ModelTable::CLASSES.into_iter().any(|class| {
        let model = table.of(class);
        model.provider == CODING_PROVIDER && model.model == name
    })
}

/// A name is looked up; a path is taken as it stands.
fn find(program: &Path, path: Option<String>) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    let folders = path.unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_where_a_host_would_find_it() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("claude");
        let path = Some(format!("/nowhere:{}", folder.path().display()));
        assert_eq!(find(Path::new("claude"), path.clone()), None);
        std::fs::write(&program, "").unwrap();
        assert_eq!(find(Path::new("claude"), path), Some(program.clone()));
        assert_eq!(find(Path::new("claude"), None), None);
        assert_eq!(find(&program, None), Some(program));
    }
}

//! `[cli]`: how coding agents of the command line are started.

use std::path::{Component, PathBuf};
use std::time::Duration;

use callboard_backends::{CODING_KINDS, CliAgentSettings, CliSettings};

use super::source::{Source, Value, is_variable};
use crate::exit::CommandError;

const KEYS: [&str; 7] = ["work_dir", "home", "env", "idle_timeout_ms", "hold_ms", "read", "write"];
const AGENT_KEYS: [&str; 2] = ["program", "model"];
/// One that can ask may be told to.
const ASKING_KEYS: [&str; 3] = ["program", "model", "approvals"];
/// An agent of the operator's own has no program that is known already.
const OWN_KEYS: [&str; 2] = ["acp", "sessions"];
/// A day: nothing that prints nothing for longer is waited for.
const LONGEST_IDLE_MS: u64 = 86_400_000;

impl Source<'_> {
    pub(super) fn cli(&self, value: &Value<'_>) -> Result<CliSettings, CommandError> {
        let mut cli = CliSettings::default();
        for (key, value) in self.section(value, "cli")? {
            let name = key.get_ref().as_ref();
            let path = format!("cli.{name}");
            match name {
                "work_dir" => cli.work_dir = Some(self.path(value, &path)?),
                "home" => cli.home = Some(self.path(value, &path)?),
                "env" => cli.env = self.variables(value, &path)?,
                "idle_timeout_ms" => cli.idle_timeout = self.millis(value, &path)?,
                "read" => cli.read = self.paths(value, &path)?,
                "write" => cli.write = self.paths(value, &path)?,
                "hold_ms" => cli.hold = self.millis(value, &path)?,
                kind if CODING_KINDS.iter().any(|known| known.name == kind) => {
                    let asks = CODING_KINDS.iter().any(|it| it.name == kind && it.can_ask());
                    let known = if asks { &ASKING_KEYS[..] } else { &AGENT_KEYS };
                    cli.agents.insert(kind.to_owned(), self.coding_agent(value, &path, known)?);
                }
                own if is_name(own) && self.has_acp(value) => {
                    cli.agents.insert(own.to_owned(), self.own_agent(value, &path)?);
                }
                other => {
                    let kinds = CODING_KINDS.iter().map(|kind| kind.name);
                    let known: Vec<&str> = KEYS.into_iter().chain(kinds).collect();
                    return Err(self.unknown(key.span().start, &path, other, &known));
                }
            }
        }
        Ok(cli)
    }

    fn coding_agent(
        &self,
        value: &Value<'_>,
        path: &str,
        known: &[&str],
    ) -> Result<CliAgentSettings, CommandError> {
        let mut agent = CliAgentSettings::default();
        for (key, value) in self.section(value, path)? {
            let name = key.get_ref().as_ref();
            let path = format!("{path}.{name}");
            match name {
                "program" => agent.program = Some(self.path(value, &path)?),
                "model" => agent.model = Some(self.text(value, &path)?),
                "approvals" if known.contains(&name) => {
                    agent.approvals = self.switch(value, &path)?;
                }
                other => return Err(self.unknown(key.span().start, &path, other, known)),
            }
        }
        Ok(agent)
    }

    /// A section that says how to start an agent which this program does not know.
    fn has_acp(&self, value: &Value<'_>) -> bool {
        value.get_ref().as_table().is_some_and(|table| table.contains_key("acp"))
    }

    fn own_agent(&self, value: &Value<'_>, path: &str) -> Result<CliAgentSettings, CommandError> {
        let mut agent = CliAgentSettings::default();
        for (key, value) in self.section(value, path)? {
            let name = key.get_ref().as_ref();
            let path = format!("{path}.{name}");
            match name {
                "acp" => {
                    let words = self.texts(value, &path)?;
                    if words.first().is_none_or(|program| program.trim().is_empty()) {
                        return Err(self.wrong(value, &path, "a program and its arguments"));
                    }
                    agent.acp = Some(words);
                }
                "sessions" => agent.sessions = self.below_home(value, &path)?,
                other => return Err(self.unknown(key.span().start, &path, other, &OWN_KEYS)),
            }
        }
        Ok(agent)
    }

    fn below_home(&self, value: &Value<'_>, path: &str) -> Result<Vec<PathBuf>, CommandError> {
        let folders: Vec<PathBuf> =
            self.texts(value, path)?.into_iter().map(PathBuf::from).collect();
        let stays = |folder: &PathBuf| {
            let mut parts = folder.components();
            folder.file_name().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
        };
        if folders.iter().all(stays) {
            return Ok(folders);
        }
        Err(self.wrong(value, path, "folders below the agent's home"))
    }

    fn path(&self, value: &Value<'_>, path: &str) -> Result<PathBuf, CommandError> {
        match self.text(value, path)? {
            text if text.trim().is_empty() => Err(self.wrong(value, path, "a path")),
            text => Ok(text.into()),
        }
    }

    pub(super) fn paths(
        &self,
        value: &Value<'_>,
        path: &str,
    ) -> Result<Vec<PathBuf>, CommandError> {
        let paths = self.texts(value, path)?.into_iter().map(PathBuf::from);
        let paths: Vec<PathBuf> = paths.collect();
        if paths.iter().all(|path| path.is_absolute()) {
            return Ok(paths);
        }
        Err(self.wrong(value, path, "a list of absolute paths"))
    }

    fn variables(&self, value: &Value<'_>, path: &str) -> Result<Vec<String>, CommandError> {
        let names = self.texts(value, path)?;
        for name in &names {
            let place = self.place(value.span().start);
            if !is_variable(name) || name == "HOME" {
                let what = format!("{place}: {path}: {name:?} is no variable to pass on");
                return Err(CommandError::usage(what)
                    .hint("list names of variables; the home has a key of its own"));
            }
            if name.starts_with("CALLBOARD_") {
                let what = format!("{place}: {path}: {name} stays with the host");
                return Err(CommandError::usage(what)
                    .hint("coding agents get no variable that begins with CALLBOARD_"));
            }
        }
        Ok(names)
    }

    fn millis(&self, value: &Value<'_>, path: &str) -> Result<Duration, CommandError> {
        self.whole(value, path, 1..=LONGEST_IDLE_MS).map(Duration::from_millis)
    }
}

/// What can stand behind `cli/`, and in an allowlist.
fn is_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_fine)
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn read(text: &str) -> Result<Config, (String, Option<String>)> {
        Config::parse("c.toml", text).map_err(|error| (error.what, error.hint))
    }

    #[test]
    fn the_section_is_read_with_a_section_for_each_agent() {
        let text = "[cli]\nwork_dir = \"/src/project\"\nenv = [\"GH_TOKEN\"]\nidle_timeout_ms = 1_000\n\
                    [cli.claude-code]\nprogram = \"/opt/claude\"\nmodel = \"sonnet\"\n";
        let cli = read(text).unwrap().cli;
        assert_eq!(cli.work_dir.as_deref(), Some("/src/project".as_ref()));
        assert_eq!((cli.home, cli.env), (None, vec!["GH_TOKEN".to_owned()]));
        assert_eq!(cli.idle_timeout.as_secs(), 1);
        let claude = &cli.agents["claude-code"];
        assert_eq!(claude.program.as_deref(), Some("/opt/claude".as_ref()));
        assert_eq!(claude.model.as_deref(), Some("sonnet"));
    }

    #[test]
    fn only_who_can_ask_is_told_to() {
        assert!(read("[cli.codex]\napprovals = true").unwrap().cli.agents["codex"].approvals);
        let wrong = read("[cli.codex]\napprovals = \"yes\"").unwrap_err().0;
        assert_eq!(wrong, "c.toml:2: cli.codex.approvals must be true or false, not a string");
        let (what, hint) = read("[cli.claude-code]\napprovals = true").unwrap_err();
        assert_eq!(what, "c.toml:2: unknown key cli.claude-code.approvals");
        assert_eq!(hint.as_deref(), Some("known here: program, model"));
    }

    #[test]
    fn an_agent_of_ones_own_is_a_model() {
        let text = "[cli]\nhold_ms = 5_000\n[cli.goose]\nacp = [\"goose\", \"acp\"]\n\
                    [models]\ncoding = \"cli/goose\"\n";
        let config = read(text).unwrap();
        assert_eq!(config.cli.hold.as_secs(), 5);
        assert_eq!(config.cli.agents["goose"].acp.as_ref().unwrap(), &["goose", "acp"]);
        let table = config.model_table(&[], |_| None).unwrap();
        let coding = table.of(callboard_protocol::ModelClass::Coding);
        assert_eq!(coding.to_string(), "cli/goose");
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, what, hint) in [
            (
                "[cli]\nworkdir = \"x\"",
                "c.toml:2: unknown key cli.workdir",
                Some("did you mean work_dir?"),
            ),
            (
                "[cli.codx]\nmodel = \"m\"",
                "c.toml:1: unknown key cli.codx",
                Some("did you mean codex?"),
            ),
            (
                "[cli.codex]\nmodell = \"m\"",
                "c.toml:2: unknown key cli.codex.modell",
                Some("did you mean model?"),
            ),
            ("[cli]\nhome = 1", "c.toml:2: cli.home must be text, not an integer", None),
            ("[cli]\nhome = \" \"", "c.toml:2: cli.home must be a path, not a string", None),
            (
                "[cli]\nenv = [\"CALLBOARD_API_KEYS\"]",
                "c.toml:2: cli.env: CALLBOARD_API_KEYS stays with the host",
                Some("coding agents get no variable that begins with CALLBOARD_"),
            ),
            (
                "[cli]\nidle_timeout_ms = 0",
                "c.toml:2: cli.idle_timeout_ms must be 1 to 86400000, not 0",
                None,
            ),
            (
                "[cli.goose]\nacp = []",
                "c.toml:2: cli.goose.acp must be a program and its arguments, not an array",
                None,
            ),
            (
                "[cli.goose]\nacp = [\"goose\"]\nmodel = \"m\"",
                "c.toml:3: unknown key cli.goose.model",
                Some("known here: acp, sessions"),
            ),
            (
                "[cli.codex]\nacp = [\"codex-acp\"]",
                "c.toml:2: unknown key cli.codex.acp",
                Some("known here: program, model, approvals"),
            ),
            (
                "[cli.goose]\nacp = [\"goose\"]\nsessions = [\"../x\"]",
                "c.toml:3: cli.goose.sessions must be folders below the agent's home, not an array",
                None,
            ),
            (
                "cli = 1",
                "c.toml:1: cli must be a section, not an integer",
                Some("write it as a line [cli] with keys below it"),
            ),
        ] {
            let found = read(text).map(drop);
            assert_eq!(found, Err((what.to_owned(), hint.map(str::to_owned))), "{text}");
        }
    }
}

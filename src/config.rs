//! `callboard.toml`: what an operator may set in a file, with errors that name file, line and key.

mod agents;
mod budgets;
mod cli;
mod deployments;
mod limits;
mod mcp;
mod models;
mod orchestration;
mod packs;
mod prices;
mod providers;
mod retention;
mod roster;
mod sandbox;
mod source;
mod tools;

use std::path::{Path, PathBuf};

use toml::de::DeTable;

use callboard_backends::{CliSettings, McpServer};

use crate::exit::CommandError;

pub(crate) use agents::Agents;
pub(crate) use budgets::Budgets;
pub(crate) use deployments::Deployments;
pub(crate) use limits::Limits;
pub(crate) use models::Models;
pub(crate) use orchestration::Orchestration;
pub(crate) use packs::Packs;
pub(crate) use prices::Prices;
pub(crate) use providers::Providers;
pub(crate) use retention::Retention;
pub(crate) use roster::Roster;
pub(crate) use sandbox::Sandbox;
pub(crate) use tools::Tools;

use source::Source;

/// Read when it is there and no other file is named.
const DEFAULT_FILE: &str = "callboard.toml";

/// Everything that the file can say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Config {
    /// Where it was read from, if there was a file.
    pub(crate) path: Option<PathBuf>,
    pub(crate) limits: Limits,
    pub(crate) packs: Packs,
    pub(crate) deployments: Deployments,
    pub(crate) roster: Roster,
    pub(crate) budgets: Budgets,
    pub(crate) agents: Agents,
    pub(crate) models: Models,
    pub(crate) providers: Providers,
    pub(crate) prices: Prices,
    pub(crate) mcp: Vec<McpServer>,
    pub(crate) cli: CliSettings,
    pub(crate) tools: Tools,
    pub(crate) sandbox: Sandbox,
    pub(crate) orchestration: Orchestration,
    pub(crate) retention: Retention,
}

impl Config {
    /// Reads the named file, or the default one where it exists.
    pub(crate) fn load(named: Option<&Path>) -> Result<Self, CommandError> {
        let path = named.unwrap_or(Path::new(DEFAULT_FILE));
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self { path: Some(path.to_owned()), ..Self::parse(&path.display().to_string(), &text)? }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => Ok(Self::default()),
            Err(error) => Err(CommandError::usage(format!("cannot read {}: {error}", path.display()))
                .hint("name the file with --config or CALLBOARD_CONFIG, or leave both out to do without one")),
        }
    }

    fn parse(file: &str, text: &str) -> Result<Self, CommandError> {
        let source = Source { file, text };
        let table = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            CommandError::usage(format!("{}: {}", source.place(offset), error.message()))
        })?;
        let mut config = Self::default();
        for (key, value) in table.get_ref() {
            match key.get_ref().as_ref() {
                "limits" => config.limits = source.limits(value)?,
                "packs" => config.packs = source.packs(value)?,
                "deployments" => config.deployments = source.deployments(value)?,
                "roster" => config.roster = source.roster(value)?,
                "budgets" => config.budgets = source.budgets(value)?,
                "agents" => config.agents = source.agents(value)?,
                "models" => config.models = source.models(value)?,
                "providers" => config.providers = source.providers(value)?,
                "prices" => config.prices = source.prices(value)?,
                "mcp" => config.mcp = source.mcp(value)?,
                "cli" => config.cli = source.cli(value)?,
                "tools" => config.tools = source.tools(value)?,
                "sandbox" => config.sandbox = source.sandbox(value)?,
                "orchestration" => config.orchestration = source.orchestration(value)?,
                "retention" => config.retention = source.retention(value)?,
                unknown => {
                    let known = [
                        "limits",
                        "packs",
                        "deployments",
                        "roster",
                        "budgets",
                        "agents",
                        "models",
                        "providers",
                        "prices",
                        "mcp",
                        "cli",
                        "tools",
                        "sandbox",
                        "orchestration",
                        "retention",
                    ];
                    return Err(source.unknown(key.span().start, unknown, unknown, &known));
                }
            }
        }
        config.check_models()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Limits, (&str, Option<&str>)>) {
        let found = Config::parse("c.toml", text)
            .map(|config| config.limits)
            .map_err(|error| (error.what, error.hint));
        let expected = expected.map_err(|(what, hint)| (what.to_owned(), hint.map(str::to_owned)));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn limits_are_read_and_the_rest_keeps_its_default() {
        check("", Ok(Limits::default()));
        check("[limits]\ninflight = 1_000\n", Ok(Limits { inflight: 1000, ..Limits::default() }));
        check(
            "limits.requests_per_second = 0x10",
            Ok(Limits { requests_per_second: 16, ..Limits::default() }),
        );
    }

    /// Every block of the guides, as somebody copies it.
    #[test]
    fn the_files_that_the_guides_show_are_read() {
        let pages = [
            ("configuration.md", include_str!("../docs/configuration.md")),
            ("cli-agents.md", include_str!("../docs/cli-agents.md")),
            ("models.md", include_str!("../docs/models.md")),
            ("tools.md", include_str!("../docs/tools.md")),
        ];
        for (name, page) in pages {
            let blocks = page.split("```toml\n").skip(1).filter_map(|it| it.split("```").next());
            // What a guide leaves out is a key, and keys have a form.
            let key = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
            let blocks = blocks.map(|block| block.replace("MCowBQYDK2VwAyEA…", key));
            let read: Vec<_> = blocks.map(|block| Config::parse(name, &block)).collect();
            assert!(!read.is_empty() && read.iter().all(Result::is_ok), "{name}: {read:?}");
        }
    }

    #[test]
    fn errors_name_file_line_and_key() {
        check(
            "[limits]\n\nmax_node_execution = 5",
            Err((
                "c.toml:3: unknown key limits.max_node_execution",
                Some("did you mean max_node_executions?"),
            )),
        );
        check("[limit]\n", Err(("c.toml:1: unknown key limit", Some("did you mean limits?"))));
        check(
            "\n[server]\n",
            Err((
                "c.toml:2: unknown key server",
                Some(
                    "known here: limits, packs, deployments, roster, budgets, agents, models, providers, prices, mcp, cli, tools, sandbox, orchestration, retention",
                ),
            )),
        );
        check(
            "[limits]\ninflight = 0",
            Err(("c.toml:2: limits.inflight must be 1 to 1000000, not 0", None)),
        );
        check(
            "[limits]\ninflight = -1",
            Err(("c.toml:2: limits.inflight must be 1 to 1000000, not -1", None)),
        );
        check(
            "[limits]\ninflight = \"9\"",
            Err(("c.toml:2: limits.inflight must be a whole number, not a string", None)),
        );
        check(
            "limits = 3",
            Err((
                "c.toml:1: limits must be a section, not an integer",
                Some("write it as a line [limits] with keys below it"),
            )),
        );
    }

    #[test]
    fn a_file_that_is_not_toml_names_its_line() {
        let error = Config::parse("c.toml", "a = 1\nb = = 2").map_err(|error| error.what);
        assert!(error.as_ref().is_err_and(|what| what.starts_with("c.toml:2: ")), "{error:?}");
    }
}

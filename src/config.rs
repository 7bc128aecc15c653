//! `callboard.toml`: what an operator may set in a file, with errors that name file, line and key.

mod agents;
mod budgets;
mod cli;
mod deployments;
mod mcp;
mod models;
mod orchestration;
mod packs;
mod prices;
mod providers;
mod retention;
mod roster;
mod tools;

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use callboard_backends::{CliSettings, McpServer};

use crate::exit::CommandError;

pub(crate) use agents::Agents;
pub(crate) use budgets::Budgets;
pub(crate) use deployments::Deployments;
pub(crate) use models::Models;
pub(crate) use orchestration::Orchestration;
pub(crate) use packs::Packs;
pub(crate) use prices::Prices;
pub(crate) use providers::Providers;
pub(crate) use retention::Retention;
pub(crate) use roster::Roster;
pub(crate) use tools::Tools;

/// Read when it is there and no other file is named.
const DEFAULT_FILE: &str = "callboard.toml";
/// A closer name than this is a slip of the finger; anything farther is another word.
const SIMILAR: usize = 3;

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
    pub(crate) orchestration: Orchestration,
    pub(crate) retention: Retention,
}

/// `[limits]`, with the defaults of the documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) max_node_executions: u64,
    pub(crate) max_body_bytes: u64,
    /// Requests and open streams; past it the host answers 503.
    pub(crate) inflight: u64,
    /// Per key; zero is off.
    pub(crate) requests_per_second: u64,
    pub(crate) max_run_duration_ms: u64,
    /// Turns that supervisors of one run may take.
    pub(crate) max_loop_iterations: u64,
    /// Kept for the nodes that call tools.
    pub(crate) tool_timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_node_executions: 100,
            max_body_bytes: 4 * 1024 * 1024,
            inflight: 4096,
            requests_per_second: 0,
            // A year: an approval may wait for weeks.
            max_run_duration_ms: 31_536_000_000,
            max_loop_iterations: 100,
            tool_timeout_ms: 60_000,
        }
    }
}

impl Limits {
    const KEYS: [&str; 7] = [
        "max_node_executions",
        "max_body_bytes",
        "inflight",
        "requests_per_second",
        "max_run_duration_ms",
        "max_loop_iterations",
        "tool_timeout_ms",
    ];

    /// The field of a key, with the values that make sense for it.
    fn field(&mut self, key: &str) -> Option<(&mut u64, Range<u64>)> {
        /// Numbers above this cannot be written exactly in JSON, and discovery shows some of these.
        const MOST: u64 = 1 << 53;
        Some(match key {
            "max_node_executions" => (&mut self.max_node_executions, 1..MOST),
            // A definition of one node needs some hundred bytes; a gigabyte would not fit into memory many times.
            "max_body_bytes" => (&mut self.max_body_bytes, 1024..(1 << 30) + 1),
            "inflight" => (&mut self.inflight, 1..1_000_001),
            "requests_per_second" => (&mut self.requests_per_second, 0..1_000_001),
            // The protocol's own minimum is a second.
            "max_run_duration_ms" => (&mut self.max_run_duration_ms, 1000..MOST),
            "max_loop_iterations" => (&mut self.max_loop_iterations, 1..MOST),
            "tool_timeout_ms" => (&mut self.tool_timeout_ms, 1..MOST),
            _ => return None,
        })
    }
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

/// The text of a file, for errors that point into it.
struct Source<'t> {
    file: &'t str,
    text: &'t str,
}

impl Source<'_> {
    fn limits(&self, value: &Spanned<DeValue<'_>>) -> Result<Limits, CommandError> {
        let Some(table) = value.get_ref().as_table() else {
            let what = format!(
                "{}: limits must be a section, not {}",
                self.place(value.span().start),
                kind(value)
            );
            return Err(
                CommandError::usage(what).hint("write it as a line [limits] with keys below it")
            );
        };
        let mut limits = Limits::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = format!("limits.{name}");
            let Some((field, admitted)) = limits.field(name) else {
                return Err(self.unknown(key.span().start, &path, name, &Limits::KEYS));
            };
            let number = value.get_ref().as_integer().and_then(|number| {
                // Signs and separators are TOML's; the parser has checked where they stand.
                i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
            });
            let place = self.place(value.span().start);
            let Some(number) = number else {
                return Err(CommandError::usage(format!(
                    "{place}: {path} must be a whole number, not {}",
                    kind(value)
                )));
            };
            *field = u64::try_from(number)
                .ok()
                .filter(|number| admitted.contains(number))
                .ok_or_else(|| {
                    let (least, most) = (admitted.start, admitted.end - 1);
                    CommandError::usage(format!(
                        "{place}: {path} must be {least} to {most}, not {number}"
                    ))
                })?;
        }
        Ok(limits)
    }

    fn unknown(&self, offset: usize, path: &str, name: &str, known: &[&str]) -> CommandError {
        let error = CommandError::usage(format!("{}: unknown key {path}", self.place(offset)));
        match nearest(name, known) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint(format!("known here: {}", known.join(", "))),
        }
    }

    fn place(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or(self.text);
        format!("{}:{}", self.file, before.matches('\n').count() + 1)
    }
}

fn kind(value: &Spanned<DeValue<'_>>) -> String {
    match value.get_ref().type_str() {
        name @ ("integer" | "array") => format!("an {name}"),
        name => format!("a {name}"),
    }
}

fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let ranked = known.iter().map(|candidate| (distance(name, candidate), *candidate));
    ranked.min().filter(|(distance, _)| *distance <= SIMILAR).map(|(_, candidate)| candidate)
}

/// Levenshtein: how many letters must change.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, right) in b.iter().enumerate() {
            let swap = row[j] + usize::from(left != *right);
            next.push(swap.min(row[j + 1] + 1).min(next[j] + 1));
        }
        row = next;
    }
    row[b.len()]
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
                    "known here: limits, packs, deployments, roster, budgets, agents, models, providers, prices, mcp, cli, tools, orchestration, retention",
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

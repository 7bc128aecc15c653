//! `[cli]`: how coding agents of the command line are started.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Component, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use callboard_backends::{CODING_KINDS, CliAgentSettings, CliSettings};

use super::explain::{Fault, unknown};
use super::values::{Named, absolute_paths, checked, is_variable, named, path, whole};

const KEYS: [&str; 7] = ["work_dir", "home", "env", "idle_timeout_ms", "hold_ms", "read", "write"];
/// Where the sections of the agents go before the keys are read.
const AGENTS: &str = "agents";
/// A day: nothing that prints nothing for longer is waited for.
const LONGEST_IDLE_MS: u64 = 86_400_000;

/// Moves `[cli.NAME]` to `[cli.agents.NAME]`: free names cannot be mixed with known keys.
/// A key which is neither is refused here, since only here both are known.
pub(super) fn gather_agents(file: &mut DeTable<'_>) -> Result<(), Fault> {
    let Some(DeValue::Table(cli)) = file.get_mut("cli").map(Spanned::get_mut) else {
        return Ok(());
    };
    let mut agents = DeTable::new();
    let names = cli.keys().filter(|key| !KEYS.contains(&key.get_ref().as_ref()));
    let names: Vec<Spanned<Cow<'_, str>>> = names.cloned().collect();
    for key in names {
        let name = key.get_ref().as_ref();
        let is_kind = CODING_KINDS.iter().any(|kind| kind.name == name);
        let has_acp = |value: &Spanned<DeValue<'_>>| {
            value.get_ref().as_table().is_some_and(|section| section.contains_key("acp"))
        };
        match cli.remove(name) {
            Some(value) if is_kind || (is_name(name) && has_acp(&value)) => {
                agents.insert(key, value);
            }
            _ => {
                let kinds = CODING_KINDS.iter().map(|kind| kind.name);
                let known: Vec<&str> = KEYS.into_iter().chain(kinds).collect();
                return Err(Fault { span: key.span(), message: unknown("field", name, &known) });
            }
        }
    }
    let place = Spanned::new(0..0, DeValue::Table(agents));
    cli.insert(Spanned::new(0..0, AGENTS.into()), place);
    Ok(())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Section {
    #[serde(deserialize_with = "path")]
    work_dir: Option<PathBuf>,
    #[serde(deserialize_with = "path")]
    home: Option<PathBuf>,
    #[serde(deserialize_with = "variables")]
    env: Vec<String>,
    #[serde(deserialize_with = "whole::<_, _, 1, LONGEST_IDLE_MS>")]
    idle_timeout_ms: Option<u64>,
    #[serde(deserialize_with = "whole::<_, _, 1, LONGEST_IDLE_MS>")]
    hold_ms: Option<u64>,
    #[serde(deserialize_with = "absolute_paths")]
    read: Vec<PathBuf>,
    #[serde(deserialize_with = "absolute_paths")]
    write: Vec<PathBuf>,
    #[serde(deserialize_with = "named")]
    agents: BTreeMap<String, CliAgentSettings>,
}

pub(super) fn settings<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<CliSettings, D::Error> {
    let usual = CliSettings::default();
    let Section { work_dir, home, env, idle_timeout_ms, hold_ms, read, write, agents } =
        Section::deserialize(deserializer)?;
    let idle_timeout = idle_timeout_ms.map_or(usual.idle_timeout, Duration::from_millis);
    let hold = hold_ms.map_or(usual.hold, Duration::from_millis);
    Ok(CliSettings { work_dir, home, env, idle_timeout, hold, read, write, agents })
}

fn variables<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    if let Some(name) = names.iter().find(|name| !is_variable(name) || *name == "HOME") {
        return Err(D::Error::custom(format!(
            "names {name:?}, which is no variable to pass on\n\
             list names of variables; the home has a key of its own"
        )));
    }
    match names.iter().find(|name| name.starts_with("CALLBOARD_")) {
        None => Ok(names),
        Some(name) => Err(D::Error::custom(format!(
            "names {name}, which stays with the host\n\
             coding agents get no variable that begins with CALLBOARD_"
        ))),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AgentSection {
    #[serde(deserialize_with = "path")]
    program: Option<PathBuf>,
    model: Option<String>,
    approvals: Option<bool>,
    #[serde(deserialize_with = "command")]
    acp: Option<Vec<String>>,
    #[serde(deserialize_with = "below_home")]
    sessions: Option<Vec<PathBuf>>,
}

impl Named for CliAgentSettings {
    type Section = AgentSection;

    fn new(name: &str, section: AgentSection) -> Result<Self, String> {
        let known: &[&str] = match CODING_KINDS.iter().find(|kind| kind.name == name) {
            // An agent of the operator's own has no program that is known already.
            None => &["acp", "sessions"],
            // One that can ask for permission may be configured to.
            Some(kind) if kind.can_ask() => &["program", "model", "approvals"],
            Some(_) => &["program", "model"],
        };
        let AgentSection { program, model, approvals, acp, sessions } = section;
        let given = [
            ("program", program.is_some()),
            ("model", model.is_some()),
            ("approvals", approvals.is_some()),
            ("acp", acp.is_some()),
            ("sessions", sessions.is_some()),
        ];
        match given.iter().find(|(key, is_given)| *is_given && !known.contains(key)) {
            Some((key, _)) => Err(unknown("field", key, known)),
            None => Ok(Self {
                program,
                model,
                approvals: approvals.unwrap_or_default(),
                acp,
                sessions: sessions.unwrap_or_default(),
            }),
        }
    }
}

fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    checked(deserializer, "a program and its arguments", |words: Vec<String>| {
        words.first().is_some_and(|program| !program.trim().is_empty()).then_some(Some(words))
    })
}

fn below_home<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<PathBuf>>, D::Error> {
    let stays = |folder: &PathBuf| {
        let mut parts = folder.components();
        folder.file_name().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
    };
    checked(deserializer, "folders below the agent's home", |folders: Vec<PathBuf>| {
        folders.iter().all(stays).then_some(Some(folders))
    })
}

/// What can follow `cli/`, and be in an allowlist.
fn is_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_fine)
}

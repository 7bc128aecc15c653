//! The result of the checks, for people or for machines.

use std::collections::BTreeSet;

use comfy_table::{Cell, Color};
use owo_colors::OwoColorize;
use serde_json::{Value, json};

use callboard_agents::{Check, Outcome, Policy, Vetted};

use super::Checked;
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

impl Checked {
    fn outcome(&self, check: &str) -> Option<Outcome> {
        let checks = &self.verification.report.checks;
        checks.iter().find(|line| line.check == check).map(|line| line.outcome)
    }

    /// Whether nothing speaks against the bytes, whatever this host could do with them.
    fn is_proven(&self) -> bool {
        self.outcome("integrity") == Some(Outcome::Passed)
            && self.outcome("signature") == Some(Outcome::Passed)
    }
}

/// Capabilities that some agent of the pack goes without.
fn degraded(vetted: &Vetted) -> BTreeSet<&str> {
    let agents = vetted.degradation.values();
    agents.flat_map(|without| without.capabilities.iter().map(String::as_str)).collect()
}

fn as_json(checked: &Checked, policy: &Policy) -> Value {
    let mut found = json!({
        "pack": checked.what,
        "checks": checked.verification.report.checks,
        "installs": checked.verification.result.is_ok(),
    });
    match &checked.verification.result {
        Ok(vetted) => {
            found["name"] = json!(vetted.pack.name());
            found["version"] = json!(vetted.pack.version());
            found["integrity"] = json!(vetted.pack.integrity.as_str());
            found["degraded"] = json!(degraded(vetted));
            found["missingTools"] = json!(policy.host.missing_tools(&vetted.pack));
        }
        Err(error) => {
            found["code"] = json!(error.code());
            found["message"] = json!(error.to_string());
            if let Some(capability) = error.required_capability() {
                found["requiredCapability"] = json!(capability);
            }
        }
    }
    found
}

pub(super) fn one(checked: &Checked, policy: &Policy, json: bool) -> Result<Exit, CommandError> {
    let result = &checked.verification.result;
    let exit = if result.is_ok() { Exit::Done } else { Exit::Failed };
    if json {
        output::json(&as_json(checked, policy))?;
        return Ok(exit);
    }
    for Check { check, outcome, detail } in &checked.verification.report.checks {
        let mark = match outcome {
            Outcome::Passed => "✓".green().to_string(),
            Outcome::Failed => "✗".red().to_string(),
            Outcome::Skipped => "○".yellow().to_string(),
        };
        output::line(&format!("{mark} {check:<10} {}", words::plain(detail)))?;
    }
    match result {
        Ok(vetted) => {
            for agent in &vetted.pack.agents {
                output::field("agent", &words::plain(agent.id().as_str()))?;
            }
            let missing = policy.host.missing_tools(&vetted.pack);
            if !missing.is_empty() {
                output::field("tools", &format!("this host lacks {}", join(&missing)))?;
            }
        }
        Err(error) => output::error(&super::super::refused(error)),
    }
    Ok(exit)
}

pub(super) fn table(found: &[Checked], policy: &Policy, json: bool) -> Result<Exit, CommandError> {
    let proven = found.iter().filter(|checked| checked.is_proven()).count();
    let installable = found.iter().filter(|checked| checked.verification.result.is_ok()).count();
    if json {
        let packs: Vec<Value> = found.iter().map(|checked| as_json(checked, policy)).collect();
        output::json(&json!({ "packs": packs, "proven": proven, "installable": installable }))?;
    } else {
        let rows = found.iter().map(|checked| row(checked, policy)).collect();
        let headers = ["pack", "sri", "signature", "here", "degraded", "tools that are missing"];
        output::table(headers, rows)?;
        let all = found.len();
        output::note(&format!("{all} packs: {proven} proven, {installable} install here"));
    }
    Ok(if proven == found.len() { Exit::Done } else { Exit::Failed })
}

fn row(checked: &Checked, policy: &Policy) -> [Cell; 6] {
    let (here, inert, missing) = match &checked.verification.result {
        Ok(vetted) => (
            Cell::new("installs").fg(Color::Green),
            join(&degraded(vetted)),
            join(&policy.host.missing_tools(&vetted.pack)),
        ),
        Err(error) => {
            let why = error.required_capability().unwrap_or(error.code());
            (Cell::new(format!("refused: {why}")).fg(Color::Red), String::new(), String::new())
        }
    };
    [
        Cell::new(words::plain(&checked.what)),
        mark(checked.outcome("integrity")),
        mark(checked.outcome("signature")),
        here,
        Cell::new(inert),
        Cell::new(missing),
    ]
}

fn mark(outcome: Option<Outcome>) -> Cell {
    match outcome {
        Some(Outcome::Passed) => Cell::new("✓").fg(Color::Green),
        Some(Outcome::Failed) => Cell::new("✗").fg(Color::Red),
        Some(Outcome::Skipped) | None => Cell::new("○").fg(Color::Yellow),
    }
}

fn join<T: AsRef<str>>(names: &BTreeSet<T>) -> String {
    words::plain(&names.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", "))
}

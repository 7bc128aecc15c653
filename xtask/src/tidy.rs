//! The architecture test: what the compiler and clippy cannot hold, checked on manifests and text.

mod errors;
mod names;
mod nodes;
mod pages;
mod proofs;
mod rules;
mod walls;
mod words;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::{say, workspace};

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) weight: Weight,
    pub(crate) place: String,
    pub(crate) what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// The check fails.
    Fault,
    /// Worth a look, and nothing more.
    Remark,
}

impl Finding {
    fn fault(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { weight: Weight::Fault, place: place.into(), what: what.into() }
    }

    fn remark(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { weight: Weight::Remark, place: place.into(), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight {
            Weight::Fault => "error",
            Weight::Remark => "note",
        };
        write!(f, "{weight}: {}: {}", self.place, self.what)
    }
}

/// `cargo tidy`.
pub(crate) fn run() -> Result<ExitCode> {
    let findings = check(&workspace::root()?)?;
    for finding in &findings {
        say::line(finding);
    }
    let faults = findings.iter().filter(|finding| finding.weight == Weight::Fault).count();
    say::line(format_args!("tidy: {faults} faults, {} notes", findings.len() - faults));
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `cargo xtask errors`.
pub(crate) fn write_error_page() -> Result<ExitCode> {
    let root = workspace::root()?;
    let codes = errors::codes(&workspace::files(&root)?)?;
    std::fs::write(root.join(errors::PAGE), errors::page(&codes))?;
    say::line(format_args!("{}: {} codes", errors::PAGE, codes.len()));
    Ok(ExitCode::SUCCESS)
}

/// `cargo xtask nodes`.
pub(crate) fn write_node_page() -> Result<ExitCode> {
    let root = workspace::root()?;
    std::fs::write(root.join(nodes::PAGE), nodes::page())?;
    say::line(format_args!("{} written", nodes::PAGE));
    let packs = root.join("../shared/openwop/node-packs");
    if packs.is_dir() {
        std::fs::write(root.join(nodes::SCHEMAS), nodes::schemas(&packs)?)?;
        say::line(format_args!(
            "{} written; run it again to have them on the page",
            nodes::SCHEMAS
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything that is wrong with the workspace.
fn check(root: &Path) -> Result<Vec<Finding>> {
    let files = workspace::files(root)?;
    let mut findings = walls::check(&workspace::members(root)?);
    findings.extend(rules::check(&files));
    findings.extend(pages::check(&files));
    findings.extend(names::check(&files));
    findings.extend(proofs::check(&files));
    findings.extend(errors::check(&files));
    findings.extend(words::check(&files));
    findings.extend(nodes::check(&files));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::{Finding, Weight, check};
    use crate::workspace;

    /// The walls hold in `cargo test` too, not only in `cargo tidy`.
    #[test]
    fn the_workspace_is_tidy() {
        let findings = check(&workspace::root().unwrap()).unwrap();
        let faults: Vec<&Finding> =
            findings.iter().filter(|finding| finding.weight == Weight::Fault).collect();
        assert!(
            faults.is_empty(),
            "{}",
            faults.iter().map(|fault| format!("\n{fault}")).collect::<String>()
        );
    }
}

//! Definition files: read, checked and compiled, with everything that is wrong with them.

use std::path::{Path, PathBuf};

use callboard_authoring::{Format, HostNames, Problem, Source, read};
use callboard_backends::TOOL;
use callboard_core::Plan;
use clap::Args;
use owo_colors::OwoColorize;

use crate::exit::CommandError;
use crate::screen::output;

/// The files on a command line.
#[derive(Debug, Args)]
pub(super) struct Files {
    /// Definition files, YAML or JSON
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
}

/// A definition file that was found good.
pub(super) struct Checked {
    /// The definition as the protocol has it.
    pub(super) canonical: String,
    pub(super) plan: Plan,
}

impl Checked {
    /// Whether it names agents or tools, which a host has or not.
    pub(super) fn names_others(&self) -> bool {
        let mut nodes = self.plan.definition().nodes.iter();
        nodes.any(|node| node.agent.is_some() || node.type_id.as_str() == TOOL)
    }
}

/// What is wrong with a file.
pub(super) struct Mistakes {
    pub(super) listed: Vec<Problem>,
    more: usize,
    /// Where the file cannot be read at all.
    unread: Option<String>,
}

/// Which names are taken.
#[derive(Debug, Clone, Copy)]
pub(super) enum Types<'a> {
    /// Node types of this program, and what a host has beside them.
    Known(&'a HostNames),
    /// Any: the host that it is sent to knows better.
    Any,
}

pub(super) fn check(path: &Path, types: Types<'_>) -> Result<Checked, Mistakes> {
    let text = std::fs::read_to_string(path).map_err(|error| Mistakes {
        listed: Vec::new(),
        more: 0,
        unread: Some(format!("cannot be read: {error}")),
    })?;
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    // JSON is YAML, too; who names a file otherwise gets the reader that takes both.
    let format = Format::of_file(&name).unwrap_or(Format::Yaml);
    // What is canonical goes to the host as it is, which has bounds of its own.
    if format == Format::Json
        && matches!(types, Types::Any)
        && let Ok(plan) = Plan::parse(text.as_bytes())
    {
        return Ok(Checked { canonical: text, plan });
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    let mut reading = read(Source { text: &text, format, id: stem.as_deref() });
    let is_good = match types {
        Types::Any => true,
        Types::Known(names) => {
            reading.judge_names(names);
            reading.problems.is_empty()
        }
    };
    let plan = reading.canonical.filter(|_| is_good).and_then(|canonical| {
        let plan = Plan::parse(canonical.as_bytes()).ok()?;
        Some(Checked { canonical, plan })
    });
    plan.ok_or_else(|| Mistakes {
        listed: reading.problems.iter().cloned().collect(),
        more: reading.problems.more(),
        unread: None,
    })
}

impl Mistakes {
    /// `file:line:column: path: message`, the way compilers say it.
    pub(super) fn lines(&self, file: &Path) -> Vec<String> {
        let file = file.display();
        let mut lines: Vec<String> =
            self.unread.iter().map(|why| format!("{file}: {why}")).collect();
        lines.extend(self.listed.iter().map(|problem| format!("{file}:{problem}")));
        if self.more > 0 {
            lines.push(format!("{file}: and {} more", self.more));
        }
        lines
    }

    pub(super) fn show(&self, file: &Path) {
        for line in self.lines(file) {
            output::note(&format!("{} {line}", "error:".red().bold()));
        }
    }

    /// The first, for those who read one.
    pub(super) fn first(&self) -> (String, String) {
        match (self.listed.first(), &self.unread) {
            (Some(problem), _) => (problem.path.clone(), problem.message.clone()),
            (None, Some(why)) => (String::new(), why.clone()),
            (None, None) => Default::default(),
        }
    }

    pub(super) fn into_error(self, file: &Path) -> CommandError {
        let lines = self.lines(file).join("\n");
        CommandError::failed(lines).hint("nothing was registered; fix the file and try again")
    }
}

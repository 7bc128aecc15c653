//! What is wrong with a text, where, and what would be right.

use std::fmt;

use serde::Serialize;

use crate::tree::Spot;

/// No list of problems is longer: after these, others are counted.
const MOST: usize = 50;

/// What a problem is about. A host can still keep a definition whose only problem is a type that it does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// The text is no YAML or no JSON, or is beyond a limit.
    Syntax,
    /// A key or value that has no place here.
    Shape,
    /// A name that leads nowhere.
    Reference,
    /// A node type that this host does not run.
    NodeType,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub kind: ProblemKind,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub spot: Option<Spot>,
    /// As it was written: `nodes.write.inputs.draft`; empty for the whole text.
    pub path: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
    /// What would be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The node type that this program does not know; a host may.
    #[serde(skip)]
    pub(crate) unknown_type: Option<String>,
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, spot: Spot, path: &str, message: String) -> Self {
        let path = path.to_owned();
        let spot = Some(spot);
        Self { kind, spot, path, message, did_you_mean: None, hint: None, unknown_type: None }
    }

    pub(crate) fn meant(mut self, nearest: Option<&str>) -> Self {
        self.did_you_mean = nearest.map(str::to_owned);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Spot { line, column }) = self.spot {
            write!(f, "{line}:{column}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if let Some(nearest) = &self.did_you_mean {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

/// All of them, up to a bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    listed: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(crate) fn push(&mut self, problem: Problem) {
        if self.listed.contains(&problem) {
            return;
        }
        if self.listed.len() < MOST {
            self.listed.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Whether the list is full; then one more is counted, and nobody need say what it is.
    pub(crate) fn count_only(&mut self) -> bool {
        let is_full = self.listed.len() >= MOST;
        self.more += usize::from(is_full);
        is_full
    }

    /// Drops those that are none to somebody who knows more.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&mut Problem) -> bool) {
        self.listed.retain_mut(keep);
    }

    /// In the order of the text.
    pub(crate) fn sort(&mut self) {
        self.listed.sort_by_key(|problem| problem.spot);
    }

    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.listed.iter()
    }

    /// How many there are beside those that are listed.
    pub fn more(&self) -> usize {
        self.more
    }

    /// Whether a definition could be kept all the same.
    pub fn are_only_node_types(&self) -> bool {
        self.listed.iter().all(|problem| problem.kind == ProblemKind::NodeType)
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self { listed: vec![problem], more: 0 }
    }
}

//! From a text to the canonical definition, or to everything that is wrong with it.

use callboard_core::Plan;
use callboard_protocol::WorkflowDefinition;

use crate::expand::{self, Config, Places};
use crate::form::WORKFLOW;
use crate::problem::{Problem, ProblemKind, Problems};
use crate::shape::Shape;
use crate::tree::{Data, Spot, Tree};
use crate::write::pretty;
use crate::{json, yaml};

/// Bytes of a written definition. A host takes less as a body, and says so itself.
pub const MOST_BYTES: usize = 32 * 1024 * 1024;

/// How a definition is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
}

impl Format {
    /// By the end of a file's name.
    pub fn of_file(name: &str) -> Option<Self> {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending)?;
        match ending.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// By a media type; JSON where nothing else is said.
    pub fn of_media_type(media_type: Option<&str>) -> Self {
        let essence = media_type.and_then(|given| given.split(';').next()).unwrap_or_default();
        let is_yaml = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"]
            .iter()
            .any(|known| essence.trim().eq_ignore_ascii_case(known));
        if is_yaml { Self::Yaml } else { Self::Json }
    }
}

/// A text to be read.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    pub text: &'a str,
    pub format: Format,
    /// The workflow's id where the text has none: a file's name, or the id of an address.
    pub id: Option<&'a str>,
}

/// What was read.
#[derive(Debug)]
pub struct Reading {
    /// The definition as the protocol has it: the text itself where it was canonical already. There is one unless
    /// something is wrong beside the types of nodes.
    pub canonical: Option<String>,
    pub problems: Problems,
    places: Places,
}

impl Reading {
    fn broken(problem: Problem) -> Self {
        Self { canonical: None, problems: problem.into(), places: Places::default() }
    }

    /// A problem that was found in the canonical definition, at the place where it was written.
    pub fn located(&self, path: &str, message: &str) -> Problem {
        let (spot, path) = self.places.find(path);
        Problem::new(ProblemKind::Shape, spot, &path, message.to_owned())
    }
}

/// Reads a text and compiles what came of it.
pub fn read(source: Source<'_>) -> Reading {
    let mut reading = expand(source);
    if let Some(text) = &reading.canonical
        && let Err(error) = Plan::parse(text.as_bytes())
    {
        let problem = reading.located(&error.path, &error.message);
        reading.problems.push(problem);
        reading.problems.sort();
        reading.canonical = None;
    }
    reading
}

/// The same without compiling it, which may take long: for hosts, who compile where that harms nobody.
pub fn expand(source: Source<'_>) -> Reading {
    let tree = match tree_of(source.text, source.format) {
        Ok(tree) => tree,
        Err(problem) => return Reading::broken(problem),
    };
    if !matches!(tree.data, Data::Map(_)) {
        let message = format!("a workflow is a map with `nodes`, not {}", tree.kind());
        return Reading::broken(Problem::new(ProblemKind::Shape, tree.spot, "", message));
    }
    let is_canonical =
        source.format == Format::Json && WorkflowDefinition::parse(source.text.as_bytes()).is_ok();
    let mut problems = Problems::default();
    Shape::Record(WORKFLOW).check(&tree, "", &mut problems);
    let config = if is_canonical { Config::KnownKeys } else { Config::AllKeys };
    let expanded = expand::workflow(&tree, source.id, config, &mut problems);
    let text = if is_canonical { source.text.to_owned() } else { pretty(&expanded.value) };
    problems.sort();
    let canonical = problems.are_only_node_types().then_some(text);
    Reading { canonical, problems, places: expanded.places }
}

pub(crate) fn tree_of(text: &str, format: Format) -> Result<Tree, Problem> {
    if text.len() > MOST_BYTES {
        let message = format!("has more than {MOST_BYTES} bytes");
        return Err(Problem::new(ProblemKind::Syntax, Spot::START, "", message));
    }
    match format {
        Format::Json => json::read(text),
        Format::Yaml => yaml::read(text),
    }
}

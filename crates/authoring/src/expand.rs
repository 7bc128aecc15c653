//! Defaults and short forms: from what was written to the canonical value.

mod edges;
mod names;
mod nodes;
mod places;
mod ports;
mod triggers;
mod variables;

use serde_json::{Map, Value, json};

use crate::known::nearest;
use crate::problem::{Problem, ProblemKind, Problems};
use crate::tree::{Data, Spot, Tree};

use edges::Edges;
use names::Names;
use nodes::Written;
pub(crate) use places::Places;

/// What `version` is where nothing is written.
const VERSION: &str = "1.0";

/// Which keys of a node's config are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Config {
    /// Those that the type has; others are kept, as the protocol's clients rely on.
    KnownKeys,
    /// All: in what people write by hand, another key is a mistake.
    AllKeys,
}

pub(crate) struct Expanded {
    pub(crate) value: Value,
    /// Where each part of it was written.
    pub(crate) places: Places,
}

/// Fills in what was left out and spells out what was short. Problems of shape were found before: what has the wrong
/// one is passed over here.
pub(crate) fn workflow(
    tree: &Tree,
    id: Option<&str>,
    config: Config,
    problems: &mut Problems,
) -> Expanded {
    let mut places = Places::default();
    let mut fields = Map::new();
    for entry in tree.entries() {
        places.add(&entry.key, entry.value.spot, &entry.key);
        if !matches!(entry.key.as_str(), "nodes" | "edges" | "triggers" | "variables") {
            fields.insert(entry.key.clone(), entry.value.value());
        }
    }
    name_it(tree, id, &mut fields, problems);
    for open in ["metadata", "settings"] {
        fields.entry(open).or_insert_with(|| json!({}));
    }
    let written = nodes::list(tree, problems);
    if let Some(nodes) = tree.get("nodes")
        && matches!(&nodes.data, Data::Map(all) if all.is_empty())
            | matches!(&nodes.data, Data::List(all) if all.is_empty())
    {
        let message = "a workflow needs a node".to_owned();
        let problem = Problem::new(ProblemKind::Shape, nodes.spot, "nodes", message);
        problems.push(problem.hint("nodes: { hello: { type: core.noop } }"));
    }
    let variables = variables::expand(tree, &mut places);
    let names = Names::of(&written, &variables, tree);
    let mut edges = Edges::explicit(tree, &written, &names, problems, &mut places);
    let inputs = ports::expand(&written, &names, problems, &mut places);
    edges.add_implied(&written, &inputs.read);
    let mut nodes = nodes::expand(&written, inputs.ports, config, problems, &mut places);
    for (index, body) in inputs.bodies.into_iter().enumerate() {
        if let Some(body) = body {
            nodes[index]["config"]["body"] = body;
        }
    }
    fields.insert("nodes".into(), nodes);
    fields.insert("edges".into(), edges.value());
    fields.insert("variables".into(), Value::Array(variables));
    fields.insert("triggers".into(), triggers::expand(tree, &mut places));
    Expanded { value: Value::Object(fields), places }
}

fn name_it(
    tree: &Tree,
    id: Option<&str>,
    fields: &mut Map<String, Value>,
    problems: &mut Problems,
) {
    let id = tree.get("id").and_then(Tree::text).or(id.filter(|_| tree.get("id").is_none()));
    match id {
        Some(id) => {
            let is_good = id.starts_with(|c: char| c.is_ascii_lowercase())
                && id.len() <= 128
                && id.chars().all(|c| {
                    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-')
                });
            if !is_good {
                let spot = tree.get("id").map_or(tree.spot, |id| id.spot);
                let message = format!(
                    "{id:?} must be 1 to 128 of a-z, 0-9, _ and -, and begin with a letter"
                );
                let problem = Problem::new(ProblemKind::Shape, spot, "id", message);
                problems.push(match slug(id) {
                    Some(better) => problem.meant(Some(&better)),
                    None => problem,
                });
            }
            fields.insert("id".into(), id.into());
            fields.entry("name").or_insert_with(|| id.into());
        }
        None if tree.get("id").is_none() => {
            let problem = Problem::new(ProblemKind::Shape, tree.spot, "", "needs `id`".into());
            problems.push(problem.hint("id: a name such as `first-workflow`"));
        }
        None => {}
    }
    let version = match tree.get("version").map(|version| &version.data) {
        None => Some(VERSION.to_owned()),
        Some(Data::Number(_, written)) => Some(written.clone()),
        Some(_) => None,
    };
    if let Some(version) = version {
        fields.insert("version".into(), version.into());
    }
}

/// What an id could be that is almost one.
fn slug(id: &str) -> Option<String> {
    let kept: String = id
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let slug = kept.trim_matches(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit());
    slug.starts_with(|c: char| c.is_ascii_lowercase()).then(|| slug.chars().take(128).collect())
}

/// A name of a node that there is none of.
fn no_node(id: &str, spot: Spot, path: &str, written: &[Written<'_>]) -> Problem {
    let known = || written.iter().map(|node| node.id.as_str());
    let problem =
        Problem::new(ProblemKind::Reference, spot, path, format!("there is no node {id:?}"));
    match nearest(id, known()) {
        Some(near) => problem.meant(Some(near)),
        None => {
            let all: Vec<&str> = known().take(20).collect();
            problem.hint(format!("there are {}", all.join(", ")))
        }
    }
}

//! Tests of workflows: cases in a file, each run by core alone, with scripted answers and simulated time.
//!
//! Nothing outside is reached and nothing is stored, so a case takes a fraction of a millisecond.

mod expect;
mod script;

use std::sync::Arc;

use callboard_core::{HostLimits, Plan};
use callboard_protocol::WorkflowId;
use serde_json::Value;

use crate::problem::{Problem, Problems};
use crate::shape::{Field, Shape};
use crate::tree::{Data, Tree};

use expect::Expected;
use script::{Others, Played, Script};

/// The form of a file of cases.
const FILE: &[Field] = &[
    Field::new("workflow", Shape::Text, "the file of the workflow, beside this one").required(),
    Field::new("cases", Shape::List(&Shape::Record(CASE)), "what is tried").required(),
];

const CASE: &[Field] = &[
    Field::new("name", Shape::Text, "what the case shows").required(),
    Field::new("inputs", Shape::Object, "what the run is given"),
    Field::new("configurable", Shape::Object, "how it is set"),
    Field::new(
        "answers",
        Shape::Object,
        "by node: what its agent, model, tool or person answers; a list for one visit after the other",
    ),
    Field::new("expect", Shape::Record(EXPECT), "what must come of it").required(),
];

const EXPECT: &[Field] = &[
    Field::new(
        "status",
        Shape::OneOf(&[
            "completed",
            "failed",
            "waiting-approval",
            "waiting-input",
            "waiting-external",
        ]),
        "how the run ends, or that it waits; completed, where nothing is said",
    ),
    Field::new("error", Shape::Text, "the code that it fails with"),
    Field::new("outputs", Shape::Object, "outputs of the run, among others"),
    Field::new("variables", Shape::Object, "variables at the end, among others"),
    Field::new("nodes", Shape::Map(&Shape::Text), "how nodes end: completed, failed, skipped, …"),
    Field::new("given", Shape::Map(&Shape::Object), "what nodes were given, among other inputs"),
    Field::new("events", Shape::List(&Shape::Text), "events in this order, with others between"),
    Field::new("took", Shape::Whole(0), "milliseconds of simulated time"),
];

/// A file of cases, read.
#[derive(Debug)]
pub struct Cases {
    /// The file of the workflow, as it was written.
    pub workflow: String,
    cases: Vec<Tree>,
}

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub name: String,
    /// What is not as expected, and the story of the run; none where all is.
    pub complaint: Option<String>,
}

impl Cases {
    pub fn of(tree: &Tree) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        Shape::Record(FILE).check(tree, "", &mut problems);
        if !problems.is_empty() {
            problems.sort();
            return Err(problems);
        }
        let workflow = tree.get("workflow").and_then(Tree::text).unwrap_or_default().to_owned();
        let cases = tree.get("cases").map_or(&[][..], Tree::items).to_vec();
        Ok(Self { workflow, cases })
    }

    /// Plays every case against the workflow. Runs of other workflows are started where `others` finds those.
    pub fn play(
        &self,
        plan: &Arc<Plan>,
        limits: HostLimits,
        others: &dyn Fn(&WorkflowId) -> Option<Arc<Plan>>,
    ) -> Vec<Verdict> {
        self.cases.iter().map(|case| verdict(case, plan, limits, others)).collect()
    }
}

fn verdict(case: &Tree, plan: &Arc<Plan>, limits: HostLimits, others: Others<'_>) -> Verdict {
    let text = |key: &str| case.get(key).and_then(Tree::text).unwrap_or_default().to_owned();
    let line = case.spot.line;
    let script = Script {
        inputs: fields(case, "inputs"),
        configurable: fields(case, "configurable"),
        answers: fields(case, "answers"),
    };
    let complaint = match unknown_node(case, plan, others) {
        Some(problem) => Some(problem.to_string()),
        None => match script.play(plan, limits, others) {
            Err(why) => Some(why),
            Ok(played) => complain(case, &played),
        },
    };
    let complaint = complaint.map(|why| format!("line {line}: {why}"));
    Verdict { name: text("name"), complaint }
}

/// An answer of a node that there is not would be given to nobody.
fn unknown_node(case: &Tree, plan: &Plan, others: Others<'_>) -> Option<Problem> {
    let nodes = &plan.definition().nodes;
    let known = || nodes.iter().map(|node| node.id.as_str());
    // A node of another workflow stands behind that one's id.
    let is_of_another = |name: &str| {
        let Some((workflow, node)) = name.split_once('.') else { return false };
        let plan = others(&workflow.into());
        plan.is_some_and(|plan| plan.definition().nodes.iter().any(|it| it.id.as_str() == node))
    };
    let expected = case.get("expect");
    let named = [
        case.get("answers"),
        expected.and_then(|it| it.get("nodes")),
        expected.and_then(|it| it.get("given")),
    ];
    let entries = named.into_iter().flatten().flat_map(Tree::entries);
    let wrong = entries
        .into_iter()
        .find(|entry| !known().any(|id| id == entry.key) && !is_of_another(&entry.key))?;
    let message = format!("there is no node {:?}", wrong.key);
    let kind = crate::problem::ProblemKind::Reference;
    let problem = Problem::new(kind, wrong.spot, &wrong.key, message);
    Some(problem.meant(crate::known::nearest(&wrong.key, known())))
}

fn complain(case: &Tree, played: &Played) -> Option<String> {
    let expected = Expected::of(case.get("expect")?);
    let differences = expected.differences(played);
    if differences.is_empty() {
        return None;
    }
    Some(format!("{}\nwhat happened:\n{}", differences.join("\n"), played.story()))
}

fn fields(tree: &Tree, key: &str) -> callboard_protocol::Object {
    match tree.get(key).filter(|tree| matches!(tree.data, Data::Map(_))).map(Tree::value) {
        Some(Value::Object(fields)) => fields,
        _ => callboard_protocol::Object::new(),
    }
}

//! Nodes that go through a list: a body that is computed for every item, or a run for every item; and the node that
//! runs the one workflow that its input names.

use std::rc::Rc;

use callboard_protocol::{ChainPhase, Event, Failure, Object, RunCompleted, Timestamp};
use serde_json::{Value, json};

use super::Run;
use super::dispatch::{Dispatching, HandOff};
use super::handoff::Worker;
use super::perform::Step;
use crate::bounds::{HEAVIEST, too_heavy, weight, weight_of};
use crate::each::{BodyPort, BodyStep, EachPlan, EachRuns, EachWork, OnItemFailure, WORKFLOW_REF};
use crate::expression::{Names, Place, evaluate};
use crate::graph::NodeIndex;
use crate::node::{Given, Meter, NodeKind, bound_items, wrong_kind};
use crate::work::Work;

/// What the outputs of one of many runs may weigh: all at once they fit into a run.
const HEAVIEST_OF_MANY: usize = 1 << 20;

/// What the items came to, in their order, and what went wrong with which.
#[derive(Default)]
struct Results {
    results: Vec<Value>,
    failures: Vec<Value>,
    weight: usize,
}

impl Results {
    fn push(&mut self, value: Value) -> Result<(), Failure> {
        self.weight = self.weight.saturating_add(weight(&value));
        if self.weight > HEAVIEST {
            return Err(too_heavy());
        }
        self.results.push(value);
        Ok(())
    }

    fn fail(&mut self, place: usize, failure: &Failure) -> Result<(), Failure> {
        let Failure { code, message, .. } = failure;
        let error = json!({ "index": place, "error": { "code": code, "message": message } });
        self.weight = self.weight.saturating_add(weight(&error));
        self.failures.push(error);
        self.push(Value::Null)
    }

    fn outputs(self) -> Object {
        let fields = [
            ("count", Value::from(self.results.len())),
            ("results", self.results.into()),
            ("failures", self.failures.into()),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Run {
    /// What a node does next that goes through a list.
    pub(super) fn each(
        &self,
        index: NodeIndex,
        at: Timestamp,
        work: &mut Work,
    ) -> Result<Step, Failure> {
        let Some(plan) = &self.plan.node(index).each else { return Ok(Step::Wait) };
        let items = self.items(index, plan)?;
        match &plan.work {
            EachWork::Body(steps) => self.each_body(index, plan, steps, items, at, work),
            EachWork::Runs(_) if items.is_empty() => Ok(Step::Done(Results::default().outputs())),
            EachWork::Runs(runs) => self.each_run(index, plan, runs),
        }
    }

    /// What a node does next that runs the workflow of its input.
    pub(super) fn invoke(&self, index: NodeIndex) -> Result<Step, Failure> {
        let (Some(plan), Some(under_way)) =
            (&self.plan.node(index).dispatch, &self.nodes[index].dispatching)
        else {
            return self.invoked(index).map(|_| Step::Wait);
        };
        let join = match self.hand_off(index, plan, under_way) {
            HandOff::Goes(step) => return Ok(step),
            HandOff::Settled(join) => join,
        };
        let result = join.ended.first().map(|worker| self.worker_result(worker));
        let result = result.unwrap_or_else(|| Ok(Object::new()))?;
        Ok(Step::Done(Object::from_iter([("result".to_owned(), result.into())])))
    }

    fn items(&self, index: NodeIndex, plan: &EachPlan) -> Result<&[Value], Failure> {
        let given = self.nodes[index].inputs.get("items");
        let given = given.ok_or_else(|| invalid("the input items is missing"))?;
        let items = given.as_array().map(Vec::as_slice);
        let items = items.ok_or_else(|| wrong_kind("the input items", "a list", given))?;
        bound_items(items.len(), plan.most_items())?;
        Ok(items)
    }

    fn each_body(
        &self,
        index: NodeIndex,
        plan: &EachPlan,
        steps: &[BodyStep],
        items: &[Value],
        at: Timestamp,
        work: &mut Work,
    ) -> Result<Step, Failure> {
        let names = self.names();
        let mut results = Results::default();
        for (place, item) in items.iter().enumerate() {
            let total = items.len();
            let body = Body { run: self, index, names: &names, at, item, place, total };
            match body.compute(steps, work) {
                Ok(mut outputs) => results.push(collected(plan, &mut outputs))?,
                // Where the work is used up, no other item gets any.
                Err(failure)
                    if plan.on_item_failure == OnItemFailure::Collect && !work.is_used_up() =>
                {
                    results.fail(place, &failure)?;
                }
                Err(failure) => return Err(at_item(place, failure)),
            }
        }
        Ok(Step::Done(results.outputs()))
    }

    fn each_run(
        &self,
        index: NodeIndex,
        plan: &EachPlan,
        runs: &EachRuns,
    ) -> Result<Step, Failure> {
        let (Some(dispatch), Some(under_way)) =
            (&self.plan.node(index).dispatch, &self.nodes[index].dispatching)
        else {
            return self.fan(index, plan, runs).map(|_| Step::Wait);
        };
        let join = match self.hand_off(index, dispatch, under_way) {
            HandOff::Goes(step) => return self.while_there_is_room(under_way, step),
            HandOff::Settled(join) => join,
        };
        if plan.on_item_failure == OnItemFailure::Fail {
            // The first that failed: those after it were only stopped.
            for worker in &join.ended {
                let place = under_way.workers.iter().position(|known| std::ptr::eq(known, *worker));
                self.worker_result(worker)
                    .map_err(|failure| at_item(place.unwrap_or_default(), failure))?;
            }
        }
        let mut results = Results::default();
        for (place, worker) in under_way.workers.iter().enumerate() {
            match self.worker_result(worker) {
                Ok(mut outputs) => results.push(collected(plan, &mut outputs))?,
                Err(failure) => results.fail(place, &failure)?,
            }
        }
        Ok(Step::Done(results.outputs()))
    }

    /// Begins no further run while the results of the others fill this one.
    fn while_there_is_room(&self, under_way: &Dispatching, step: Step) -> Result<Step, Failure> {
        let begins = |event: &Event| matches!(event, Event::WorkflowChained(told) if told.phase == ChainPhase::DispatchBegan);
        match (&step, self.has_room(0)) {
            (Step::Emit(event), Err(failure)) if begins(event) => {
                // Those that are at work end first.
                let is_any_at_work = under_way.workers.iter().any(Worker::is_under_way);
                if is_any_at_work { Ok(Step::Wait) } else { Err(failure) }
            }
            _ => Ok(step),
        }
    }

    fn worker_result(&self, worker: &Worker) -> Result<Object, Failure> {
        if !self.has_completed(worker) {
            return Err(self.worker_failure(worker));
        }
        let outputs = self.child_at(worker).and_then(|child| child.outputs.get("result"));
        let outputs = outputs.and_then(Value::as_object).cloned();
        outputs.ok_or_else(|| {
            Failure::new("output_too_large", "the outputs of the run are too large to be handed on")
        })
    }

    /// What a node that runs workflows takes over from one of them, as readers may see it; none for other nodes.
    pub(super) fn run_result(&self, index: NodeIndex, child: &Run) -> Option<Object> {
        let most = match self.plan.node(index).kind {
            NodeKind::Each => HEAVIEST_OF_MANY,
            NodeKind::Invoke => HEAVIEST,
            _ => return None,
        };
        let outputs = child.outputs(child.orchestra.ended_by);
        let ended = Event::RunCompleted(RunCompleted { outputs, duration_ms: 0 });
        let shown = child.mask().payload(&ended).unwrap_or_else(|| ended.payload());
        let outputs = shown.get("outputs").cloned().unwrap_or_else(|| json!({}));
        let is_small = weight(&outputs) <= most;
        Some(is_small.then(|| ("result".to_owned(), outputs)).into_iter().collect())
    }

    /// A node that names its workers itself does so when its inputs are known.
    pub(super) fn fold_named_workers(&mut self, index: NodeIndex) {
        let state = &self.nodes[index];
        if state.dispatching.is_some() || state.unresolved.is_some() {
            return;
        }
        let node = self.plan.node(index);
        let workers = match (self.kind(index), &node.each) {
            (NodeKind::Invoke, _) => self.invoked(index).map(|worker| vec![worker]),
            (NodeKind::Each, Some(plan)) => match &plan.work {
                EachWork::Runs(runs) => self.fan(index, plan, runs),
                EachWork::Body(_) => return,
            },
            _ => return,
        };
        // What is wrong with the inputs is told by the node's next step.
        self.nodes[index].dispatching = workers.ok().map(Dispatching::named);
    }

    fn fan(
        &self,
        index: NodeIndex,
        plan: &EachPlan,
        runs: &EachRuns,
    ) -> Result<Vec<Worker>, Failure> {
        let items = self.items(index, plan)?;
        let inputs = self.nodes[index].inputs.iter();
        let is_declared = |port: &str| self.plan.node(index).node.inputs.contains_key(port);
        let shared: Object = inputs
            .filter(|(port, _)| *port != "items" && is_declared(port))
            .map(|(port, value)| (port.clone(), value.clone()))
            .collect();
        if weight_of(&shared).saturating_mul(items.len()) > HEAVIEST {
            return Err(too_heavy());
        }
        let worker = |(place, item): (usize, &Value)| {
            let mut inputs = shared.clone();
            inputs.insert(runs.item_as.clone(), item.clone());
            if let Some(name) = &runs.index_as {
                inputs.insert(name.clone(), place.into());
            }
            Worker::of(runs.workflow.clone(), inputs)
        };
        Ok(items.iter().enumerate().map(worker).collect())
    }

    /// The one worker of `core.flow.sub-workflow-invoke`.
    fn invoked(&self, index: NodeIndex) -> Result<Worker, Failure> {
        let inputs = &self.nodes[index].inputs;
        let named = inputs.get(WORKFLOW_REF);
        let name = named.and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| invalid("the input workflowRef must name a workflow"))?;
        if name.contains('@') {
            let why = "the input workflowRef asks for a version; this host runs a workflow's newest definition, by its id";
            return Err(invalid(why));
        }
        let fields = |key: &str| match inputs.get(key) {
            None => Ok(Object::new()),
            Some(Value::Object(fields)) => Ok(fields.clone()),
            Some(other) => Err(wrong_kind(&format!("the input {key}"), "an object", other)),
        };
        if !fields("runOptions")?.is_empty() {
            return Err(invalid("the input runOptions must be empty: a child has its parent's"));
        }
        Ok(Worker::of(name.into(), fields("inputs")?))
    }
}

/// One item on its way through a body.
struct Body<'a> {
    run: &'a Run,
    index: NodeIndex,
    names: &'a Names<'a>,
    at: Timestamp,
    item: &'a Value,
    place: usize,
    total: usize,
}

impl Body<'_> {
    /// The outputs of the last step.
    fn compute(&self, steps: &[BodyStep], work: &mut Work) -> Result<Object, Failure> {
        let mut done: Vec<(&str, Object)> = Vec::new();
        for step in steps {
            let mut inputs = Object::new();
            for (port, value) in &step.inputs {
                let value = match value {
                    BodyPort::Shared(value) => self.run.resolve_port(self.index, port, value)?,
                    BodyPort::Path(path) => self.follow(path, &done),
                    BodyPort::Expression(expression) => {
                        Some(self.evaluate(expression, &done, work)?)
                    }
                };
                if let Some(value) = value {
                    work.spend(weight(&value) as u64)?;
                    inputs.insert(port.clone(), value);
                }
            }
            let name = || {
                let (run, node) = (self.run.told_id(), self.run.node_id(self.index));
                let state = &self.run.nodes[self.index];
                let (visit, attempt, item) = (state.visit, state.attempt, self.place);
                format!("{run}\n{node}\n{visit}\n{attempt}\n{item}\n{}", step.id)
            };
            let given = Given { config: &step.config, inputs: &inputs, at: self.at, name: &name };
            done.push((&step.id, step.pure.compute(&given, &mut Meter::new(work))?));
        }
        Ok(done.pop().map(|(_, outputs)| outputs).unwrap_or_default())
    }

    /// The value to which a path leads; none where it leads to nothing.
    fn follow(&self, path: &[String], done: &[(&str, Object)]) -> Option<Value> {
        let (root, rest) = path.split_first()?;
        let (found, rest) = match root.as_str() {
            "index" => return rest.is_empty().then(|| self.place.into()),
            "total" => return rest.is_empty().then(|| self.total.into()),
            "steps" => {
                let (step, rest) = rest.split_first()?;
                let outputs = done.iter().find(|(id, _)| id == step).map(|(_, outputs)| outputs)?;
                match rest.split_first() {
                    None => return Some(outputs.clone().into()),
                    Some((output, rest)) => (outputs.get(output)?, rest),
                }
            }
            _ => (self.item, rest),
        };
        rest.iter().try_fold(found, |value, name| value.get(name)).cloned()
    }

    fn evaluate(
        &self,
        expression: &str,
        done: &[(&str, Object)],
        work: &mut Work,
    ) -> Result<Value, Failure> {
        let (place, total) = (Value::from(self.place), Value::from(self.total));
        let mut steps = Names::default();
        for (id, outputs) in done {
            steps.insert(id, Place::Fields(outputs));
        }
        let mut names = self.names.clone();
        names.insert("item", Place::Value(self.item));
        names.insert("index", Place::Value(&place));
        names.insert("total", Place::Value(&total));
        names.insert("steps", Place::Named(Rc::new(steps)));
        evaluate(expression, &names, work)
    }
}

fn collected(plan: &EachPlan, outputs: &mut Object) -> Value {
    match &plan.collect {
        Some(name) => outputs.remove(name).unwrap_or_default(),
        None => std::mem::take(outputs).into(),
    }
}

fn invalid(why: &str) -> Failure {
    Failure::new("validation_error", why)
}

/// A failure, with the item that it is about.
fn at_item(place: usize, mut failure: Failure) -> Failure {
    failure.message = format!("item {place}: {}", failure.message);
    let mut details = failure.details.take().unwrap_or_default();
    details.insert("index".to_owned(), place.into());
    failure.with_details(details)
}

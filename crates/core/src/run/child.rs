//! Nodes that start runs of their own: which are to be started, watched or cancelled, and what follows from their ends.

use callboard_protocol::{
    ChildChanged, ChildRunSnapshot, Consumption, Event, Failure, FileVersion, NodeDispatched,
    NodeId, Object, Remembered, RunId, RunStatus, Timestamp, VariableChanged, WorkflowId,
};
use serde_json::{Value, json};

use super::attest::Agreed;
use super::command::{Refusal, RetryClass};
use super::handoff::Worker;
use super::perform::Step;
use super::view::Attempt;
use super::{Phase, Run, Stage};
use crate::child::{ChildCall, MemoryScope, OnChildFailure};
use crate::graph::NodeIndex;
use crate::node::NodeKind;
use crate::orchestrate::Mapping;

/// A run that a node is to start.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildOrder {
    /// The attempt that waits for it.
    pub attempt: Attempt,
    pub workflow: WorkflowId,
    pub inputs: Object,
    /// Variables that stay without a value, whatever the child declares.
    pub unset: Vec<String>,
    pub memory: MemoryScope,
    /// The only scopes of its owner that the child may use; none for all of its parent's.
    pub principal_scope: Option<Vec<String>>,
}

/// A child that has not ended as far as its parent knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChild {
    pub run: RunId,
    pub node: NodeId,
    /// The last status that the parent recorded.
    pub status: RunStatus,
    /// Whether the parent is ending and takes this child with it.
    pub must_end: bool,
}

/// What a child has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildUpdate {
    pub run: RunId,
    pub status: RunStatus,
    /// What the parent takes over, by the names of its own variables.
    pub outputs: Object,
    pub error: Option<Failure>,
    /// What the parent sees of memory from now on.
    pub memory: Vec<Remembered>,
    /// The files that the parent's next turn sees.
    pub files: Vec<FileVersion>,
    /// What the child used in sum; nothing while it goes on.
    pub used: Consumption,
}

/// One run that a node has started.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Child {
    pub(super) run: RunId,
    workflow: WorkflowId,
    pub(super) node: NodeIndex,
    pub(super) status: RunStatus,
    pub(super) outputs: Object,
    pub(super) error: Option<Failure>,
    /// The event of its last change.
    pub(super) heard: u64,
    /// Whether it stayed with the source that this run branched from.
    pub(super) is_left: bool,
    /// Whether it was ordered by what performs its node, and so is no part of the plan.
    is_ordered: bool,
}

impl Run {
    /// The children that must be started now.
    pub fn child_orders(&self) -> Vec<ChildOrder> {
        if self.lifecycle.phase != Phase::Running || self.is_ending() || self.birth.is_replay() {
            return Vec::new();
        }
        let waiting = self.flow.active.iter().filter(|index| {
            let state = &self.nodes[**index];
            state.stage == Stage::Active && state.unresolved.is_none()
        });
        waiting.flat_map(|index| self.child_orders_of(*index)).collect()
    }

    fn child_orders_of(&self, index: NodeIndex) -> Vec<ChildOrder> {
        let (node, state) = (self.plan.node(index), &self.nodes[index]);
        if let Some(call) = node.child.as_ref().filter(|_| state.child.is_none()) {
            let of_a_port = |(port, _): &(&String, &Value)| node.node.inputs.contains_key(*port);
            let ports = state.inputs.iter().filter(of_a_port);
            let inputs = ports.map(|(port, value)| (port.clone(), value.clone())).collect();
            return vec![self.child_order(index, &call.workflow_id, inputs)];
        }
        let workers = state.dispatching.iter().flat_map(|under_way| &under_way.workers);
        let waiting = workers.filter(|worker| worker.is_waiting());
        let order = |worker: &Worker| {
            let mut order = self.child_order(index, &worker.workflow, Object::new());
            // What is given to one worker alone is nearer than what is mapped for all.
            order.unset.retain(|name| !worker.inputs.contains_key(name));
            order.inputs.extend(worker.inputs.clone());
            order
        };
        waiting.map(order).collect()
    }

    fn child_order(
        &self,
        index: NodeIndex,
        workflow: &WorkflowId,
        mut inputs: Object,
    ) -> ChildOrder {
        let mut unset = Vec::new();
        for (theirs, ours) in self.input_mapping(index, workflow).into_iter().flatten() {
            inputs.remove(theirs);
            match self.values.variables.get(ours) {
                Some(value) => drop(inputs.insert(theirs.clone(), value.clone())),
                None => unset.push(theirs.clone()),
            }
        }
        let attempt = self.attempt(index);
        let memory = self.memory_scope(index);
        let call = self.plan.node(index).child.as_ref();
        let attestation = call.and_then(|call| call.output_attestation.as_ref());
        let principal_scope = attestation.and_then(|wanted| wanted.principal_scope.clone());
        ChildOrder { attempt, workflow: workflow.clone(), inputs, unset, memory, principal_scope }
    }

    /// Whose memory the children of a node read.
    fn memory_scope(&self, index: NodeIndex) -> MemoryScope {
        let node = self.plan.node(index);
        let call = node.child.as_ref().map(|call| call.memory_scope_isolation);
        call.or_else(|| node.dispatch.as_ref().map(|plan| plan.memory_scope_isolation))
            .unwrap_or_default()
    }

    /// Child variable → parent variable.
    fn input_mapping(&self, index: NodeIndex, workflow: &WorkflowId) -> Option<&Mapping> {
        let node = self.plan.node(index);
        let call = node.child.as_ref().map(|call| &call.input_mapping);
        call.or_else(|| node.dispatch.as_ref().map(|plan| plan.inputs_of(workflow.as_str())))
    }

    /// Parent variable → child variable.
    fn output_mapping(&self, index: NodeIndex, workflow: &WorkflowId) -> Option<&Mapping> {
        let node = self.plan.node(index);
        let call = node.child.as_ref().map(|call| &call.output_mapping);
        call.or_else(|| node.dispatch.as_ref().map(|plan| plan.outputs_of(workflow.as_str())))
    }

    /// The children of a node's visit.
    fn children_of(&self, index: NodeIndex) -> impl Iterator<Item = &Child> {
        let state = &self.nodes[index];
        let workers = state.dispatching.iter().flat_map(|under_way| &under_way.workers);
        let places = state.child.into_iter().chain(workers.filter_map(|worker| worker.child));
        places.map(|place| &self.children[place])
    }

    /// The inputs of a child as it may have them: what is sensitive here goes only where it stays so.
    pub fn handed_down(&self, order: &ChildOrder, child: &crate::Plan) -> Object {
        let index = self.plan.index(&order.attempt.node);
        let mapping = index.and_then(|index| self.input_mapping(index, &order.workflow));
        let stays_hidden = |name: &str| {
            let variables = &child.definition().variables;
            variables.iter().any(|variable| variable.name == name && variable.sensitive)
        };
        let hand = |(name, value): (&String, &Value)| {
            let ours = mapping.and_then(|mapping| mapping.get(name));
            // A worker's own input has taken the place of what is mapped to that name.
            let ours = ours.filter(|ours| self.values.variables.get(*ours) == Some(value));
            let is_secret = ours.is_some_and(|ours| self.mask().is_sensitive_variable(ours));
            let value = match is_secret && !stays_hidden(name) {
                true => self.mask().hide(value).unwrap_or(Value::Null),
                false => value.clone(),
            };
            (name.clone(), value)
        };
        order.inputs.iter().map(hand).collect()
    }

    /// The children whose next change this run waits for.
    pub fn live_children(&self) -> Vec<LiveChild> {
        if self.lifecycle.phase != Phase::Running || self.birth.is_replay() {
            return Vec::new();
        }
        let live = |index: &NodeIndex| {
            let must_end =
                (self.is_ending() && self.takes_along(*index)) || self.has_joined(*index);
            let node = self.node_id(*index);
            self.children_of(*index).filter(|child| !child.status.is_terminal()).map(move |child| {
                LiveChild {
                    run: child.run.clone(),
                    node: node.clone(),
                    status: child.status,
                    must_end,
                }
            })
        };
        let ordered = self.ordered_children().map(|child| LiveChild {
            run: child.run.clone(),
            node: self.node_id(child.node),
            status: child.status,
            must_end: self.is_ending(),
        });
        self.flow.active.iter().flat_map(live).chain(ordered).collect()
    }

    /// The children that go on which were ordered by what performs their nodes. One may outlive its node.
    fn ordered_children(&self) -> impl Iterator<Item = &Child> {
        let goes_on = |child: &&Child| !child.is_left && !child.status.is_terminal();
        self.children.iter().filter(|child| child.is_ordered).filter(goes_on)
    }

    /// Whether an ending run must wait for children that no node of it waits for.
    pub(super) fn holds_ordered_child(&self) -> bool {
        !self.birth.is_replay() && self.ordered_children().next().is_some()
    }

    /// What this run takes over from a child that completed.
    pub fn harvest(&self, node: &NodeId, child: &Run) -> Object {
        let index = self.plan.index(node);
        if let Some(result) = index.and_then(|index| self.run_result(index, child)) {
            return result;
        }
        let workflow = &child.birth.workflow_id;
        let mapping = index.and_then(|index| self.output_mapping(index, workflow));
        let mapping = mapping.into_iter().flatten();
        let take = |(ours, theirs): (&String, &String)| {
            let value = child.values.variables.get(theirs)?;
            let is_secret = child.mask().is_sensitive_variable(theirs);
            if is_secret && !self.mask().is_sensitive_variable(ours) {
                return Some((ours.clone(), child.mask().hide(value)?));
            }
            Some((ours.clone(), value.clone()))
        };
        mapping.filter_map(take).collect()
    }

    pub(super) fn knows_child(&self, run: &RunId) -> bool {
        self.children.iter().any(|child| child.run == *run && !child.status.is_terminal())
    }

    /// Whether a node of this run has started that one.
    pub fn has_started(&self, run: &RunId) -> bool {
        self.children.iter().any(|child| child.run == *run && !child.is_left)
    }

    /// Whether an ending run must still wait for this node's child to end. A replay has none of its own.
    pub(super) fn holds_child(&self, index: NodeIndex) -> bool {
        if self.birth.is_replay() {
            return false;
        }
        let has_ordered = self.ordered_children().any(|child| child.node == index);
        has_ordered
            || self.children_of(index).any(|child| !child.status.is_terminal())
                && self.takes_along(index)
    }

    /// Whether the children of a node end with it.
    fn takes_along(&self, index: NodeIndex) -> bool {
        self.call(index).is_none_or(|call| call.propagate_cancellation)
    }

    /// The status of children that wait for a person, which their parent shows as its own.
    pub(super) fn waiting_child(&self, index: NodeIndex) -> Option<RunStatus> {
        let workers = self.nodes[index].dispatching.iter().flat_map(|under_way| &under_way.workers);
        if workers.into_iter().any(|worker| worker.is_waiting()) {
            return None;
        }
        let mut live = self.children_of(index).filter(|child| !child.status.is_terminal());
        let first = live.next()?.status;
        (first.is_waiting() && live.all(|child| child.status.is_waiting())).then_some(first)
    }

    /// What a node with a child does next: wait for the end, take over its variables, end itself.
    pub(super) fn child_step(&self, index: NodeIndex, at: Timestamp) -> Result<Step, Failure> {
        let (Some(child), Some(call)) = (self.nodes[index].child, self.call(index)) else {
            return Ok(Step::Wait);
        };
        let child = &self.children[child];
        if !child.status.is_terminal() {
            return Ok(Step::Wait);
        }
        let outputs = match self.agreed(index, child, call, at)? {
            Agreed::On(outputs) => outputs,
            Agreed::Nothing => Object::new(),
            Agreed::NotYet(step) => return Ok(step),
        };
        let taken = usize::try_from(self.nodes[index].facts).unwrap_or(usize::MAX);
        if let Some((name, value)) = outputs.iter().nth(taken) {
            return Ok(Step::Emit(Event::VariableChanged(VariableChanged {
                name: name.clone(),
                previous: self.values.variables.get(name).cloned(),
                next: value.clone(),
                node_id: Some(self.node_id(index)),
            })));
        }
        if child.status != RunStatus::Completed
            && call.on_child_failure == OnChildFailure::FailParent
        {
            return Err(child.failure());
        }
        let mut outputs = json!({ "childRunId": child.run, "childStatus": child.status });
        if let Some(attestation) = self.attestation(index) {
            outputs["attestation"] = attestation;
        }
        Ok(Step::Done(outputs.as_object().cloned().unwrap_or_default()))
    }

    pub(super) fn on_dispatch(
        &self,
        attempt: &Attempt,
        child: &RunId,
        workflow: &WorkflowId,
    ) -> Result<Vec<Event>, Refusal> {
        let index = self.current(attempt)?;
        let is_call = self.plan.node(index).child.is_some() && self.nodes[index].child.is_none();
        let is_planned = is_call || self.has_place_for(index, workflow);
        let is_new = !self.children.iter().any(|known| known.run == *child);
        let is_ordered = self.orders_children(index) && is_new;
        if !is_planned && !is_ordered {
            return Err(Refusal::StaleAttempt { attempt: attempt.clone() });
        }
        Ok(vec![Event::NodeDispatched(NodeDispatched {
            node_id: Some(attempt.node.clone()),
            child_run_id: child.clone(),
            child_workflow_id: workflow.clone(),
        })])
    }

    /// Whether the children of a node are ordered by what performs it.
    fn orders_children(&self, index: NodeIndex) -> bool {
        let node = self.plan.node(index);
        node.child.is_none() && node.dispatch.is_none()
    }

    /// A child could not be started: the node fails, or one of its workers does.
    pub(super) fn on_dispatch_failure(
        &self,
        attempt: &Attempt,
        workflow: &WorkflowId,
        failure: &Failure,
    ) -> Result<Vec<Event>, Refusal> {
        let index = self.current(attempt)?;
        let told = self.undispatched(index, workflow, failure);
        Ok(vec![
            told.unwrap_or_else(|| {
                self.failed_or_retried(index, failure.clone(), RetryClass::Final)
            }),
        ])
    }

    /// News of a child, unless this run knows them already.
    pub(super) fn on_child_update(&self, news: &ChildUpdate) -> Vec<Event> {
        let known = self.children.iter().find(|child| child.run == news.run && !child.is_left);
        let Some(known) = known.filter(|known| known.status != news.status) else {
            return Vec::new();
        };
        if known.status.is_terminal() {
            return Vec::new();
        }
        vec![Event::ChildChanged(ChildChanged {
            node_id: self.node_id(known.node),
            child_run_id: news.run.clone(),
            status: news.status,
            outputs: news.outputs.clone(),
            error: news.error.clone(),
            memory: news.memory.clone(),
            files: news.files.clone(),
            used: news.used,
        })]
    }

    pub(super) fn fold_dispatched(&mut self, payload: &NodeDispatched) {
        let index = payload.node_id.as_ref().and_then(|node| self.plan.index(node));
        let Some(index) = index else { return };
        if self.plan.node(index).child.is_some() {
            self.nodes[index].child = Some(self.children.len());
        }
        self.children.push(Child {
            run: payload.child_run_id.clone(),
            workflow: payload.child_workflow_id.clone(),
            node: index,
            status: RunStatus::Running,
            outputs: Object::new(),
            error: None,
            heard: 0,
            is_left: false,
            is_ordered: self.orders_children(index),
        });
        self.fold_worker_started(index, payload);
    }

    pub(super) fn fold_child_changed(&mut self, payload: &ChildChanged, at: u64) {
        let known = self.children.iter_mut().find(|child| child.run == payload.child_run_id);
        if let Some(child) = known {
            child.status = payload.status;
            child.outputs = payload.outputs.clone();
            self.values.take(&payload.outputs);
            child.error = payload.error.clone();
            child.heard = at;
        }
        self.fold_memory(payload.memory.iter().cloned());
        self.fold_files(payload.files.iter().cloned());
        self.account_child(&payload.used);
    }

    pub(super) fn child_snapshots(&self) -> Vec<ChildRunSnapshot> {
        let snapshot = |child: &Child| ChildRunSnapshot {
            run_id: child.run.clone(),
            workflow_id: child.workflow.clone(),
            node_id: self.node_id(child.node),
            status: child.status,
        };
        self.children.iter().filter(|child| !child.is_left).map(snapshot).collect()
    }

    fn call(&self, index: NodeIndex) -> Option<&ChildCall> {
        let node = self.plan.node(index);
        node.child.as_ref().filter(|_| node.kind == NodeKind::Child)
    }
}

impl Child {
    pub(super) fn failure(&self) -> Failure {
        let why = self
            .error
            .as_ref()
            .map_or_else(String::new, |error| format!(": {} ({})", error.message, error.code));
        let message =
            format!("run {} of {} {}{why}", self.run, self.workflow, self.status.as_str());
        let details = json!({
            "childRunId": self.run,
            "childStatus": self.status,
            "childError": self.error,
        });
        Failure::new("child_run_failed", message)
            .with_details(details.as_object().cloned().unwrap_or_default())
    }
}

/// A status as a parent keeps it: whatever moves by itself is running.
pub fn status_for_parent(status: RunStatus) -> RunStatus {
    match status {
        RunStatus::Pending | RunStatus::Running | RunStatus::Paused | RunStatus::Cancelling => {
            RunStatus::Running
        }
        RunStatus::WaitingApproval
        | RunStatus::WaitingInput
        | RunStatus::WaitingExternal
        | RunStatus::Completed
        | RunStatus::Failed
        | RunStatus::Cancelled => status,
    }
}

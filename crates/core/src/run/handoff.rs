//! How one worker comes from a decision to what is taken over from it, event by event.

use callboard_protocol::{
    ChainPhase, Event, Failure, NodeDispatched, Object, RunId, RunStatus, VariableChanged,
    WorkflowChained, WorkflowId,
};

use super::Run;
use super::child::Child;
use super::dispatch::Dispatching;
use crate::graph::NodeIndex;

/// How far one worker has come. Each step is named by its event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Worker {
    pub(super) workflow: WorkflowId,
    /// What the decision gives to this one alone.
    pub(super) inputs: Object,
    pub(super) began: Option<u64>,
    /// The child, by its place among the run's.
    pub(super) child: Option<usize>,
    succeeded: Option<u64>,
    /// Why there is no child.
    pub(super) refused: Option<Failure>,
    pub(super) ended: Option<u64>,
    /// Variables that have been taken over.
    taken: usize,
    harvested: Option<u64>,
}

impl Worker {
    pub(super) fn of(workflow: WorkflowId, inputs: Object) -> Self {
        Self {
            workflow,
            inputs,
            began: None,
            child: None,
            succeeded: None,
            refused: None,
            ended: None,
            taken: 0,
            harvested: None,
        }
    }

    /// Whether a child must be started now.
    pub(super) fn is_waiting(&self) -> bool {
        self.began.is_some() && self.child.is_none() && self.refused.is_none()
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }

    /// A child that stayed with another run's history is to be started once more.
    pub(super) fn leave(&mut self) {
        (self.child, self.succeeded) = (None, None);
    }
}

impl Run {
    /// The events still due for workers that have moved, those that ended first before the others.
    pub(super) fn next_of_handoffs(
        &self,
        index: NodeIndex,
        under_way: &Dispatching,
    ) -> Option<Event> {
        let workers = &under_way.workers;
        let unannounced =
            workers.iter().find(|worker| worker.child.is_some() && worker.succeeded.is_none());
        if let Some(worker) = unannounced {
            return Some(self.chained(index, worker, ChainPhase::DispatchSucceeded, None));
        }
        let harvesting = self.harvesting(under_way);
        if let Some(worker) = harvesting.map(|place| &workers[place]) {
            return Some(self.next_of_harvest(index, worker));
        }
        let unheard = |worker: &&Worker| {
            worker.ended.is_none()
                && self.child_at(worker).is_some_and(|child| child.status.is_terminal())
        };
        let ended = workers.iter().filter(unheard);
        let worker = ended.min_by_key(|worker| self.child_at(worker).map(|child| child.heard))?;
        let child = self.child_at(worker)?;
        let (phase, error) = match child.status {
            RunStatus::Completed => (ChainPhase::ChildCompleted, None),
            RunStatus::Cancelled => (ChainPhase::ChildCancelled, Some(child.failure())),
            _ => (
                ChainPhase::ChildFailed,
                Some(child.error.clone().unwrap_or_else(|| child.failure())),
            ),
        };
        Some(self.chained(index, worker, phase, error))
    }

    /// The worker whose variables are being taken over.
    fn harvesting(&self, under_way: &Dispatching) -> Option<usize> {
        under_way.workers.iter().position(|worker| {
            worker.ended.is_some()
                && worker.harvested.is_none()
                && self.has_completed(worker)
                && self.maps_outputs(worker)
        })
    }

    fn next_of_harvest(&self, index: NodeIndex, worker: &Worker) -> Event {
        let outputs = self.child_at(worker).map(|child| &child.outputs);
        let next = outputs.and_then(|outputs| outputs.iter().nth(worker.taken));
        match next {
            Some((name, value)) => Event::VariableChanged(VariableChanged {
                name: name.clone(),
                previous: self.values.variables.get(name).cloned(),
                next: value.clone(),
                node_id: Some(self.node_id(index)),
            }),
            None => {
                let keys = outputs.into_iter().flat_map(Object::keys).cloned().collect();
                match self.chained(index, worker, ChainPhase::OutputHarvested, None) {
                    Event::WorkflowChained(told) => Event::WorkflowChained(WorkflowChained {
                        harvested_keys: Some(keys),
                        ..told
                    }),
                    other => other,
                }
            }
        }
    }

    pub(super) fn chained(
        &self,
        index: NodeIndex,
        worker: &Worker,
        phase: ChainPhase,
        error: Option<Failure>,
    ) -> Event {
        Event::WorkflowChained(WorkflowChained {
            node_id: Some(self.node_id(index)),
            phase,
            worker_id: worker.workflow.clone(),
            parent_run_id: self.told_id().clone(),
            child_run_id: self.child_at(worker).map(|child| child.run.clone()),
            harvested_keys: None,
            error,
            attestation: None,
        })
    }

    /// A worker for whom no child could be started.
    pub(super) fn undispatched(
        &self,
        index: NodeIndex,
        workflow: &WorkflowId,
        failure: &Failure,
    ) -> Option<Event> {
        let workers = &self.nodes[index].dispatching.as_ref()?.workers;
        let worker =
            workers.iter().find(|worker| worker.workflow == *workflow && worker.is_waiting())?;
        Some(self.chained(index, worker, ChainPhase::DispatchFailed, Some(failure.clone())))
    }

    /// Whether a worker waits for a child of this workflow.
    pub(super) fn has_place_for(&self, index: NodeIndex, workflow: &WorkflowId) -> bool {
        let under_way = self.nodes[index].dispatching.as_ref();
        under_way.is_some_and(|under_way| {
            let waits = |worker: &Worker| worker.workflow == *workflow && worker.is_waiting();
            under_way.workers.iter().any(waits)
        })
    }

    pub(super) fn has_completed(&self, worker: &Worker) -> bool {
        self.child_at(worker).is_some_and(|child| child.status == RunStatus::Completed)
    }

    fn maps_outputs(&self, worker: &Worker) -> bool {
        let child = self.child_at(worker);
        let plan = child.and_then(|child| self.plan.node(child.node).dispatch.as_ref());
        plan.is_some_and(|plan| !plan.outputs_of(worker.workflow.as_str()).is_empty())
    }

    pub(super) fn child_at(&self, worker: &Worker) -> Option<&Child> {
        worker.child.map(|place| &self.children[place])
    }

    pub(super) fn fold_chained(&mut self, payload: &WorkflowChained, at: u64) {
        let Some(index) = payload.node_id.as_ref().and_then(|node| self.plan.index(node)) else {
            return;
        };
        let child = payload.child_run_id.as_ref().and_then(|run| self.child_place(run));
        let Some(under_way) = &mut self.nodes[index].dispatching else {
            return self.fold_attested(index, payload);
        };
        let unbegun =
            |worker: &&mut Worker| worker.began.is_none() && worker.workflow == payload.worker_id;
        let worker = match payload.phase {
            ChainPhase::DispatchBegan => under_way.workers.iter_mut().find(unbegun),
            ChainPhase::DispatchFailed => under_way.waiting(&payload.worker_id),
            ChainPhase::DispatchSucceeded
            | ChainPhase::ChildCompleted
            | ChainPhase::ChildFailed
            | ChainPhase::ChildCancelled
            | ChainPhase::OutputHarvested => {
                under_way.workers.iter_mut().find(|worker| child.is_some() && worker.child == child)
            }
        };
        let Some(worker) = worker else { return };
        match payload.phase {
            ChainPhase::DispatchBegan => worker.began = Some(at),
            ChainPhase::DispatchSucceeded => worker.succeeded = Some(at),
            ChainPhase::DispatchFailed => {
                worker.refused = payload.error.clone();
                worker.ended = Some(at);
            }
            ChainPhase::ChildCompleted | ChainPhase::ChildFailed | ChainPhase::ChildCancelled => {
                worker.ended = Some(at);
            }
            ChainPhase::OutputHarvested => worker.harvested = Some(at),
        }
    }

    /// The event of a handoff that the next one answers.
    pub(super) fn chain_cause(&self, payload: &WorkflowChained) -> Option<u64> {
        let index = payload.node_id.as_ref().and_then(|node| self.plan.index(node))?;
        let under_way = self.nodes[index].dispatching.as_ref()?;
        let child = payload.child_run_id.as_ref().and_then(|run| self.child_place(run));
        let mut workers = under_way.workers.iter();
        let worker = match child {
            Some(child) => workers.find(|worker| worker.child == Some(child)),
            None => {
                workers.find(|worker| worker.workflow == payload.worker_id && worker.is_waiting())
            }
        };
        match payload.phase {
            ChainPhase::DispatchBegan => under_way.ruling.as_ref().map(|ruling| ruling.at),
            ChainPhase::DispatchSucceeded | ChainPhase::DispatchFailed => worker?.began,
            ChainPhase::ChildCompleted | ChainPhase::ChildFailed | ChainPhase::ChildCancelled => {
                worker?.succeeded
            }
            ChainPhase::OutputHarvested => worker?.ended,
        }
    }

    /// A child of a dispatching node belongs to the first worker that waits for one like it.
    pub(super) fn fold_worker_started(&mut self, index: NodeIndex, payload: &NodeDispatched) {
        let place = self.children.len().checked_sub(1);
        let under_way = self.nodes[index].dispatching.as_mut();
        let worker = under_way.and_then(|it| it.waiting(&payload.child_workflow_id));
        if let Some(worker) = worker {
            worker.child = place;
        }
    }

    /// A variable that a dispatching node wrote was taken over from a worker.
    pub(super) fn fold_taken(&mut self, index: NodeIndex) {
        let under_way = self.nodes[index].dispatching.as_ref();
        let place = under_way.and_then(|under_way| self.harvesting(under_way));
        if let Some(place) = place
            && let Some(under_way) = &mut self.nodes[index].dispatching
        {
            under_way.workers[place].taken += 1;
        }
    }

    fn child_place(&self, run: &RunId) -> Option<usize> {
        self.children.iter().position(|child| child.run == *run)
    }
}

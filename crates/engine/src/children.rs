//! Runs within runs: a holder starts the children that its run owes, looks at them, and ends them with it.

use std::sync::Arc;

use callboard_core::{
    Birth, ChildOrder, ChildUpdate, Command, Inadmissible, LiveChild, MemoryBirth, MemoryScope,
    Parent, Refusal, Run, RunBudget, Stamp, TraceContext, UNPROCESSABLE, status_for_parent,
};
use callboard_protocol::{ENGINE_VERSION, Failure, FileVersion, NodeId, RunId, RunStatus};

use crate::decisions::Undecided;
use crate::engine::{Engine, EngineError, PreparedRun};
use crate::store::{KeyMode, Scope};

/// How deep runs may lie within runs. A workflow that starts itself without end stops here.
const MAX_DEPTH: u32 = 16;

/// What a child keeps of the node that starts it.
fn link(parent: &Run, node: &NodeId, depth: u32, place: u64) -> Parent {
    let above = parent.birth();
    Parent {
        run_id: above.run_id.clone(),
        workflow_id: above.workflow_id.clone(),
        node_id: node.clone(),
        depth,
        root: Some(above.root().clone()),
        place,
        // A node that performs something else has ordered the run while it did.
        cause: parent
            .plan()
            .cause_of_children(node)
            .cloned()
            .unwrap_or_else(|| "core.subWorkflow".into()),
    }
}

impl Engine {
    /// The child that an order asks for, ready to be written, or why there is to be none.
    #[expect(clippy::too_many_lines, reason = "one line for each part of a birth record")]
    pub(crate) async fn child_of(
        &self,
        parent: &Run,
        order: &ChildOrder,
        named: Option<RunId>,
    ) -> Result<Result<PreparedRun, Failure>, EngineError> {
        let (above, attempt) = (parent.birth(), &order.attempt);
        let depth = above.parent.as_ref().map_or(0, |above| above.depth) + 1;
        if depth > MAX_DEPTH {
            let message = format!("runs lie within runs more than {MAX_DEPTH} deep");
            return Ok(Err(Failure::new("recursion_limit_exceeded", message)));
        }
        let found = self.inner.catalog.find(&Scope::of(above), &order.workflow).await?;
        let Some(entry) = found else {
            let message = format!("there is no workflow {}", order.workflow);
            return Ok(Err(Failure::new("unknown_child_workflow", message)));
        };
        // Options that a child declares itself are its own; others are its parent's.
        let configurable = match entry.plan.definition().configurable_schema {
            Some(_) => Default::default(),
            None => above.configurable.clone(),
        };
        let inputs = parent.handed_down(order, &entry.plan);
        let run_id = named.unwrap_or_else(|| self.inner.ids.run_id());
        let cast = match self.cast(&Scope::of(above), &run_id, &entry.plan, None).await {
            Ok(cast) => cast,
            Err(error) => return uncast(error).map(Err),
        };
        let admitted = self.inner.catalog.admit_types(&entry.plan, &cast.pins).and_then(|()| {
            let host = self.limits();
            let budget = RunBudget::admit(&configurable, &host, parent.budget_left())?;
            let limits = entry.plan.admit_child(&inputs, &order.unset, &configurable, host)?;
            Ok((limits, budget))
        });
        let (limits, budget) = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => return Ok(Err(inadmissible(refusal))),
        };
        // Before the clock: whatever the child sees was written before it says that it began.
        let memory = self.memory_of_child(parent, order.memory, &run_id).await?;
        let files = self.files_of_child(parent).await?;
        // After all requests to the store: a request that is repeated because the store was away is counted once.
        let most = self.limits().max_family_runs;
        let Some(place) = self.inner.families.join(above, most) else {
            let message = format!("more than {most} runs would lie below {}", above.root());
            return Ok(Err(Failure::new("recursion_limit_exceeded", message)));
        };
        let attribution = cast.acting.map(|acting| acting.attribution(&order.workflow));
        let own = attribution.as_ref().map(|attribution| attribution.roster_id.clone());
        let at = self.inner.clock.now();
        let birth = Birth {
            stamp: Some(Stamp::below(above)),
            // The parent's accounts pay for the child, unless a member of its own works there.
            charged_to: own.or_else(|| above.charged_to.clone()),
            attribution,
            budget,
            run_id,
            workflow_id: order.workflow.clone(),
            definition: entry.digest.clone(),
            owner: above.owner.clone(),
            test: above.test,
            inputs,
            configurable,
            tags: Vec::new(),
            metadata: None,
            scope_id: None,
            // The parent's callback address also receives the child's questions.
            callback_url: above.callback_url.clone(),
            created_at: at,
            engine_version: ENGINE_VERSION,
            forced_engine_version: above.forced_engine_version,
            limits,
            parent: Some(link(parent, &attempt.node, depth, place)),
            unset: order.unset.clone(),
            fork: None,
            delivery: None,
            from_outside: above.from_outside || entry.plan.reads_outside(),
            principal_scope: narrowed(&above.principal_scope, &order.principal_scope),
            agents: cast.pins,
            memory,
            files,
            trace: Some(TraceContext::below(above, &attempt.node, attempt.visit)),
        };
        let run = Run::new(Arc::new(birth), entry.plan.clone());
        Ok(Ok(self.prepared(run, entry.source.clone())))
    }

    /// What a child sees of memory: its parent's, or one of its own that begins empty.
    async fn memory_of_child(
        &self,
        parent: &Run,
        scope: MemoryScope,
        child: &RunId,
    ) -> Result<MemoryBirth, EngineError> {
        Ok(match scope {
            // Below a fork it is the past, too.
            MemoryScope::Inherit if !parent.birth().memory.anchors.is_empty() => {
                parent.memory_handed_on()
            }
            MemoryScope::Inherit => MemoryBirth {
                as_of: self.inner.memory.position(&Scope::of(parent.birth()).realm()).await?,
                ..parent.memory_handed_on()
            },
            MemoryScope::Isolated => MemoryBirth {
                scope_id: child.to_string(),
                family: Some(child.clone()),
                ..MemoryBirth::default()
            },
        })
    }

    /// What a child sees of its workspace: what stands there now, or below a fork what the fork sees.
    async fn files_of_child(&self, parent: &Run) -> Result<Vec<FileVersion>, EngineError> {
        let above = parent.birth();
        if !above.memory.anchors.is_empty() {
            return Ok(parent.files_seen());
        }
        let mode = KeyMode::of(above.test);
        Ok(self.files_of(&above.owner, mode).await?)
    }

    /// Ends a child with its parent. One that has ended already needs nothing.
    pub(crate) async fn end_child(
        &self,
        parent: &Run,
        child: &LiveChild,
    ) -> Result<(), EngineError> {
        let above = parent.birth();
        let scope = crate::store::Scope {
            tenant: above.owner.tenant.clone(),
            workspace: None,
            mode: KeyMode::of(above.test),
        };
        let command = Command::Cancel {
            reason: Some("parent-cancelled".into()),
            by: None,
            parent: Some(above.run_id.clone()),
        };
        match self.record(&scope, &child.run, &command, None).await {
            Ok(_) | Err(EngineError::Refused(Refusal::Ended { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What a parent does not know of its child yet.
    pub(crate) async fn child_update(
        &self,
        parent: &Run,
        child: &LiveChild,
    ) -> Result<Option<ChildUpdate>, EngineError> {
        let run = match self.open(&child.run).await {
            Ok(Some(run)) => run,
            Ok(None) => return Ok(None),
            // Its own holder gives it up; what its parent must know then is that it ended, and how.
            Err(EngineError::Unprocessable { why, .. }) => {
                return self.unfolded_child_update(child, &why).await;
            }
            Err(error) => return Err(error),
        };
        let status = status_for_parent(run.status());
        if status == child.status {
            return Ok(None);
        }
        let outputs = match status {
            RunStatus::Completed => parent.harvest(&child.node, &run),
            _ => Default::default(),
        };
        let memory = match status {
            RunStatus::Completed => run.memory_left(),
            _ => Vec::new(),
        };
        let files = match status {
            RunStatus::Completed => run.files_left(),
            _ => Vec::new(),
        };
        let error = run.snapshot().error;
        let used = match status.is_terminal() {
            true => run.consumption(),
            false => Default::default(),
        };
        Ok(Some(ChildUpdate {
            run: child.run.clone(),
            status,
            outputs,
            error,
            memory,
            files,
            used,
        }))
    }
}

impl Engine {
    /// What a parent does not know yet of a child that cannot be folded.
    async fn unfolded_child_update(
        &self,
        child: &LiveChild,
        why: &Undecided,
    ) -> Result<Option<ChildUpdate>, EngineError> {
        let statuses = self.inner.store.statuses(std::slice::from_ref(&child.run)).await?;
        let ended = statuses.first().copied().flatten().map(|standing| standing.status);
        let ended = ended.filter(|status| status.is_terminal());
        let update = |status| ChildUpdate {
            run: child.run.clone(),
            status: if status == RunStatus::Completed { RunStatus::Failed } else { status },
            outputs: Default::default(),
            error: Some(Failure::new(UNPROCESSABLE, why.to_string())),
            memory: Vec::new(),
            files: Vec::new(),
            used: Default::default(),
        };
        // What a child came to that completed is in its log, for a build that can read it.
        let waits = |status: RunStatus| {
            status == RunStatus::Completed && matches!(why, Undecided::Unreadable(_))
        };
        Ok(ended.filter(|status| *status != child.status && !waits(*status)).map(update))
    }
}

/// A child may use no scope that its parent may not.
fn narrowed(above: &Option<Vec<String>>, asked: &Option<Vec<String>>) -> Option<Vec<String>> {
    let Some(asked) = asked else { return above.clone() };
    let allowed = |scope: &&String| above.as_ref().is_none_or(|above| above.contains(scope));
    Some(asked.iter().filter(allowed).cloned().collect())
}

fn inadmissible(refusal: Inadmissible) -> Failure {
    Failure::new(refusal.code, refusal.to_string()).with_details(refusal.details)
}

/// Why a child whose agents are not to be had fails its node; any other error is the machine's.
fn uncast(error: EngineError) -> Result<Failure, EngineError> {
    match error {
        EngineError::Inadmissible(refusal) => Ok(inadmissible(refusal)),
        EngineError::UnknownAgent(_) => Ok(Failure::new("unknown_agent", error.to_string())),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::narrowed;

    #[test]
    fn scopes_only_ever_become_fewer() {
        let scopes = |names: &[&str]| -> Option<Vec<String>> {
            Some(names.iter().map(|name| (*name).to_owned()).collect())
        };
        let (ab, bc) = (scopes(&["a", "b"]), scopes(&["b", "c"]));
        assert_eq!(narrowed(&None, &None), None);
        assert_eq!(narrowed(&ab, &None), ab);
        assert_eq!(narrowed(&None, &ab), ab);
        assert_eq!(narrowed(&ab, &bc), scopes(&["b"]));
        assert_eq!(narrowed(&ab, &scopes(&[])), scopes(&[]));
    }
}

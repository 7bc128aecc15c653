//! Which prompts of a run would be others if they were composed today.

use std::sync::Arc;

use callboard_core::{AgentFact, Birth, Entry, Plan, PromptComparison, Run};
use callboard_protocol::{Event, NodeId, RunId};

use crate::activity::PastTask;
use crate::engine::Engine;

impl Engine {
    /// The events of such prompts from `from` on. Each node is asked about with the inputs that it had then.
    pub(super) async fn changed_prompts(
        &self,
        (source, replay): (&Birth, &Birth),
        plan: &Arc<Plan>,
        log: &[Entry],
        from: usize,
    ) -> Vec<u64> {
        let is_prompt = |entry: &Entry| {
            matches!(entry.event, Event::AgentPromptResolved(_) | Event::PromptComposed(_))
        };
        let rest = log.get(from..).unwrap_or_default();
        let Some(last) = rest.iter().rposition(is_prompt) else { return Vec::new() };
        // A run that owes its attempts, even where the source was a replay and performed nothing.
        let lively = Birth { fork: None, ..source.clone() };
        let mut run = Run::new(Arc::new(lively), Arc::clone(plan));
        let mut comparison = PromptComparison::default();
        let mut changed = Vec::new();
        for (place, entry) in log[..=from + last].iter().enumerate() {
            if let Some(node) = comparison.wants(&entry.event) {
                let told_id = replay.told_id(entry.sequence);
                let today = self.prompts_today(source, told_id, &run, node).await;
                comparison.learn(node.clone(), today);
            }
            if comparison.differs(&entry.event) && place >= from {
                changed.push(entry.sequence);
            }
            run.apply(entry);
        }
        changed
    }

    async fn prompts_today(
        &self,
        source: &Birth,
        told_id: &RunId,
        run: &Run,
        node: &NodeId,
    ) -> Option<Vec<AgentFact>> {
        let task = run.tasks().find(|task| task.attempt.node == *node)?;
        let past = PastTask {
            run: told_id,
            birth: source,
            task: &task,
            prompt_defaults: run.prompt_defaults(),
            secrets: &self.inner.secrets,
        };
        self.inner.activities.find(&task)?.prompts(past).await
    }
}

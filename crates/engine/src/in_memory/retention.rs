//! Which runs may go, in memory.

use callboard_protocol::RunId;

use super::{StoredRun, Tables, index};
use crate::logs::LogPosition;
use crate::retention::{EndedRuns, Removable};

/// Whether a rule is about this run.
fn fits(run: &StoredRun, of: &EndedRuns) -> bool {
    let EndedRuns { tenant, workflow, agent, status } = of;
    let birth = &run.birth;
    tenant.as_ref().is_none_or(|tenant| *tenant == birth.owner.tenant)
        && workflow.as_ref().is_none_or(|workflow| *workflow == birth.workflow_id)
        && agent.as_ref().is_none_or(|agent| birth.agent_ids().contains(agent.as_str()))
        && status.is_none_or(|status| status == run.head.status)
}

impl Tables {
    pub(super) fn remove_ended(
        &mut self,
        removable: &Removable,
        read_until: Option<LogPosition>,
        limit: usize,
    ) -> Vec<RunId> {
        let old = self.removable(removable, read_until);
        let gone: Vec<RunId> = old.iter().take(limit).map(|run| run.birth.run_id.clone()).collect();
        for run in &gone {
            self.runs.remove(run);
            self.records.remove_of(run);
        }
        gone
    }

    /// The oldest first.
    fn removable(&self, removable: &Removable, read_until: Option<LogPosition>) -> Vec<&StoredRun> {
        let is_meant = |run: &&StoredRun| {
            run.head.status.is_terminal()
                && run.head.updated_at < removable.before
                && fits(run, &removable.of)
                && !removable.except.iter().any(|except| fits(run, except))
        };
        // Positions begin at one, so a position is the index of what comes after it.
        let unread = read_until.map(|read| self.log.get(index(read.0)..).unwrap_or_default());
        let meant = self.runs.values().filter(is_meant);
        let mut old: Vec<&StoredRun> = meant.filter(|run| self.may_go(run, unread)).collect();
        old.sort_by_key(|run| (run.head.updated_at, run.ordinal));
        old
    }

    fn is_over(&self, run: &RunId) -> bool {
        self.runs.get(run).is_none_or(|run| run.head.status.is_terminal())
    }

    /// Whether nothing needs an ended run any more.
    fn may_go(&self, run: &StoredRun, unread: Option<&[(RunId, u64)]>) -> bool {
        let id = &run.birth.run_id;
        let parent_is_over =
            run.birth.parent.as_ref().is_none_or(|parent| self.is_over(&parent.run_id));
        let is_needed = |other: &StoredRun| {
            let birth = &other.birth;
            let is_fork = birth.fork.as_ref().is_some_and(|fork| fork.source == *id);
            let is_child = birth.parent.as_ref().is_some_and(|parent| parent.run_id == *id);
            is_fork || (is_child && !other.head.status.is_terminal())
        };
        // The end of all logs stays, so that readers of all of them find their places.
        let is_newest = self.log.last().is_some_and(|(newest, _)| newest == id);
        parent_is_over
            && !is_newest
            && !self.runs.values().any(is_needed)
            && !self.records.retain(id)
            && !unread.is_some_and(|unread| unread.iter().any(|(of, _)| of == id))
    }
}

//! One run as its rows say it: birth, head, log, lease.

use callboard_core::{Birth, Entry, Head, InterruptView, Priority, is_budget_question};
use callboard_protocol::{
    Event, ProviderUsage, RosterId, RunCost, RunMetrics, RunSnapshot, RunStatus, Timestamp,
};
use serde_json::Value;

use crate::concurrency::Queue;
use crate::roster::USAGE;
use crate::store::{DueRun, Filter, Listed, Recorded, Row, StoreError, Tenure};
use crate::wait::{AskedQuestion, NewestEvent, Rest, WaitedChild};

pub(super) struct StoredRun {
    /// The order of creation, which settles ties between equal times.
    pub(super) ordinal: usize,
    pub(super) birth: Birth,
    /// What the columns say; `wake_at` is the lease's end while the run is held.
    pub(super) head: Head,
    pub(super) rows: Vec<Row>,
    pub(super) tenure: Tenure,
    /// The fold, and the version that it has seen.
    pub(super) snapshot: Option<(u64, String)>,
    /// What the run asks.
    pub(super) interrupts: Vec<InterruptView>,
}

impl StoredRun {
    pub(super) fn is_claimable(&self, at: Timestamp, lapsed_at: Timestamp) -> bool {
        self.tenure.wake_at.is_some_and(|wake_at| wake_at <= at)
            && self.tenure.lease_until.is_none_or(|until| until <= lapsed_at)
    }

    pub(super) fn due(&self) -> DueRun {
        DueRun {
            queue: Queue::of(&self.birth),
            rank: self.rank(),
            wake_at: self.head.wake_at.unwrap_or_default(),
            has_place: self.tenure.lease_until.is_some(),
        }
    }

    fn rank(&self) -> i32 {
        match self.head.status {
            RunStatus::Cancelling => Priority::AT_ONCE,
            _ => self.birth.rank(),
        }
    }

    pub(super) fn set(&mut self, tenure: Tenure) {
        self.head.wake_at = tenure.wake_at;
        self.tenure = tenure;
    }

    fn entry(&self, sequence: usize, row: &Row) -> Result<Entry, StoreError> {
        let json = row.private.as_ref().unwrap_or(&row.payload);
        let payload = serde_json::from_str(json).map_err(|error| StoreError::Unreadable {
            what: format!("event {sequence} of {}", self.birth.run_id),
            why: error.to_string(),
        })?;
        Ok(Entry {
            sequence: sequence as u64,
            at: row.at,
            event: Event::read(&row.kind, row.node.clone(), payload),
            cause: row.cause.clone(),
        })
    }

    pub(super) fn entries(&self, from: usize) -> Result<Vec<Entry>, StoreError> {
        self.rows
            .iter()
            .enumerate()
            .skip(from)
            .map(|(sequence, row)| self.entry(sequence, row))
            .collect()
    }

    pub(super) fn recorded(&self, sequence: usize, row: &Row) -> Recorded {
        Recorded {
            run: self.birth.run_id.clone(),
            sequence: sequence as u64,
            at: row.at,
            kind: row.kind.clone(),
            node: row.node.clone(),
            payload: row.payload.clone(),
            engine_version: self.birth.stamped_version(),
            cause: row.cause.clone(),
        }
    }

    pub(super) fn member(&self) -> Option<&RosterId> {
        self.birth.attribution.as_ref().map(|attribution| &attribution.roster_id)
    }

    pub(super) fn listed(&self) -> Listed {
        Listed {
            run_id: self.birth.run_id.clone(),
            workflow_id: self.birth.workflow_id.clone(),
            status: self.head.status,
            created_at: self.birth.created_at,
            updated_at: self.head.updated_at,
            roster_id: self.member().cloned(),
            trigger_source: self.birth.attribution.as_ref().map(|it| it.trigger_source.clone()),
            tags: self.birth.tags.clone(),
            metrics: self.metrics(),
            priority: "",
            wait: None,
            rest: self.rest(),
        }
    }

    fn rest(&self) -> Rest {
        if self.head.status.is_terminal() {
            return Rest::default();
        }
        let snapshot = self.snapshot.as_ref().filter(|(seen, _)| *seen == self.head.version);
        let folded = snapshot.and_then(|(_, body)| serde_json::from_str::<RunSnapshot>(body).ok());
        let mut rest = Rest {
            is_held: self.tenure.holder.is_some(),
            wake_at: self.head.wake_at,
            asked: self.asked(),
            agents: Queue::agents_of(&self.birth),
            rank: self.rank(),
            ..Rest::default()
        };
        if let Some(folded) = &folded {
            let mut children = folded.child_runs.iter();
            let child = children.find(|child| !child.status.is_terminal());
            rest.child = child.map(|child| WaitedChild {
                run: child.run_id.clone(),
                node: child.node_id.clone(),
            });
            let mut nodes = folded.node_states.iter();
            let retrying = nodes.find(|(_, node)| node.status == "retrying");
            rest.retrying = retrying.map(|(node, _)| node.clone());
        }
        rest.with_newest(self.rows.last().map(newest))
    }

    /// The question that waits longest.
    fn asked(&self) -> Option<AskedQuestion> {
        let open = self.interrupts.iter().min_by_key(|open| (open.requested_at, &open.id))?;
        Some(AskedQuestion {
            node: open.node.clone(),
            kind: open.kind,
            since: open.requested_at,
            expires_at: open.expires_at,
            is_about_budget: is_budget_question(&open.data),
        })
    }

    fn metrics(&self) -> Option<RunMetrics> {
        let used = self.rows.iter().filter(|row| row.kind == USAGE);
        let used = used.filter_map(|row| serde_json::from_str::<ProviderUsage>(&row.payload).ok());
        let cost = used.fold(None, |cost, usage| Some(RunCost::plus(cost, RunCost::of(&usage))));
        // The last call's model stands in the snapshot; a list says only what it came to.
        let bare = |cost: RunCost| RunCost { model: None, provider: None, ..cost };
        cost.map(|cost| RunMetrics { openwop_cost: bare(cost) })
    }

    pub(super) fn passes(&self, filter: &Filter) -> bool {
        filter.status.is_none_or(|status| status == self.head.status)
            && filter.workflow.as_ref().is_none_or(|workflow| *workflow == self.birth.workflow_id)
            && filter
                .agent
                .as_ref()
                .is_none_or(|agent| self.birth.agent_ids().contains(agent.as_str()))
            && filter.member.as_ref().is_none_or(|member| self.member() == Some(member))
            && filter.run.as_ref().is_none_or(|run| *run == self.birth.run_id)
            && filter.tag.as_ref().is_none_or(|tag| self.birth.tags.contains(tag))
            && filter.since.is_none_or(|since| self.birth.created_at >= since)
            && filter.until.is_none_or(|until| self.birth.created_at < until)
    }

    /// Where the run stands in a list; the newest is the greatest.
    pub(super) fn place(&self) -> (Timestamp, usize) {
        (self.birth.created_at, self.ordinal)
    }
}

fn newest(row: &Row) -> NewestEvent {
    let payload: Value = serde_json::from_str(&row.payload).unwrap_or_default();
    NewestEvent {
        kind: row.kind.clone(),
        node: row.node.clone(),
        at: row.at,
        delay_ms: payload["delayMs"].as_u64(),
        child_run: payload["childRunId"].as_str().map(Into::into),
    }
}

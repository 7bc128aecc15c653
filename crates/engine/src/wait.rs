//! Why a run does not move: derived from where it stands, never stored.

use serde::Serialize;

use callboard_protocol::{InterruptKind, NodeId, RunId, RunStatus, Timestamp};

/// What a list knows of a run that has not ended, beside its line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rest {
    /// Whether a host holds the run.
    pub is_held: bool,
    /// When it is due next; the end of the lease while it is held.
    pub wake_at: Option<Timestamp>,
    /// The question that waits longest.
    pub asked: Option<AskedQuestion>,
    /// A child that has not ended, as the run knows it.
    pub child: Option<WaitedChild>,
    /// A node that is to be tried again.
    pub retrying: Option<NodeId>,
    /// The time of that try, where the newest event has it.
    pub retry_at: Option<Timestamp>,
    /// Its agents, as its queue names them.
    pub agents: String,
    /// Its priority, as it is compared.
    pub rank: i32,
}

/// A question without what is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedQuestion {
    pub node: NodeId,
    pub kind: InterruptKind,
    pub since: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// Whether it asks for more budget.
    pub is_about_budget: bool,
}

/// A child that its parent waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitedChild {
    pub run: RunId,
    pub node: NodeId,
}

/// What the newest event of a log shows of what its run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestEvent {
    pub kind: String,
    pub node: Option<NodeId>,
    pub at: Timestamp,
    /// `delayMs` of its payload.
    pub delay_ms: Option<u64>,
    /// `childRunId` of its payload.
    pub child_run: Option<RunId>,
}

/// Why a run waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    pub reason: WaitReason,
    pub since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// When the wait ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<RunId>,
    /// The kind of the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<InterruptKind>,
    /// The limit that it waits for, by the key of the file that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

impl Wait {
    /// Of which nothing more is known.
    pub fn new(reason: WaitReason, since: Timestamp) -> Self {
        let (node_id, until, child_run_id, kind, limit) = (None, None, None, None, None);
        Self { reason, since, node_id, until, child_run_id, kind, limit }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitReason {
    /// It was paused, and must be resumed.
    Paused,
    /// A person must answer.
    Question,
    /// A budget is used up, and a person must say whether it is raised.
    Budget,
    /// A child must end.
    Child,
    /// A failed node is tried again later.
    Retry,
    /// A node waits for its time.
    Timer,
    /// It could go on, but no host has a free place for it.
    NoFreePlace,
    /// It could go on, but as many runs of its tenant, workflow or agent are at work as may be.
    ConcurrencyLimit,
    /// It could go on, but runs of its tenant with a higher priority go first.
    Priority,
    /// It is at work, and its model's provider is asked as much as it may be.
    ProviderLimit,
}

impl Rest {
    /// The same with what the newest event shows. A run that is held keeps no fold beside its log, so it is the only
    /// sign of a short wait.
    #[must_use]
    pub fn with_newest(mut self, newest: Option<NewestEvent>) -> Self {
        let Some(NewestEvent { kind, node: Some(node), at, delay_ms, child_run }) = newest else {
            return self;
        };
        match kind.as_str() {
            "node.retried" => {
                self.retry_at = delay_ms.map(|delay| at.plus_millis(delay));
                self.retrying = Some(node);
            }
            "node.dispatched" if self.child.is_none() => {
                self.child = child_run.map(|run| WaitedChild { run, node });
            }
            _ => {}
        }
        self
    }

    /// Why the run waits; none for one that is at work or has ended.
    pub fn wait(&self, status: RunStatus, updated_at: Timestamp, now: Timestamp) -> Option<Wait> {
        let plain = |reason: WaitReason| Wait::new(reason, updated_at);
        match status {
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => None,
            RunStatus::Paused => Some(plain(WaitReason::Paused)),
            RunStatus::WaitingApproval | RunStatus::WaitingInput | RunStatus::WaitingExternal => {
                Some(self.question().unwrap_or_else(|| plain(WaitReason::Question)))
            }
            RunStatus::Pending => (!self.is_held).then(|| plain(WaitReason::NoFreePlace)),
            RunStatus::Running | RunStatus::Cancelling => self.idle(plain, now),
        }
    }

    fn question(&self) -> Option<Wait> {
        let asked = self.asked.as_ref()?;
        let reason = if asked.is_about_budget { WaitReason::Budget } else { WaitReason::Question };
        Some(Wait {
            node_id: Some(asked.node.clone()),
            until: asked.expires_at,
            kind: Some(asked.kind),
            ..Wait::new(reason, asked.since)
        })
    }

    /// What a run waits for that asks nobody.
    fn idle(&self, plain: impl Fn(WaitReason) -> Wait, now: Timestamp) -> Option<Wait> {
        let is_due = self.wake_at.is_none_or(|at| at <= now);
        if let Some(child) = &self.child {
            let (node_id, child_run_id) = (Some(child.node.clone()), Some(child.run.clone()));
            return Some(Wait { node_id, child_run_id, ..plain(WaitReason::Child) });
        }
        if let Some(node) = &self.retrying {
            let until = self.retry_at.or(self.wake_at.filter(|_| !self.is_held));
            let is_later = until.is_some_and(|until| until > now);
            let wait = Wait { node_id: Some(node.clone()), until, ..plain(WaitReason::Retry) };
            return if is_later { Some(wait) } else { self.unheld(plain) };
        }
        match (self.is_held, is_due) {
            (true, _) => None,
            (false, true) => self.unheld(plain),
            (false, false) => Some(Wait { until: self.wake_at, ..plain(WaitReason::Timer) }),
        }
    }

    fn unheld(&self, plain: impl Fn(WaitReason) -> Wait) -> Option<Wait> {
        (!self.is_held).then(|| plain(WaitReason::NoFreePlace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn reason(status: RunStatus, rest: &Rest) -> Option<WaitReason> {
        rest.wait(status, at(5), at(10)).map(|wait| wait.reason)
    }

    #[test]
    fn why_a_run_waits_follows_from_where_it_stands() {
        let asked = |is_about_budget| {
            let (node, kind) = (NodeId::from("ask"), InterruptKind::Approval);
            let question =
                AskedQuestion { node, kind, since: at(3), expires_at: None, is_about_budget };
            Rest { asked: Some(question), ..Rest::default() }
        };
        let child = Some(WaitedChild { run: "run_2".into(), node: "call".into() });
        let (free, held) = (Rest::default(), Rest { is_held: true, ..Rest::default() });
        let later = Rest { wake_at: Some(at(60)), ..Rest::default() };
        let again = Rest { retrying: Some("ask".into()), ..later.clone() };
        let soon =
            Rest { retry_at: Some(at(12)), retrying: again.retrying.clone(), ..held.clone() };
        let now = Rest { retry_at: Some(at(9)), ..soon.clone() };
        for (status, rest, expected) in [
            (RunStatus::Completed, &later, None),
            (RunStatus::Paused, &held, Some(WaitReason::Paused)),
            (RunStatus::WaitingApproval, &asked(false), Some(WaitReason::Question)),
            (RunStatus::WaitingApproval, &asked(true), Some(WaitReason::Budget)),
            (RunStatus::WaitingExternal, &free, Some(WaitReason::Question)),
            (RunStatus::Pending, &free, Some(WaitReason::NoFreePlace)),
            (RunStatus::Pending, &held, None),
            (RunStatus::Running, &held, None),
            (RunStatus::Running, &free, Some(WaitReason::NoFreePlace)),
            (RunStatus::Running, &later, Some(WaitReason::Timer)),
            (RunStatus::Running, &Rest { child, ..held.clone() }, Some(WaitReason::Child)),
            (RunStatus::Running, &again, Some(WaitReason::Retry)),
            (RunStatus::Running, &soon, Some(WaitReason::Retry)),
            (RunStatus::Running, &now, None),
        ] {
            assert_eq!(reason(status, rest), expected, "{status:?} {rest:?}");
        }
        let wait = again.wait(RunStatus::Running, at(5), at(10)).unwrap();
        assert_eq!((wait.until, wait.since), (Some(at(60)), at(5)));
    }
}

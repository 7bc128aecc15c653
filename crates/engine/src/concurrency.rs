//! How many runs may be at work at once, by tenant, workflow and agent; and what those wait for that are over it.
//!
//! A run is at work while a host holds it. What counts is read from the claims in the database with every look at the
//! queue and kept nowhere else, so a crash leaves no place taken: a run whose host died keeps its place until another
//! host takes it over, and then it is that host's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use callboard_core::{Birth, Priority};
use callboard_protocol::{RunId, Tenant, Timestamp, WorkflowId};

use crate::engine::Engine;
use crate::wait::{Wait, WaitReason};

/// Parts the agents of a queue. No agent's name has it.
const BETWEEN: char = '\n';

/// Runs that the same limits count: of one tenant, one workflow and the same agents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue {
    pub tenant: Tenant,
    pub workflow: WorkflowId,
    /// As they are stored: in order, each on a line.
    pub agents: String,
}

impl Default for Queue {
    /// Before all others.
    fn default() -> Self {
        Self { tenant: "".into(), workflow: "".into(), agents: String::new() }
    }
}

impl Queue {
    pub fn of(birth: &Birth) -> Self {
        Self {
            tenant: birth.owner.tenant.clone(),
            workflow: birth.workflow_id.clone(),
            agents: Self::agents_of(birth),
        }
    }

    /// The agents of a run, as a queue names them.
    pub fn agents_of(birth: &Birth) -> String {
        birth.agent_ids().into_iter().collect::<Vec<_>>().join("\n")
    }

    fn each_agent(&self) -> impl Iterator<Item = &str> {
        self.agents.split(BETWEEN).filter(|agent| !agent.is_empty())
    }
}

/// What one tenant may have at work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ceilings {
    pub runs: Option<usize>,
    pub workflows: BTreeMap<String, usize>,
    pub agents: BTreeMap<String, usize>,
}

impl Ceilings {
    fn is_empty(&self) -> bool {
        self.runs.is_none() && self.workflows.is_empty() && self.agents.is_empty()
    }
}

/// The limits of a host: those of every tenant, and those of some instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Concurrency {
    pub every: Ceilings,
    pub tenants: BTreeMap<Tenant, Ceilings>,
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    Tenant(Tenant),
    Workflow(Tenant, String),
    Agent(Tenant, String),
}

/// One limit that holds for a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limit {
    counted: Counted,
    most: usize,
    /// The key of the file that sets it.
    name: String,
}

impl Concurrency {
    pub fn is_empty(&self) -> bool {
        self.every.is_empty() && self.tenants.values().all(Ceilings::is_empty)
    }

    /// Whether runs of this queue may have to wait for others like them.
    pub fn bounds(&self, queue: &Queue) -> bool {
        !self.is_empty() && !self.of(queue).is_empty()
    }

    /// What holds for a tenant, by the keys of the file.
    pub fn shown(&self, tenant: &Tenant) -> Vec<(String, usize)> {
        let own = self.tenants.get(tenant);
        let names = |of: fn(&Ceilings) -> &BTreeMap<String, usize>| -> BTreeSet<String> {
            own.into_iter().chain([&self.every]).flat_map(|it| of(it).keys().cloned()).collect()
        };
        let queue = |workflow: &str, agents: String| Queue {
            tenant: tenant.clone(),
            workflow: workflow.into(),
            agents,
        };
        let mut limits = self.of(&queue("", String::new()));
        for workflow in names(|it| &it.workflows) {
            limits.extend(self.of(&queue(&workflow, String::new())));
        }
        for agent in names(|it| &it.agents) {
            limits.extend(self.of(&queue("", agent)));
        }
        let shown = limits.into_iter().map(|limit| (limit.name, limit.most));
        shown.collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    fn of(&self, queue: &Queue) -> Vec<Limit> {
        let own = self.tenants.get(&queue.tenant);
        let tenant = || queue.tenant.clone();
        let name = |own: Option<()>, what: &str, every: &str| match own {
            Some(()) => format!("tenants.{}.concurrency.{what}", queue.tenant),
            None => format!("limits.concurrency.{every}"),
        };
        let mut limits = Vec::new();
        let runs = own.and_then(|own| own.runs);
        if let Some(most) = runs.or(self.every.runs) {
            let name = name(runs.map(drop), "runs", "tenant");
            limits.push(Limit { counted: Counted::Tenant(tenant()), most, name });
        }
        let workflow = queue.workflow.as_str();
        let theirs = own.and_then(|own| own.workflows.get(workflow));
        if let Some(most) = theirs.or(self.every.workflows.get(workflow)) {
            let what = format!("workflows.{workflow:?}");
            let name = name(theirs.map(drop), &what, &what);
            let counted = Counted::Workflow(tenant(), workflow.to_owned());
            limits.push(Limit { counted, most: *most, name });
        }
        for agent in queue.each_agent() {
            let theirs = own.and_then(|own| own.agents.get(agent));
            if let Some(most) = theirs.or(self.every.agents.get(agent)) {
                let what = format!("agents.{agent:?}");
                let name = name(theirs.map(drop), &what, &what);
                let counted = Counted::Agent(tenant(), agent.to_owned());
                limits.push(Limit { counted, most: *most, name });
            }
        }
        limits
    }
}

/// What is at work, counted as the limits ask for it, with what is taken while a look at the queue lasts.
#[derive(Debug, Clone, Default)]
pub struct AtWork {
    counts: BTreeMap<Counted, usize>,
    /// The limits of queues that were asked about.
    known: BTreeMap<Queue, Arc<[Limit]>>,
}

impl AtWork {
    /// From the runs that hosts hold, queue by queue.
    pub fn of(held: impl IntoIterator<Item = (Queue, usize)>) -> Self {
        let mut at_work = Self::default();
        for (queue, runs) in held {
            at_work.count(&queue, runs);
        }
        at_work
    }

    fn count(&mut self, queue: &Queue, runs: usize) {
        let tenant = || queue.tenant.clone();
        *self.counts.entry(Counted::Tenant(tenant())).or_default() += runs;
        let workflow = Counted::Workflow(tenant(), queue.workflow.to_string());
        *self.counts.entry(workflow).or_default() += runs;
        for agent in queue.each_agent() {
            *self.counts.entry(Counted::Agent(tenant(), agent.to_owned())).or_default() += runs;
        }
    }

    /// Notes that a run of this queue is taken.
    pub(crate) fn take(&mut self, queue: &Queue) {
        self.count(queue, 1);
    }

    fn limits(&mut self, queue: &Queue, concurrency: &Concurrency) -> Arc<[Limit]> {
        match self.known.get(queue) {
            Some(limits) => Arc::clone(limits),
            None => {
                let limits: Arc<[Limit]> = concurrency.of(queue).into();
                self.known.insert(queue.clone(), Arc::clone(&limits));
                limits
            }
        }
    }

    /// How many more runs of this queue may be taken, and the limit that is nearest.
    pub(crate) fn room(
        &mut self,
        queue: &Queue,
        concurrency: &Concurrency,
    ) -> Option<(usize, String)> {
        if concurrency.is_empty() {
            return None;
        }
        let limits = self.limits(queue, concurrency);
        let room = |limit: &Limit| {
            limit.most.saturating_sub(self.counts.get(&limit.counted).copied().unwrap_or(0))
        };
        let nearest = limits.iter().map(|limit| (room(limit), limit)).min_by_key(|(room, _)| *room);
        nearest.map(|(room, limit)| (room, limit.name.clone()))
    }
}

/// What a look at the queue left waiting, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// Queues whose limit is reached, each with the name of the limit.
    pub limits: BTreeMap<Queue, String>,
    /// The highest priority that a tenant's waiting runs have.
    pub ahead: BTreeMap<Tenant, i32>,
}

/// Where a run stands in the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueuePlace {
    pub queue: Queue,
    pub rank: i32,
}

/// The limit that each waits for, and since when.
type WaitingCalls = BTreeMap<u64, (String, Timestamp)>;

/// What this host knows of why runs wait beyond what their rows show: from its last look at the queue, and from the
/// calls that its runs make.
#[derive(Debug, Default)]
pub struct Waiting {
    limits: RwLock<Arc<Concurrency>>,
    held_back: RwLock<Arc<HeldBack>>,
    calls: RwLock<BTreeMap<RunId, WaitingCalls>>,
}

impl Waiting {
    pub fn limits(&self) -> Arc<Concurrency> {
        Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn looked(&self, held_back: HeldBack) {
        *self.held_back.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(held_back);
    }

    /// Notes that a call of a run waits for its provider; `number` tells several of one run apart.
    pub fn call_waits(&self, run: &RunId, number: u64, limit: &str, since: Timestamp) {
        let mut calls = self.calls.write().unwrap_or_else(PoisonError::into_inner);
        calls.entry(run.clone()).or_default().insert(number, (limit.to_owned(), since));
    }

    pub fn call_goes_on(&self, run: &RunId, number: u64) {
        let mut calls = self.calls.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = calls.get_mut(run) {
            waiting.remove(&number);
            if waiting.is_empty() {
                calls.remove(run);
            }
        }
    }

    /// How many calls wait for their providers, and since when the first of them.
    pub fn calls(&self) -> (u64, Option<Timestamp>) {
        let calls = self.calls.read().unwrap_or_else(PoisonError::into_inner);
        let each = calls.values().flat_map(BTreeMap::values);
        each.fold((0, None), |(count, first), (_, since)| {
            (count + 1, Some(first.map_or(*since, |first: Timestamp| first.min(*since))))
        })
    }

    /// The same wait, said more exactly where more is known.
    pub fn explain(
        &self,
        run: &RunId,
        is_held: bool,
        place: &QueuePlace,
        wait: Option<Wait>,
    ) -> Option<Wait> {
        if is_held && wait.is_none() {
            let calls = self.calls.read().unwrap_or_else(PoisonError::into_inner);
            let first = calls.get(run)?.values().min_by_key(|(_, since)| *since)?;
            let (limit, since) = first.clone();
            let wait = Wait::new(WaitReason::ProviderLimit, since);
            return Some(Wait { limit: Some(limit), ..wait });
        }
        let wait = wait?;
        if wait.reason != WaitReason::NoFreePlace {
            return Some(wait);
        }
        let (reason, limit) = self.reason(place);
        Some(Wait { reason, limit, ..wait })
    }

    /// Why a run waits that could go on.
    pub fn reason(&self, place: &QueuePlace) -> (WaitReason, Option<String>) {
        if place.rank >= Priority::AT_ONCE {
            return (WaitReason::NoFreePlace, None);
        }
        let held_back = Arc::clone(&self.held_back.read().unwrap_or_else(PoisonError::into_inner));
        match held_back.limits.get(&place.queue) {
            Some(limit) => (WaitReason::ConcurrencyLimit, Some(limit.clone())),
            None => match held_back.ahead.get(&place.queue.tenant) {
                Some(ahead) if *ahead > place.rank => (WaitReason::Priority, None),
                Some(_) | None => (WaitReason::NoFreePlace, None),
            },
        }
    }
}

impl Engine {
    /// From here on runs are taken up by these; those at work go on.
    pub fn set_concurrency(&self, limits: Concurrency) {
        let waiting = &self.inner.waiting;
        *waiting.limits.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits);
        self.inner.nudge.notify_one();
    }

    /// What is known of why runs wait.
    pub fn waiting(&self) -> &Arc<Waiting> {
        &self.inner.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(tenant: &str, workflow: &str, agents: &str) -> Queue {
        Queue { tenant: tenant.into(), workflow: workflow.into(), agents: agents.to_owned() }
    }

    fn limits() -> Concurrency {
        let every = Ceilings {
            runs: Some(4),
            workflows: BTreeMap::from([("slow".to_owned(), 1)]),
            agents: BTreeMap::from([("acme.coder".to_owned(), 2)]),
        };
        let rich = Ceilings { runs: Some(50), ..Ceilings::default() };
        Concurrency { every, tenants: BTreeMap::from([("rich".into(), rich)]) }
    }

    #[test]
    fn the_nearest_limit_counts_and_a_tenants_own_goes_first() {
        let coder = queue("acme", "quick", "acme.coder\nacme.tester");
        let held = [(queue("acme", "quick", ""), 1), (coder.clone(), 1)];
        let mut at_work = AtWork::of(held);
        let mut room = |queue: Queue| at_work.room(&queue, &limits());
        let named = |room, name: &str| Some((room, name.to_owned()));
        assert_eq!(room(coder), named(1, "limits.concurrency.agents.\"acme.coder\""));
        assert_eq!(room(queue("acme", "quick", "")), named(2, "limits.concurrency.tenant"));
        let slow = room(queue("acme", "slow", ""));
        assert_eq!(slow, named(1, "limits.concurrency.workflows.\"slow\""));
        assert_eq!(room(queue("rich", "q", "")), named(50, "tenants.rich.concurrency.runs"));
        assert_eq!(room(queue("other", "q", "")), named(4, "limits.concurrency.tenant"));
        let shown = limits().shown(&"rich".into());
        let shown: Vec<_> = shown.iter().map(|(name, most)| (name.as_str(), *most)).collect();
        assert_eq!(
            shown,
            [
                ("limits.concurrency.agents.\"acme.coder\"", 2),
                ("limits.concurrency.workflows.\"slow\"", 1),
                ("tenants.rich.concurrency.runs", 50),
            ]
        );
    }

    #[test]
    fn nothing_is_bounded_where_nothing_is_set() {
        let none = Concurrency::default();
        assert!(!none.bounds(&queue("acme", "quick", "a")));
        assert_eq!(AtWork::default().room(&queue("acme", "quick", "a"), &none), None);
        assert!(limits().bounds(&queue("anybody", "quick", "")));
    }

    #[test]
    fn what_is_known_of_a_wait_is_said() {
        let waiting = Waiting::default();
        let (blocked, free) = (queue("acme", "slow", ""), queue("acme", "quick", ""));
        waiting.looked(HeldBack {
            limits: BTreeMap::from([(blocked.clone(), "x".to_owned())]),
            ahead: BTreeMap::from([("acme".into(), Priority::High.rank())]),
        });
        let reason =
            |queue: &Queue, rank| waiting.reason(&QueuePlace { queue: queue.clone(), rank }).0;
        assert_eq!(reason(&blocked, 0), WaitReason::ConcurrencyLimit);
        assert_eq!(reason(&free, 0), WaitReason::Priority);
        assert_eq!(reason(&free, Priority::High.rank()), WaitReason::NoFreePlace);
        assert_eq!(reason(&blocked, Priority::AT_ONCE), WaitReason::NoFreePlace);
        let (run, since) = (RunId::from("r"), Timestamp::from_millis(5));
        waiting.call_waits(&run, 1, "providers.anthropic", since);
        let wait = waiting.explain(&run, true, &QueuePlace::default(), None).unwrap();
        assert_eq!((wait.reason, wait.since), (WaitReason::ProviderLimit, since));
        assert_eq!(waiting.calls(), (1, Some(since)));
        waiting.call_goes_on(&run, 1);
        assert_eq!(waiting.explain(&run, true, &QueuePlace::default(), None), None);
    }
}

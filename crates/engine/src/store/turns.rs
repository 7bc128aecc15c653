//! Whose turn it is where more runs are due than can be taken.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use callboard_core::Priority;
use callboard_protocol::{Tenant, Timestamp};

use super::ClaimRequest;
use crate::concurrency::{AtWork, HeldBack, Queue};

/// A run that is due, as far as it matters for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRun {
    pub queue: Queue,
    pub rank: i32,
    pub wake_at: Timestamp,
    /// Its holder was lost: it has a place already, which is taken over.
    pub has_place: bool,
}

/// Chooses among due runs: whose tenant would hold the fewest has its turn first, and nobody gets more than the request's
/// share, so a tenant with many runs keeps no other waiting, also where places become free one by one. Within a tenant
/// the higher priority goes first, then what is longest overdue. Runs over a limit are passed over.
#[derive(Debug)]
pub struct Turns<'r, T> {
    request: &'r ClaimRequest,
    at_work: AtWork,
    tenants: BTreeMap<Tenant, Vec<(DueRun, usize, T)>>,
    held_back: HeldBack,
    /// Every queue that was asked about or offered.
    queues: BTreeSet<Queue>,
    last: Option<Queue>,
    count: usize,
}

/// What is taken, and what waits.
#[derive(Debug)]
pub struct Chosen<T> {
    pub runs: Vec<(Tenant, T)>,
    /// Whether others are due.
    pub has_more: bool,
    pub held_back: HeldBack,
}

impl<'r, T> Turns<'r, T> {
    /// So many due runs are looked at where many tenants, workflows and agents have some.
    pub const MOST_LOOKED_AT: usize = 65_536;

    /// `at_work` is not looked at where there are no limits.
    pub fn new(request: &'r ClaimRequest, at_work: AtWork) -> Self {
        let (tenants, held_back) = (BTreeMap::new(), HeldBack::default());
        let (queues, last, count) = (BTreeSet::new(), None, 0);
        Self { request, at_work, tenants, held_back, queues, last, count }
    }

    /// How many runs of such a queue are worth looking at.
    pub fn room(&mut self, queue: &Queue, rank: i32) -> usize {
        let most = self.request.most;
        let held = self.request.held.get(&queue.tenant).copied().unwrap_or_default();
        let share = self.request.share.saturating_sub(held).min(most);
        if share == 0 {
            self.waits(&queue.tenant, rank);
        }
        if rank >= Priority::AT_ONCE {
            return share;
        }
        self.queues.insert(queue.clone());
        match self.at_work.room(queue, &self.request.limits) {
            Some((room, _)) => room.min(share),
            None => share,
        }
    }

    /// Takes note of a due run.
    pub fn offer(&mut self, due: DueRun, run: T) {
        let place = self.count;
        self.count += 1;
        if self.last.as_ref() != Some(&due.queue) {
            self.queues.insert(due.queue.clone());
            self.last = Some(due.queue.clone());
        }
        match self.tenants.get_mut(&due.queue.tenant) {
            Some(runs) => runs.push((due, place, run)),
            None => drop(self.tenants.insert(due.queue.tenant.clone(), vec![(due, place, run)])),
        }
    }

    fn waits(&mut self, tenant: &Tenant, rank: i32) {
        let ahead = self.held_back.ahead.entry(tenant.clone()).or_insert(rank);
        *ahead = rank.max(*ahead);
    }

    /// Those whose turn it is.
    pub fn chosen(mut self) -> Chosen<T> {
        let mut lines: BTreeMap<Tenant, VecDeque<(DueRun, usize, T)>> = BTreeMap::new();
        let mut turns = BinaryHeap::new();
        for (tenant, mut runs) in std::mem::take(&mut self.tenants) {
            runs.sort_by_key(|(due, place, _)| (Reverse(due.rank), due.wake_at, *place));
            let held = self.request.held.get(&tenant).copied().unwrap_or_default();
            let first = runs.first().map(|(due, place, _)| (due.wake_at, *place));
            turns.push(Reverse((held, first, tenant.clone())));
            lines.insert(tenant, runs.into());
        }
        let mut chosen = Vec::new();
        while let Some(Reverse((held, _, tenant))) = turns.pop() {
            let Some(mut line) = lines.remove(&tenant) else { continue };
            let is_full = chosen.len() >= self.request.most || held >= self.request.share;
            let next = if is_full { None } else { self.next(&mut line) };
            match next {
                Some(run) => {
                    chosen.push((tenant.clone(), run));
                    let first = line.front().map(|(due, place, _)| (due.wake_at, *place));
                    turns.push(Reverse((held + 1, first, tenant.clone())));
                    lines.insert(tenant, line);
                }
                None => {
                    let first = line.iter().find(|(due, ..)| self.may_start(due));
                    if let Some(rank) = first.map(|(due, ..)| due.rank) {
                        self.waits(&tenant, rank);
                    }
                }
            }
        }
        for queue in std::mem::take(&mut self.queues) {
            if let Some((0, name)) = self.at_work.room(&queue, &self.request.limits) {
                self.held_back.limits.insert(queue, name);
            }
        }
        let has_more = self.count > chosen.len();
        Chosen { runs: chosen, has_more, held_back: self.held_back }
    }

    /// The next that no limit keeps. What is passed over once stays so: nothing is given back meanwhile.
    fn next(&mut self, line: &mut VecDeque<(DueRun, usize, T)>) -> Option<T> {
        while let Some((due, _, run)) = line.pop_front() {
            if self.may_start(&due) {
                if !due.has_place {
                    self.at_work.take(&due.queue);
                }
                return Some(run);
            }
        }
        None
    }

    fn may_start(&mut self, due: &DueRun) -> bool {
        if due.has_place || due.rank >= Priority::AT_ONCE {
            return true;
        }
        self.at_work.room(&due.queue, &self.request.limits).is_none_or(|(room, _)| room > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::concurrency::{Ceilings, Concurrency};

    /// A line of runs, each named by its tenant's letter; those in capitals have a high priority. The
    /// number behind names the workflow.
    fn choose(
        line: &[&'static str],
        (most, share): (usize, usize),
        held: &[(&str, usize)],
        limits: Concurrency,
        at_work: &[(&str, usize)],
    ) -> Chosen<&'static str> {
        let held = held.iter().map(|(tenant, runs)| ((*tenant).into(), *runs)).collect();
        let at = Timestamp::default();
        let (host, limits) = ("h".into(), Arc::new(limits));
        let request =
            ClaimRequest { host, at, lapsed_at: at, until: at, most, share, held, limits };
        let queue = |name: &str| {
            let (tenant, workflow) = name.split_at(1);
            let (tenant, agents) = (tenant.to_lowercase().as_str().into(), String::new());
            Queue { tenant, workflow: workflow.into(), agents }
        };
        let at_work = AtWork::of(at_work.iter().map(|(name, runs)| (queue(name), *runs)));
        let mut turns = Turns::new(&request, at_work);
        for name in line {
            let is_high = name.starts_with(char::is_uppercase);
            let rank = if is_high { Priority::High } else { Priority::Normal }.rank();
            let due = DueRun { queue: queue(name), rank, wake_at: at, has_place: false };
            turns.offer(due, *name);
        }
        turns.chosen()
    }

    /// What is taken without limits.
    fn taken(line: &str, most: usize, share: usize, held: &[(&str, usize)]) -> (String, bool) {
        let line: Vec<&'static str> = line
            .chars()
            .map(|run| match run {
                'a' => "a",
                'A' => "A",
                'b' => "b",
                _ => "c",
            })
            .collect();
        let chosen = choose(&line, (most, share), held, Concurrency::default(), &[]);
        (chosen.runs.iter().map(|(_, run)| *run).collect(), chosen.has_more)
    }

    #[test]
    fn tenants_take_turns() {
        assert_eq!(taken("aaab", 9, 9, &[]), ("abaa".to_owned(), false));
        assert_eq!(taken("aaaab", 2, 9, &[]), ("ab".to_owned(), true));
        assert_eq!(taken("aab", 1, 9, &[]), ("a".to_owned(), true));
    }

    #[test]
    fn whoever_holds_fewest_is_next_and_nobody_gets_more_than_its_share() {
        assert_eq!(taken("aaab", 1, 9, &[("a", 2)]), ("b".to_owned(), true));
        assert_eq!(taken("aaab", 9, 3, &[("a", 2)]), ("ba".to_owned(), true));
        assert_eq!(taken("aaa", 9, 3, &[("a", 3)]), (String::new(), true));
    }

    #[test]
    fn a_priority_is_among_the_runs_of_one_tenant() {
        assert_eq!(taken("aaAb", 9, 9, &[]), ("Abaa".to_owned(), false));
        let chosen = choose(&["a", "b", "A"], (2, 9), &[], Concurrency::default(), &[]);
        let runs: Vec<_> = chosen.runs.iter().map(|(_, run)| *run).collect();
        assert_eq!(runs, ["b", "A"], "whose first is overdue longest has its turn first");
        assert_eq!(chosen.held_back.ahead.get(&"a".into()), Some(&0));
    }

    #[test]
    fn what_is_over_a_limit_lets_others_of_its_tenant_pass() {
        let every =
            Ceilings { workflows: BTreeMap::from([("1".to_owned(), 2)]), ..Ceilings::default() };
        let limits = Concurrency { every, tenants: BTreeMap::new() };
        let line = ["a1", "a1", "a1", "a2", "b1"];
        let chosen = choose(&line, (9, 9), &[], limits.clone(), &[("a1", 1)]);
        let runs: Vec<_> = chosen.runs.iter().map(|(_, run)| *run).collect();
        assert_eq!((runs, chosen.has_more), (vec!["a1", "b1", "a2"], true));
        let held_back: Vec<_> = chosen.held_back.limits.into_iter().collect();
        let queue = Queue { tenant: "a".into(), workflow: "1".into(), agents: String::new() };
        assert_eq!(held_back, [(queue, "limits.concurrency.workflows.\"1\"".to_owned())]);
        assert!(choose(&["a1"], (9, 9), &[], limits, &[("a1", 2)]).runs.is_empty());
    }
}

//! How many runs may be started in a minute: by a tenant, by a key, of a workflow, of an agent.
//!
//! Each process counts for itself. What the host starts by itself, schedules and triggers, is not counted: a refusal
//! would lose it, and a limit of runs at work holds for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use callboard_engine::Target;
use callboard_protocol::{KeyId, Tenant, Timestamp};

use crate::keys::Caller;
use crate::problem::{Code, Problem};

const MINUTE_MS: i64 = 60_000;
/// With more, those that are full again are forgotten.
const MOST_KNOWN: usize = 65_536;

/// What one tenant may start in a minute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartsAMinute {
    pub runs: Option<u32>,
    /// Each of its keys.
    pub key: Option<u32>,
    pub workflows: BTreeMap<String, u32>,
    pub agents: BTreeMap<String, u32>,
}

/// The limits of a host: those of every tenant, and those of some instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartLimits {
    pub every: StartsAMinute,
    pub tenants: BTreeMap<Tenant, StartsAMinute>,
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Counted {
    Tenant(Tenant),
    Key(KeyId),
    Workflow(Tenant, String),
    Agent(Tenant, String),
}

/// Counts the runs that callers start.
#[derive(Debug, Default)]
pub struct Starts {
    limits: RwLock<Arc<StartLimits>>,
    /// When each will have regained all that was taken.
    full_at: Mutex<HashMap<Counted, i64>>,
}

/// One limit that holds for a start.
struct Limit {
    counted: Counted,
    a_minute: u32,
    name: String,
    scope: &'static str,
}

impl StartLimits {
    fn of(&self, tenant: &Tenant, key: &KeyId, target: Option<&Target>) -> Vec<Limit> {
        let own = self.tenants.get(tenant);
        let mut limits = Vec::new();
        let mut add = |counted, (theirs, every): (Option<u32>, Option<u32>), what: &str, scope| {
            let (a_minute, name) = match (theirs, every) {
                (Some(most), _) => (most, format!("tenants.{tenant}.runs_per_minute.{what}")),
                (None, Some(most)) => (most, format!("limits.runs_per_minute.{what}")),
                (None, None) => return,
            };
            limits.push(Limit { counted, a_minute, name, scope });
        };
        let runs = (own.and_then(|own| own.runs), self.every.runs);
        add(Counted::Tenant(tenant.clone()), runs, "tenant", "tenant");
        let keys = (own.and_then(|own| own.key), self.every.key);
        add(Counted::Key(key.clone()), keys, "key", "key");
        let (mut workflow, mut agent) = (None, None);
        match target {
            Some(Target::Workflow(id)) => workflow = Some(id.to_string()),
            Some(Target::Agent(id) | Target::Mentioned(id) | Target::Node(id)) => {
                agent = Some(id.clone());
            }
            None => {}
        }
        if let Some(id) = workflow {
            let theirs = own.and_then(|own| own.workflows.get(&id).copied());
            let every = self.every.workflows.get(&id).copied();
            let what = format!("workflows.{id:?}");
            add(Counted::Workflow(tenant.clone(), id), (theirs, every), &what, "workflow");
        }
        if let Some(id) = agent {
            let theirs = own.and_then(|own| own.agents.get(&id).copied());
            let every = self.every.agents.get(&id).copied();
            let what = format!("agents.{id:?}");
            add(Counted::Agent(tenant.clone(), id), (theirs, every), &what, "agent");
        }
        limits
    }
}

impl Starts {
    /// From here on starts are judged by these.
    pub fn set(&self, limits: StartLimits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits);
    }

    /// What holds for a tenant, by the keys of the file.
    pub(crate) fn shown(&self, tenant: &Tenant) -> Vec<(String, u32)> {
        let limits = Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner));
        let own = limits.tenants.get(tenant);
        let each = || own.into_iter().chain([&limits.every]);
        let workflows = each().flat_map(|it| it.workflows.keys());
        let agents = each().flat_map(|it| it.agents.keys());
        let workflows = workflows.map(|id| Target::Workflow(id.as_str().into()));
        let targets = workflows.chain(agents.map(|id| Target::Agent(id.clone()))).map(Some);
        let found = targets
            .chain([None])
            .flat_map(|target| limits.of(tenant, &KeyId::from(String::new()), target.as_ref()));
        let shown = found.map(|limit| (limit.name, limit.a_minute));
        shown.collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    /// Counts a run that this caller starts, or says when it may.
    pub(crate) fn admit(
        &self,
        caller: &Caller,
        target: Option<&Target>,
        now: Timestamp,
    ) -> Result<(), Problem> {
        self.count(&caller.scope.tenant, &caller.key_id, target, now)
    }

    fn count(
        &self,
        tenant: &Tenant,
        key: &KeyId,
        target: Option<&Target>,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let limits = Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner));
        let limits = limits.of(tenant, key, target);
        if limits.is_empty() {
            return Ok(());
        }
        let now = now.as_millis();
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if full_at.len() > MOST_KNOWN {
            full_at.retain(|_, at| *at > now);
        }
        let each = |limit: &Limit| MINUTE_MS / i64::from(limit.a_minute.max(1));
        let next = |limit: &Limit| {
            full_at.get(&limit.counted).copied().unwrap_or(now).max(now) + each(limit)
        };
        let wait = |limit: &Limit| next(limit) - now - MINUTE_MS;
        if let Some(limit) = limits.iter().max_by_key(|limit| wait(limit)).filter(|it| wait(it) > 0)
        {
            return Err(too_many(limit, u64::try_from(wait(limit)).unwrap_or(1)));
        }
        let taken: Vec<i64> = limits.iter().map(next).collect();
        full_at.extend(limits.into_iter().map(|limit| limit.counted).zip(taken));
        Ok(())
    }
}

fn too_many(limit: &Limit, wait_ms: u64) -> Problem {
    let message = format!("as many runs were started as may be in a minute ({})", limit.name);
    let mut problem = Problem::new(Code::RateLimited, message)
        .with("retryAfterMs", wait_ms)
        .with("scope", limit.scope)
        .with("limit", limit.a_minute);
    // Whole seconds, rounded up, so that coming back then is never too early.
    problem.retry_after = Some(wait_ms.div_ceil(1000));
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> StartLimits {
        let every = StartsAMinute {
            runs: Some(3),
            key: Some(2),
            workflows: BTreeMap::from([("slow".to_owned(), 1)]),
            agents: BTreeMap::new(),
        };
        let own = StartsAMinute { key: Some(100), runs: Some(100), ..StartsAMinute::default() };
        StartLimits { every, tenants: BTreeMap::from([("rich".into(), own)]) }
    }

    #[test]
    fn whichever_limit_is_reached_refuses_and_counts_nothing() {
        let starts = Starts::default();
        starts.set(limits());
        let start = |tenant: &str, key: &str, workflow: &str, at: i64| {
            let target = Target::Workflow(workflow.into());
            let now = Timestamp::from_millis(at);
            let counted = starts.count(&tenant.into(), &key.into(), Some(&target), now);
            counted.map_err(|problem| (problem.details["scope"].clone(), problem.retry_after))
        };
        assert_eq!(start("acme", "k1", "slow", 0), Ok(()));
        let refused = start("acme", "k1", "slow", 1_000).unwrap_err();
        assert_eq!(refused, ("workflow".into(), Some(59)));
        assert_eq!(start("acme", "k1", "quick", 1_000), Ok(()));
        assert_eq!(start("acme", "k1", "quick", 1_000).unwrap_err().0, "key");
        assert_eq!(start("acme", "k2", "quick", 1_000), Ok(()));
        assert_eq!(start("acme", "k2", "quick", 1_000).unwrap_err().0, "tenant");
        assert_eq!(start("other", "k3", "quick", 1_000), Ok(()));
        assert_eq!(start("acme", "k2", "quick", 22_000), Ok(()), "a third of a minute later");
        for _ in 0..50 {
            assert_eq!(start("rich", "k4", "quick", 1_000), Ok(()));
        }
    }
}

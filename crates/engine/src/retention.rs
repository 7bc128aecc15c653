//! How long ended runs are kept, by rules of which the first that fits decides: the loop that removes those whose time
//! is over.

use std::sync::Arc;
use std::time::Duration;

use callboard_protocol::{RunStatus, Tenant, Timestamp, WorkflowId};

use crate::engine::Engine;
use crate::store::{Store, StoreError};
use crate::webhooks::Webhooks;

/// Runs that go in one commit. Their logs may be long, and other writes wait for them.
const BATCH: usize = 16;
/// Nobody waits for it.
const EVERY: Duration = Duration::from_secs(60);

/// Nothing goes before this: whatever is sent twice within a day finds what it came to, and the protocol asks a
/// host in production for a week.
const SHORTEST: Duration = Duration::from_secs(7 * 86_400);

/// Which ended runs a rule is about. What is not said fits every run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndedRuns {
    pub tenant: Option<Tenant>,
    pub workflow: Option<WorkflowId>,
    /// An agent that the run asked.
    pub agent: Option<String>,
    pub status: Option<RunStatus>,
}

/// Ended runs that may go, for all that their age and a rule say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removable {
    /// They have not moved since.
    pub before: Timestamp,
    pub of: EndedRuns,
    /// The runs of earlier rules, which are none of these.
    pub except: Vec<EndedRuns>,
}

impl Removable {
    /// Of every sort.
    pub fn before(before: Timestamp) -> Self {
        Self { before, of: EndedRuns::default(), except: Vec::new() }
    }
}

/// How many runs may go, and what of them can be counted: the text of logs and births.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemovableCount {
    pub runs: u64,
    pub bytes: u64,
}

/// How long the runs that fit are kept after their end; none for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionRule {
    pub of: EndedRuns,
    pub keep: Option<Duration>,
}

/// Rules, of which the first that fits a run decides. A run that none fits is kept for ever, and so is one that
/// somebody keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionPolicy(pub Vec<RetentionRule>);

impl RetentionPolicy {
    /// Whether any run goes by these rules.
    pub fn removes(&self) -> bool {
        self.0.iter().any(|rule| rule.keep.is_some())
    }

    /// What may go then, with the place of the rule that says so. No run is in two of them.
    pub fn removable(&self, now: Timestamp) -> Vec<(usize, Removable)> {
        let removable = |(place, rule): (usize, &RetentionRule)| {
            let keep = i64::try_from(rule.keep?.max(SHORTEST).as_millis()).unwrap_or(i64::MAX);
            let before = Timestamp::from_millis(now.as_millis().saturating_sub(keep));
            let except = self.0[..place].iter().map(|earlier| earlier.of.clone()).collect();
            Some((place, Removable { before, of: rule.of.clone(), except }))
        };
        self.0.iter().enumerate().filter_map(removable).collect()
    }
}

/// Removes runs that ended long enough ago. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sweeper {
    engine: Engine,
    webhooks: Webhooks,
    policy: RetentionPolicy,
}

impl Sweeper {
    /// See [`RetentionPolicy`]: a shorter time is this one.
    pub const SHORTEST: Duration = SHORTEST;

    /// Runs on the engine's clock and tasks, and stops with it.
    pub fn new(engine: Engine, policy: RetentionPolicy) -> Self {
        let webhooks = Webhooks::new(Arc::clone(&engine.inner.store));
        Self { engine, webhooks, policy }
    }

    pub fn start(&self) {
        self.engine.inner.tasks.spawn(self.clone().sweep_until_stopped());
    }

    /// Removes what is too old then, batch by batch; answers how many runs that were.
    pub async fn tick(&self, now: Timestamp) -> Result<usize, StoreError> {
        let is_stopped = || self.engine.inner.stop.is_cancelled();
        let mut gone = 0;
        for (_, removable) in self.policy.removable(now) {
            let store = self.engine.inner.store.as_ref();
            gone += remove(store, &self.webhooks, &removable, is_stopped).await?;
        }
        Ok(gone)
    }

    /// Sleeps and ticks until stopped. Holds no state worth testing.
    async fn sweep_until_stopped(self) {
        let inner = &self.engine.inner;
        loop {
            let now = inner.clock.now();
            // Losing either branch is fine: the next tick reads the truth.
            tokio::select! {
                () = inner.clock.sleep_until(now.plus(EVERY)) => {}
                () = inner.stop.cancelled() => return,
            }
            match self.tick(inner.clock.now()).await {
                Ok(0) => {}
                Ok(gone) => tracing::info!(runs = gone, "ended runs removed"),
                Err(error) => tracing::warn!(%error, "ended runs not removed; trying again"),
            }
        }
    }
}

/// Removes all of these, batch by batch; answers how many runs that were.
pub async fn remove(
    store: &dyn Store,
    webhooks: &Webhooks,
    removable: &Removable,
    is_stopped: impl Fn() -> bool,
) -> Result<usize, StoreError> {
    let mut gone = 0;
    loop {
        let planned = webhooks.planned_until().await?;
        let removed = store.remove_ended(removable, planned, BATCH).await?;
        gone += removed.len();
        if removed.len() < BATCH || is_stopped() {
            return Ok(gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides_and_nothing_goes_within_a_week() {
        const DAY: u64 = 86_400;
        let of = |tenant: &str| EndedRuns { tenant: Some(tenant.into()), ..EndedRuns::default() };
        let days = |days: u64| Some(Duration::from_secs(days * DAY));
        let policy = RetentionPolicy(vec![
            RetentionRule { of: of("law"), keep: None },
            RetentionRule { of: of("acme"), keep: days(30) },
            RetentionRule { of: EndedRuns::default(), keep: days(1) },
        ]);
        let now = Timestamp::from_millis(100 * DAY.cast_signed() * 1_000);
        let before =
            |days: u64| Timestamp::from_millis(days.cast_signed() * DAY.cast_signed() * 1_000);
        let removable = policy.removable(now);
        let expected = [
            (1, Removable { before: before(70), of: of("acme"), except: vec![of("law")] }),
            (
                2,
                Removable {
                    before: before(93),
                    of: EndedRuns::default(),
                    except: vec![of("law"), of("acme")],
                },
            ),
        ];
        assert_eq!(removable, expected);
        assert!(policy.removes() && !RetentionPolicy::default().removes());
    }
}

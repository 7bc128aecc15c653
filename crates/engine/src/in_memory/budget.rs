//! Accounts of days, in memory: counted anew from the logs on every look.

use async_trait::async_trait;

use callboard_core::{Birth, day_of};
use callboard_protocol::{
    Amount, BudgetDimension, EffectiveBudget, NodeId, ProviderUsage, RunId, RunStatus, Timestamp,
};

use super::{InMemoryStore, StoredRun};
use crate::budget::{Budgets, Purse, call_over};
use crate::roster::{Spent, USAGE};
use crate::store::{Claim, Scope, StoreError};

/// What a call under way may use, in the order in which it was set aside.
pub(super) struct SetAside {
    run: RunId,
    node: NodeId,
    epoch: u64,
    /// How many rows the run's log had.
    since: usize,
    day: i64,
    estimate: Spent,
}

impl SetAside {
    fn counts(&self, run: &StoredRun) -> bool {
        let status = run.head.status;
        let mut later = run.rows.iter().skip(self.since);
        run.epoch == self.epoch
            && !status.is_terminal()
            && status != RunStatus::Paused
            && !later.any(|row| call_over(row) == Some(&self.node))
    }
}

fn is_paid_by(purse: &Purse, birth: &Birth) -> bool {
    let scope = Scope { tenant: purse.tenant.clone(), workspace: None, mode: purse.mode };
    let is_theirs = purse.member.is_none() || purse.member == birth.charged_to;
    scope.sees(birth) && is_theirs && !birth.is_replay()
}

#[async_trait]
impl Budgets for InMemoryStore {
    async fn spent_on(&self, purse: &Purse, day: i64) -> Result<Spent, StoreError> {
        let tables = self.tables();
        let runs = tables.runs.values().filter(|run| is_paid_by(purse, &run.birth));
        let mut spent = Spent::default();
        for run in runs {
            // What a branch has of its source's history, its source has paid for.
            let own = run.birth.fork.as_ref().map_or(0, |fork| fork.from);
            let rows = run.rows.iter().skip(usize::try_from(own).unwrap_or(usize::MAX));
            for row in rows.filter(|row| row.kind == USAGE && day_of(row.at) == day) {
                let told: Result<ProviderUsage, _> = serde_json::from_str(&row.payload);
                spent.add(told.map(|told| Spent::of(&told)).unwrap_or_default());
            }
        }
        Ok(spent)
    }

    async fn set_aside(
        &self,
        claim: &Claim,
        node: &NodeId,
        day: i64,
        estimate: Spent,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let since = tables.runs.get(&claim.run).map_or(0, |run| run.rows.len());
        let (run, node, epoch) = (claim.run.clone(), node.clone(), claim.epoch);
        tables.aside.retain(|known| known.run != run || known.node != node);
        tables.aside.push(SetAside { run, node, epoch, since, day, estimate });
        Ok(())
    }

    async fn set_aside_before(
        &self,
        purse: &Purse,
        day: i64,
        run: &RunId,
        node: &NodeId,
    ) -> Result<Spent, StoreError> {
        let tables = self.tables();
        let is_own = |known: &&SetAside| known.run == *run && known.node == *node;
        let before = tables.aside.iter().take_while(|known| !is_own(known));
        let mut sum = Spent::default();
        for known in before.filter(|known| known.day == day) {
            let Some(run) = tables.runs.get(&known.run) else { continue };
            if is_paid_by(purse, &run.birth) && known.counts(run) {
                sum.add(known.estimate);
            }
        }
        Ok(sum)
    }

    async fn raised_on(&self, purse: &Purse, day: i64) -> Result<EffectiveBudget, StoreError> {
        Ok(self.tables().raised.get(&(purse.clone(), day)).copied().unwrap_or_default())
    }

    async fn raise(
        &self,
        purse: &Purse,
        day: i64,
        dimension: BudgetDimension,
        limit: Amount,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let raised = tables.raised.entry((purse.clone(), day)).or_default();
        if raised.limit(dimension).is_none_or(|known| known < limit) {
            *raised = raised.with(dimension, limit);
        }
        Ok(())
    }

    async fn allowance(&self, purse: &Purse) -> Result<Option<EffectiveBudget>, StoreError> {
        Ok(self.tables().allowances.get(purse).copied())
    }

    async fn allow(
        &self,
        purse: &Purse,
        allowance: Option<EffectiveBudget>,
        _at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let scope = Scope { tenant: purse.tenant.clone(), workspace: None, mode: purse.mode };
        let place = purse.member.as_ref().and_then(|member| tables.place_of(&scope, member));
        match allowance.filter(|_| place.is_some()) {
            Some(allowance) => tables.allowances.insert(purse.clone(), allowance),
            None => tables.allowances.remove(purse),
        };
        Ok(())
    }
}

//! Accounts of days, in memory: counted anew from the logs on every look.

use async_trait::async_trait;

use callboard_core::day_of;
use callboard_protocol::{
    Amount, BudgetDimension, EffectiveBudget, ProviderUsage, RosterId, Tenant, Timestamp,
};

use super::InMemoryStore;
use crate::budget::{Budgets, Purse};
use crate::roster::{Spent, USAGE};
use crate::store::{Scope, StoreError};

#[async_trait]
impl Budgets for InMemoryStore {
    async fn spent_on(&self, purse: &Purse, day: i64) -> Result<Spent, StoreError> {
        let scope = Scope { tenant: purse.tenant.clone(), workspace: None, mode: purse.mode };
        let tables = self.tables();
        let runs = tables.runs.values().filter(|run| {
            let is_theirs = purse.member.is_none() || purse.member == run.birth.charged_to;
            scope.sees(&run.birth) && is_theirs && !run.birth.is_replay()
        });
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

    async fn allowance(
        &self,
        tenant: &Tenant,
        member: &RosterId,
    ) -> Result<Option<EffectiveBudget>, StoreError> {
        Ok(self.tables().allowances.get(&(tenant.clone(), member.clone())).copied())
    }

    async fn allow(
        &self,
        tenant: &Tenant,
        member: &RosterId,
        allowance: Option<EffectiveBudget>,
        _at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let key = (tenant.clone(), member.clone());
        match allowance.filter(|_| tables.place_of(tenant, member).is_some()) {
            Some(allowance) => tables.allowances.insert(key, allowance),
            None => tables.allowances.remove(&key),
        };
        Ok(())
    }
}

//! What members and tenants may use by the day: their accounts, with the question before each call.
//!
//! What a day has used is counted in the transaction that records the usage, so a crash neither loses nor doubles it.
//! What is under way is reserved before it is asked whether anything is left. Each call counts what was reserved before
//! it, and waits where its own estimate does not fit behind that: of calls that are made at once one may go past a
//! ceiling, the first, and the others only by what their estimates were wrong by.

mod accounts;

use std::time::Duration;

use callboard_core::{Birth, Fact, HostLimits, Overdrawn, RetryClass, Ruling, day_of};
use callboard_protocol::{
    Amount, BudgetDimension, BudgetScope, EffectiveBudget, Failure, NodeId, RosterId, RunId,
};

use crate::activity::Call;
use crate::once::CallFailure;
use crate::roster::Spent;
use crate::store::{Claim, KeyMode, StoreError};

pub(crate) use accounts::accounted_of;
pub(crate) use accounts::daily_limit_key;
pub use accounts::{BudgetAccount, Budgets, accounted};

/// Between two looks at whether there is room: a call of a model takes longer.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// How a day of an account stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DayAccount {
    pub day: i64,
    /// The ceilings in force, as people have raised them.
    pub limits: EffectiveBudget,
    pub spent: Spent,
}

impl DayAccount {
    /// The day of an account whose ceilings are `usual` unless somebody raised them for it.
    pub async fn read(
        budgets: &Budgets,
        account: &BudgetAccount,
        usual: EffectiveBudget,
        day: i64,
    ) -> Result<Self, StoreError> {
        let spent = budgets.spent_on(account, day).await?;
        let raised = budgets.granted_on(account, day).await?;
        let limits = EffectiveBudget {
            max_tokens: usual.max_tokens.map(|usual| raised.max_tokens.unwrap_or(usual).max(usual)),
            max_cost_usd: usual
                .max_cost_usd
                .map(|usual| raised.max_cost_usd.unwrap_or(usual).max(usual)),
            ..EffectiveBudget::default()
        };
        Ok(Self { day, limits, spent })
    }

    /// Whether a call may be made beside others. One that is alone may be too long: nobody knows before.
    fn has_room(&self, others: Spent, estimate: Spent) -> bool {
        if others == Spent::default() {
            return true;
        }
        let mut all = self.spent;
        all.add(others);
        all.add(estimate);
        let fits = |limit: Option<Amount>, used: Amount| limit.is_none_or(|limit| used <= limit);
        fits(self.limits.limit(BudgetDimension::Tokens), all.tokens().into())
            && fits(self.limits.limit(BudgetDimension::Cost), all.cost_usd.into())
    }

    /// The ceiling that is reached.
    fn over(&self, payer: &BudgetAccount) -> Option<Overdrawn> {
        let used = [
            (BudgetDimension::Tokens, Amount::from(self.spent.tokens())),
            (BudgetDimension::Cost, Amount::from(self.spent.cost_usd)),
        ];
        used.into_iter().find_map(|(dimension, consumed)| {
            let limit = self.limits.limit(dimension).filter(|limit| consumed >= *limit)?;
            Some(Overdrawn {
                scope: match payer.member {
                    Some(_) => BudgetScope::Agent,
                    None => BudgetScope::Project,
                },
                dimension,
                consumed,
                limit,
                member: payer.member.clone(),
                day: Some(self.day),
            })
        })
    }
}

/// Those who pay for a run, with the way to their accounts.
#[derive(Debug)]
pub(crate) struct Payers {
    tenant: BudgetAccount,
    member: Option<RosterId>,
    host: HostLimits,
    accounts: Budgets,
}

impl Payers {
    pub(crate) fn of(birth: &Birth, host: &HostLimits, accounts: Budgets) -> Self {
        let tenant = BudgetAccount {
            tenant: birth.owner.tenant.clone(),
            mode: KeyMode::of(birth.test),
            member: None,
        };
        Self { tenant, member: birth.charged_to.clone(), host: *host, accounts }
    }

    fn members_account(&self) -> BudgetAccount {
        BudgetAccount { member: self.member.clone(), ..self.tenant.clone() }
    }

    /// What a member may use in a day.
    async fn daily_limit(&self, member: &RosterId) -> Result<EffectiveBudget, StoreError> {
        let own = self.accounts.daily_limit(&self.tenant.realm(), member).await?;
        Ok(own.unwrap_or(self.host.member_day))
    }

    /// Those who have a ceiling, the member before the tenant.
    async fn bounded(&self) -> Result<Vec<(BudgetAccount, EffectiveBudget)>, StoreError> {
        let mut all = Vec::new();
        if let Some(member) = &self.member {
            all.push((self.members_account(), self.daily_limit(member).await?));
        }
        all.push((self.tenant.clone(), self.host.tenant_day));
        all.retain(|(_, usual)| !usual.is_unbounded());
        Ok(all)
    }

    /// Reserves what a call may use, for the member that pays, or for the tenant.
    async fn reserve(
        &self,
        claim: &Claim,
        node: &NodeId,
        day: i64,
        estimate: Spent,
    ) -> Result<(), StoreError> {
        let payer = self.members_account();
        self.accounts.reserve(&payer, claim, node, day, estimate).await
    }

    /// Whether a call for which something was reserved may be made now.
    async fn clear(
        &self,
        bounded: &[(BudgetAccount, EffectiveBudget)],
        reserved: &Reserved<'_>,
    ) -> Result<Clearance, StoreError> {
        let Reserved { run, node, day, estimate } = *reserved;
        let mut clearance = Clearance::Given;
        for (payer, usual) in bounded {
            // Before what was used: whatever is recorded in between then counts twice, and never not at all.
            let others = self.accounts.reserved_before(payer, day, run, node).await?;
            let account = DayAccount::read(&self.accounts, payer, *usual, day).await?;
            if let Some(over) = account.over(payer) {
                return Ok(Clearance::Over(over));
            }
            if !account.has_room(others, estimate) {
                clearance = Clearance::Later;
            }
        }
        Ok(clearance)
    }

    /// Whether an account that pays has a limit in money.
    async fn count_money(&self) -> Result<bool, Failure> {
        let mut is_counted = self.host.tenant_day.max_cost_usd.is_some();
        if let Some(member) = self.member.as_ref().filter(|_| !is_counted) {
            let usual = self.daily_limit(member).await;
            let usual = usual.map_err(|error| unaccounted(error).failure)?;
            is_counted = usual.max_cost_usd.is_some();
        }
        Ok(is_counted)
    }

    /// Carries out what a person decided about a day's ceiling.
    async fn settle(&self, ruling: &Ruling) -> Result<(), StoreError> {
        let (Some(day), Some(limit)) = (ruling.over.day, ruling.raised_to) else { return Ok(()) };
        let payer = BudgetAccount { member: ruling.over.member.clone(), ..self.tenant.clone() };
        self.accounts.grant_extra(&payer, day, ruling.over.dimension, limit).await
    }
}

/// A call for which something was reserved.
#[derive(Debug, Clone, Copy)]
struct Reserved<'a> {
    run: &'a RunId,
    node: &'a NodeId,
    day: i64,
    estimate: Spent,
}

enum Clearance {
    Given,
    /// What is under way may use up what is left.
    Later,
    Over(Overdrawn),
}

impl Call {
    /// Whether the budgets let this model be asked at all. What has no price cannot be held below a sum of money.
    pub async fn admits_model(
        &self,
        provider: &str,
        model: &str,
        is_priced: bool,
    ) -> Result<(), Failure> {
        let budget = self.budget.as_ref();
        if budget.is_some_and(|budget| !budget.admits_model(provider, model)) {
            let message = format!("the run's budget does not allow {provider}/{model}");
            return Err(Failure::new("budget_model_denied", message));
        }
        let is_bounded = budget.is_some_and(|budget| budget.limits.max_cost_usd.is_some());
        if !is_priced && (is_bounded || self.payers.count_money().await?) {
            let message =
                format!("nobody knows what {provider}/{model} costs, and money is bounded");
            return Err(Failure::new("budget_price_unknown", message));
        }
        Ok(())
    }

    /// Asks whether there is anything left to pay a model with, and waits while others may use it up. To be asked where
    /// the call is really made, not where a recorded one is gone through again. An error ends the attempt: the run has
    /// ended, or a person is asked.
    pub async fn clear_call(
        &self,
        estimate: impl FnOnce() -> Spent + Send,
    ) -> Result<(), CallFailure> {
        if let Some(ruling) = self.answer.as_ref().and_then(Ruling::of) {
            self.payers.settle(&ruling).await.map_err(unaccounted)?;
        }
        let over = self.wait_for_room(estimate).await.map_err(unaccounted)?;
        let fact = match over {
            Some(over) => Fact::Overdrawn(over),
            None if self.budget.is_some() => Fact::Calling,
            None => return Ok(()),
        };
        let goes_on = fact == Fact::Calling;
        match self.record(vec![fact]).await {
            Ok(()) if goes_on => Ok(()),
            Ok(()) | Err(_) => {
                Err(call_failure("budget_exhausted", "nothing is left to pay a model"))
            }
        }
    }

    /// The ceiling that is reached, if one is.
    async fn wait_for_room(
        &self,
        estimate: impl FnOnce() -> Spent + Send,
    ) -> Result<Option<Overdrawn>, StoreError> {
        let bounded = self.payers.bounded().await?;
        if bounded.is_empty() {
            return Ok(None);
        }
        let (node, day, estimate) = (&self.attempt.node, day_of(self.now()), estimate());
        self.payers.reserve(&self.claim, node, day, estimate).await?;
        let reserved = Reserved { run: &self.run, node, day, estimate };
        loop {
            match self.payers.clear(&bounded, &reserved).await? {
                Clearance::Given => return Ok(None),
                Clearance::Over(over) => return Ok(Some(over)),
                Clearance::Later => self.pause(BETWEEN_LOOKS).await,
            }
        }
    }
}

fn unaccounted(error: StoreError) -> CallFailure {
    tracing::warn!(%error, "budget not read");
    call_failure("service_unavailable", "the budget could not be read")
}

fn call_failure(code: &str, message: &str) -> CallFailure {
    CallFailure { failure: Failure::new(code, message), class: RetryClass::Retryable }
}

//! What members and tenants may use by the day: the port to their accounts, with the question before each call.
//!
//! What a day has used is counted in the transaction that records the usage, so a crash neither loses nor doubles it.
//! What is under way is not counted yet: as many calls as are made at once may go past a ceiling, each by itself.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use callboard_core::{Birth, Fact, HostLimits, Overdrawn, RetryClass, Ruling, day_of};
use callboard_protocol::{
    Amount, BudgetDimension, BudgetScope, EffectiveBudget, Failure, RosterId, Tenant, Timestamp,
};

use crate::activity::Call;
use crate::once::Stumble;
use crate::roster::{Roster, Spent};
use crate::store::{KeyMode, StoreError};

/// Who pays: a member of a tenant, or the tenant with all that it has. Test keys and live keys pay apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Purse {
    pub tenant: Tenant,
    pub mode: KeyMode,
    pub member: Option<RosterId>,
}

/// Accounts by purse and day.
#[async_trait]
pub trait Budgets: fmt::Debug + Send + Sync {
    /// What was used on a day. A tenant's purse counts every run, a member's those that are charged to it. A replay
    /// uses nothing.
    async fn spent_on(&self, purse: &Purse, day: i64) -> Result<Spent, StoreError>;

    /// What people have raised a day's ceiling to; unbounded dimensions were not raised.
    async fn raised_on(&self, purse: &Purse, day: i64) -> Result<EffectiveBudget, StoreError>;

    /// Raises a day's ceiling. A lower one than it has changes nothing, so that whoever says it again does no harm.
    async fn raise(
        &self,
        purse: &Purse,
        day: i64,
        dimension: BudgetDimension,
        limit: Amount,
    ) -> Result<(), StoreError>;

    /// What a member may use in a day, where something was said of it.
    async fn allowance(
        &self,
        tenant: &Tenant,
        member: &RosterId,
    ) -> Result<Option<EffectiveBudget>, StoreError>;

    /// Says what a member may use in a day; none leaves it to the host's configuration. Goes with the member.
    async fn allow(
        &self,
        tenant: &Tenant,
        member: &RosterId,
        allowance: Option<EffectiveBudget>,
        at: Timestamp,
    ) -> Result<(), StoreError>;
}

/// How a day of a purse stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DayAccount {
    pub day: i64,
    /// The ceilings in force, as people have raised them.
    pub limits: EffectiveBudget,
    pub spent: Spent,
}

impl DayAccount {
    /// The account of a purse whose ceilings are `usual` unless somebody raised them for the day.
    pub async fn read(
        budgets: &dyn Roster,
        purse: &Purse,
        usual: EffectiveBudget,
        day: i64,
    ) -> Result<Self, StoreError> {
        let spent = budgets.spent_on(purse, day).await?;
        let raised = budgets.raised_on(purse, day).await?;
        let limits = EffectiveBudget {
            max_tokens: usual.max_tokens.map(|usual| raised.max_tokens.unwrap_or(usual).max(usual)),
            max_cost_usd: usual
                .max_cost_usd
                .map(|usual| raised.max_cost_usd.unwrap_or(usual).max(usual)),
            ..EffectiveBudget::default()
        };
        Ok(Self { day, limits, spent })
    }

    /// The ceiling that is reached.
    fn over(&self, purse: &Purse) -> Option<Overdrawn> {
        let used = [
            (BudgetDimension::Tokens, Amount::from(self.spent.tokens())),
            (BudgetDimension::Cost, Amount::from(self.spent.cost_usd)),
        ];
        used.into_iter().find_map(|(dimension, consumed)| {
            let limit = self.limits.limit(dimension).filter(|limit| consumed >= *limit)?;
            Some(Overdrawn {
                scope: match purse.member {
                    Some(_) => BudgetScope::Agent,
                    None => BudgetScope::Project,
                },
                dimension,
                consumed,
                limit,
                member: purse.member.clone(),
                day: Some(self.day),
            })
        })
    }
}

/// What a member may use in a day.
pub async fn allowance_of(
    budgets: &dyn Roster,
    host: &HostLimits,
    tenant: &Tenant,
    member: &RosterId,
) -> Result<EffectiveBudget, StoreError> {
    Ok(budgets.allowance(tenant, member).await?.unwrap_or(host.member_day))
}

/// Those who pay for a run, with the way to their accounts.
#[derive(Debug)]
pub(crate) struct Payers {
    tenant: Purse,
    member: Option<RosterId>,
    host: HostLimits,
    accounts: Arc<dyn Roster>,
}

impl Payers {
    pub(crate) fn of(birth: &Birth, host: &HostLimits, accounts: Arc<dyn Roster>) -> Self {
        let tenant = Purse {
            tenant: birth.owner.tenant.clone(),
            mode: if birth.test { KeyMode::Test } else { KeyMode::Live },
            member: None,
        };
        Self { tenant, member: birth.charged_to.clone(), host: *host, accounts }
    }

    /// The first ceiling that is reached today, the member's before the tenant's.
    async fn over(&self, at: Timestamp) -> Result<Option<Overdrawn>, StoreError> {
        let (accounts, day) = (&*self.accounts, day_of(at));
        if let Some(member) = &self.member {
            let tenant = &self.tenant.tenant;
            let usual = allowance_of(accounts, &self.host, tenant, member).await?;
            let purse = Purse { member: Some(member.clone()), ..self.tenant.clone() };
            if let Some(over) = over(accounts, &purse, usual, day).await? {
                return Ok(Some(over));
            }
        }
        over(accounts, &self.tenant, self.host.tenant_day, day).await
    }

    /// Whether anybody who pays has a ceiling in money.
    async fn count_money(&self) -> Result<bool, Failure> {
        let mut is_counted = self.host.tenant_day.max_cost_usd.is_some();
        if let Some(member) = self.member.as_ref().filter(|_| !is_counted) {
            let (accounts, tenant) = (&*self.accounts, &self.tenant.tenant);
            let usual = allowance_of(accounts, &self.host, tenant, member).await;
            let usual = usual.map_err(|error| unaccounted(error).failure)?;
            is_counted = usual.max_cost_usd.is_some();
        }
        Ok(is_counted)
    }

    /// Carries out what a person decided about a day's ceiling.
    async fn settle(&self, ruling: &Ruling) -> Result<(), StoreError> {
        let (Some(day), Some(limit)) = (ruling.over.day, ruling.raised_to) else { return Ok(()) };
        let purse = Purse { member: ruling.over.member.clone(), ..self.tenant.clone() };
        self.accounts.raise(&purse, day, ruling.over.dimension, limit).await
    }
}

async fn over(
    accounts: &dyn Roster,
    purse: &Purse,
    usual: EffectiveBudget,
    day: i64,
) -> Result<Option<Overdrawn>, StoreError> {
    if usual.is_unbounded() {
        return Ok(None);
    }
    Ok(DayAccount::read(accounts, purse, usual, day).await?.over(purse))
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

    /// Asks whether there is anything left to pay a model with. To be asked where the call is really made, not where
    /// a recorded one is gone through again. An error ends the attempt: the run has ended, or a person is asked.
    pub async fn clear_call(&self) -> Result<(), Stumble> {
        if let Some(ruling) = self.answer.as_ref().and_then(Ruling::of) {
            self.payers.settle(&ruling).await.map_err(unaccounted)?;
        }
        let over = self.payers.over(self.now()).await.map_err(unaccounted)?;
        let fact = match over {
            Some(over) => Fact::Overdrawn(over),
            None if self.budget.is_some() => Fact::Calling,
            None => return Ok(()),
        };
        let goes_on = fact == Fact::Calling;
        match self.tell(vec![fact]).await {
            Ok(()) if goes_on => Ok(()),
            Ok(()) | Err(_) => Err(stumble("budget_exhausted", "nothing is left to pay a model")),
        }
    }
}

fn unaccounted(error: StoreError) -> Stumble {
    tracing::warn!(%error, "budget not read");
    stumble("service_unavailable", "the budget could not be read")
}

fn stumble(code: &str, message: &str) -> Stumble {
    Stumble { failure: Failure::new(code, message), class: RetryClass::Retryable }
}

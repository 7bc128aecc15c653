//! What members and tenants may use by the day: the port to their accounts, with the question before each call.
//!
//! What a day has used is counted in the transaction that records the usage, so a crash neither loses nor doubles it.
//! What is under way is set aside before it is asked whether anything is left. Each call counts what was set aside
//! before it, and waits where its own estimate does not fit behind that: of calls that are made at once one may go past a
//! ceiling, the first, and the others only by what their estimates were wrong by.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use callboard_core::{Birth, Fact, HostLimits, Overdrawn, RetryClass, Ruling, day_of};
use callboard_protocol::{
    Amount, BudgetDimension, BudgetScope, EffectiveBudget, Failure, NodeId, RosterId, RunId,
    Tenant, Timestamp,
};

use crate::activity::Call;
use crate::once::Stumble;
use crate::roster::{Roster, Spent, USAGE};
use crate::store::{Claim, KeyMode, Row, StoreError};

/// Between two looks at whether there is room: a call of a model takes longer.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

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

    /// Sets aside what a call of a run's node may use, behind all that is set aside already. It counts until the call
    /// is over ([`call_over`]), as long as the run goes on and nobody has taken it over.
    async fn set_aside(
        &self,
        claim: &Claim,
        node: &NodeId,
        day: i64,
        estimate: Spent,
    ) -> Result<(), StoreError>;

    /// What others had set aside on a day when a node set aside its own.
    async fn set_aside_before(
        &self,
        purse: &Purse,
        day: i64,
        run: &RunId,
        node: &NodeId,
    ) -> Result<Spent, StoreError>;

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
    async fn allowance(&self, purse: &Purse) -> Result<Option<EffectiveBudget>, StoreError>;

    /// Says what a member may use in a day; none leaves it to the host's configuration. Goes with the member.
    async fn allow(
        &self,
        purse: &Purse,
        allowance: Option<EffectiveBudget>,
        at: Timestamp,
    ) -> Result<(), StoreError>;
}

/// The node whose call is over with this row: what it used is recorded, its answer has a tool called, or its attempt has
/// come to an end. A tool may start runs that wait for room: it must not find its own caller before them.
pub fn call_over(row: &Row) -> Option<&NodeId> {
    let is_over = match row.kind.as_str() {
        USAGE | "agent.toolCalled" => true,
        "node.started" => false,
        kind => kind.starts_with("node."),
    };
    row.node.as_ref().filter(|_| is_over)
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
async fn allowance_of(
    budgets: &dyn Roster,
    host: &HostLimits,
    purse: &Purse,
) -> Result<EffectiveBudget, StoreError> {
    Ok(budgets.allowance(purse).await?.unwrap_or(host.member_day))
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
            mode: KeyMode::of(birth.test),
            member: None,
        };
        Self { tenant, member: birth.charged_to.clone(), host: *host, accounts }
    }

    fn members_purse(&self) -> Purse {
        Purse { member: self.member.clone(), ..self.tenant.clone() }
    }

    /// Those who have a ceiling, the member before the tenant.
    async fn bounded(&self) -> Result<Vec<(Purse, EffectiveBudget)>, StoreError> {
        let mut all = Vec::new();
        if self.member.is_some() {
            let purse = self.members_purse();
            let usual = allowance_of(&*self.accounts, &self.host, &purse).await?;
            all.push((purse, usual));
        }
        all.push((self.tenant.clone(), self.host.tenant_day));
        all.retain(|(_, usual)| !usual.is_unbounded());
        Ok(all)
    }

    /// Whether a call for which something was set aside may be made now.
    async fn clear(
        &self,
        bounded: &[(Purse, EffectiveBudget)],
        aside: &Aside<'_>,
    ) -> Result<Clearance, StoreError> {
        let Aside { run, node, day, estimate } = *aside;
        let mut clearance = Clearance::Given;
        for (purse, usual) in bounded {
            // Before what was used: whatever is recorded in between then counts twice, and never not at all.
            let others = self.accounts.set_aside_before(purse, day, run, node).await?;
            let account = DayAccount::read(&*self.accounts, purse, *usual, day).await?;
            if let Some(over) = account.over(purse) {
                return Ok(Clearance::Over(over));
            }
            if !account.has_room(others, estimate) {
                clearance = Clearance::Later;
            }
        }
        Ok(clearance)
    }

    /// Whether anybody who pays has a ceiling in money.
    async fn count_money(&self) -> Result<bool, Failure> {
        let mut is_counted = self.host.tenant_day.max_cost_usd.is_some();
        if self.member.is_some() && !is_counted {
            let purse = self.members_purse();
            let usual = allowance_of(&*self.accounts, &self.host, &purse).await;
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

/// A call for which something was set aside.
#[derive(Debug, Clone, Copy)]
struct Aside<'a> {
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
    pub async fn clear_call(&self, estimate: impl FnOnce() -> Spent + Send) -> Result<(), Stumble> {
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
        match self.tell(vec![fact]).await {
            Ok(()) if goes_on => Ok(()),
            Ok(()) | Err(_) => Err(stumble("budget_exhausted", "nothing is left to pay a model")),
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
        self.payers.accounts.set_aside(&self.claim, node, day, estimate).await?;
        let aside = Aside { run: &self.run, node, day, estimate };
        loop {
            match self.payers.clear(&bounded, &aside).await? {
                Clearance::Given => return Ok(None),
                Clearance::Over(over) => return Ok(Some(over)),
                Clearance::Later => self.pause(BETWEEN_LOOKS).await,
            }
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

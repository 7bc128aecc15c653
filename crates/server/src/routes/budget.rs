//! `…/roster/{rosterId}/budget`: what a member may use in a day, and what it has used of today.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_core::{day_begins, day_of};
use callboard_engine::{BudgetAccount, DayAccount, Spent};
use callboard_protocol::{EffectiveBudget, RosterId, Timestamp};
use serde::{Deserialize, Serialize};

use super::roster;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Shaped};
use crate::keys::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

/// How a member's day stands.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Today {
    /// When the day began, in UTC.
    day: Timestamp,
    /// What it may use in any day; a dimension that is not there has no ceiling.
    allowance: EffectiveBudget,
    source: AllowanceSource,
    /// The ceilings of today, as people have raised them.
    limits: EffectiveBudget,
    spent: Spent,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum AllowanceSource {
    Member,
    Host,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SetAllowance {
    max_tokens: Option<u64>,
    max_cost_usd: Option<f64>,
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    roster::find(&host, &caller, &id).await?;
    Answer::json(StatusCode::OK, &today(&host, &caller, &id).await?)
}

pub(super) async fn set(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
    Shaped(body): Shaped<SetAllowance>,
) -> Result<Answer, Problem> {
    let SetAllowance { max_tokens, max_cost_usd } = body;
    if max_cost_usd.is_some_and(|cost| cost < 0.0) {
        return Err(Problem::invalid_at("maxCostUsd", "must be at least 0"));
    }
    let allowance = EffectiveBudget { max_tokens, max_cost_usd, ..EffectiveBudget::default() };
    allow(&host, &caller, &id, Some(allowance)).await
}

pub(super) async fn reset(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    allow(&host, &caller, &id, None).await
}

async fn allow(
    host: &Host,
    caller: &Caller,
    id: &RosterId,
    allowance: Option<EffectiveBudget>,
) -> Result<Answer, Problem> {
    roster::find(host, caller, id).await?;
    host.app.engine.budgets().set_daily_limit(&caller.scope.realm(), id, allowance).await?;
    caller.audit(id, "allowance changed");
    Answer::json(StatusCode::OK, &today(host, caller, id).await?)
}

/// The account of a member that the caller may see.
pub(super) async fn today(host: &Host, caller: &Caller, id: &RosterId) -> Result<Today, Problem> {
    let engine = &host.app.engine;
    let (budgets, payer) = (engine.budgets(), account_of(caller, id));
    let own = budgets.daily_limit(&caller.scope.realm(), id).await?;
    let allowance = own.unwrap_or(engine.limits().member_day);
    let day = day_of(host.now());
    let account = DayAccount::read(&budgets, &payer, allowance, day).await?;
    Ok(Today {
        day: day_begins(day),
        allowance,
        source: if own.is_some() { AllowanceSource::Member } else { AllowanceSource::Host },
        limits: account.limits,
        spent: account.spent,
    })
}

fn account_of(caller: &Caller, id: &RosterId) -> BudgetAccount {
    let tenant = caller.scope.tenant.clone();
    BudgetAccount { tenant, mode: caller.scope.mode, member: Some(id.clone()) }
}

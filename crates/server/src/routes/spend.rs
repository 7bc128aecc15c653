//! `GET /v1/host/callboard/spend`: what models were paid, day by day, and for whom.
//!
//! Sums are read from what the store counts by day. The dearest runs are looked for among the newest
//! [`MOST_RUNS`], so that the work does not grow with the runs that are stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_core::{day_begins, day_of};
use callboard_engine::{
    BudgetAccount, DayAccount, Filter, Listed, MOST_NAMES, SpendBy, Spending, Spent, Usage,
};
use callboard_protocol::{EffectiveBudget, Timestamp};
use serde::Serialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

const USUAL_DAYS: i64 = 14;
/// A quarter of a year.
const MOST_DAYS: i64 = 92;
/// Runs among which the dearest are looked for, the newest first.
const MOST_RUNS: usize = 500;
const DEAREST: usize = 10;
/// Names that are answered of each kind, the dearest first.
const MOST_SHOWN: usize = 50;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spend {
    since: Timestamp,
    total: Usage,
    days: Vec<Day>,
    by_agent: Vec<Named>,
    by_member: Vec<Named>,
    by_model: Vec<Named>,
    by_workflow: Vec<Named>,
    /// Whether more names stand behind those that are here.
    is_cut: bool,
    dearest_runs: Vec<Listed>,
    /// How many runs those were looked for among.
    runs_looked_at: usize,
    /// The tenant's day; not for keys of a workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    today: Option<Today>,
}

#[derive(Debug, Serialize)]
struct Day {
    day: Timestamp,
    used: Usage,
}

#[derive(Debug, Serialize)]
struct Named {
    name: String,
    used: Usage,
}

#[derive(Debug, Serialize)]
struct Today {
    limits: EffectiveBudget,
    spent: Spent,
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &["days"])?;
    let in_range = |text: &str| text.parse().ok().filter(|days| (1..=MOST_DAYS).contains(days));
    let days = query.read("days", "an integer from 1 to 92", in_range)?.unwrap_or(USUAL_DAYS);
    let today = day_of(host.now());
    let first = today - days + 1;
    let spending = Spending::new(host.app.engine.store().clone());
    let mut spend = Spend {
        since: day_begins(first),
        total: Usage::default(),
        days: Vec::new(),
        by_agent: Vec::new(),
        by_member: Vec::new(),
        by_model: Vec::new(),
        by_workflow: Vec::new(),
        is_cut: false,
        dearest_runs: Vec::new(),
        runs_looked_at: 0,
        today: None,
    };
    for day in first..=today {
        let used = spending.on(&caller.scope, SpendBy::Total, day).await?;
        let used = used.into_values().next().unwrap_or_default();
        spend.total.add(used);
        spend.days.push(Day { day: day_begins(day), used });
    }
    for by in [SpendBy::Agent, SpendBy::Member, SpendBy::Model, SpendBy::Workflow] {
        let named = spend.named(&spending, &caller, by, first..=today).await?;
        match by {
            SpendBy::Agent => spend.by_agent = named,
            SpendBy::Member => spend.by_member = named,
            SpendBy::Model => spend.by_model = named,
            SpendBy::Workflow => spend.by_workflow = named,
            SpendBy::Total => {}
        }
    }
    spend.find_dearest(&host, &caller).await?;
    spend.today = tenant_day(&host, &caller, today).await?;
    Answer::json(StatusCode::OK, &spend)
}

impl Spend {
    async fn named(
        &mut self,
        spending: &Spending,
        caller: &Caller,
        by: SpendBy,
        days: std::ops::RangeInclusive<i64>,
    ) -> Result<Vec<Named>, Problem> {
        let mut sums: BTreeMap<String, Usage> = BTreeMap::new();
        for day in days {
            let found = spending.on(&caller.scope, by, day).await?;
            self.is_cut |= found.len() >= MOST_NAMES;
            for (name, used) in found {
                sums.entry(name).or_default().add(used);
            }
        }
        let mut named: Vec<Named> =
            sums.into_iter().map(|(name, used)| Named { name, used }).collect();
        let tokens = |used: &Usage| used.input_tokens + used.output_tokens;
        named.sort_by(|a, b| {
            let by_cost = b.used.cost_usd.total_cmp(&a.used.cost_usd);
            by_cost.then(tokens(&b.used).cmp(&tokens(&a.used)))
        });
        self.is_cut |= named.len() > MOST_SHOWN;
        named.truncate(MOST_SHOWN);
        Ok(named)
    }

    async fn find_dearest(&mut self, host: &Host, caller: &Caller) -> Result<(), Problem> {
        let filter = Filter { since: Some(self.since), limit: MOST_RUNS, ..Filter::default() };
        let mut runs = host.app.engine.store().list(&caller.scope, &filter).await?;
        self.runs_looked_at = runs.len();
        let cost = |run: &Listed| {
            run.metrics.as_ref().and_then(|metrics| metrics.openwop_cost.usd).unwrap_or(0.0)
        };
        runs.retain(|run| cost(run) > 0.0);
        runs.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        runs.truncate(DEAREST);
        let (now, waiting) = (host.now(), host.app.engine.waiting());
        let tenant = &caller.scope.tenant;
        self.dearest_runs = runs.into_iter().map(|run| run.judged(tenant, now, waiting)).collect();
        Ok(())
    }
}

/// How the tenant's own day stands against its ceiling.
async fn tenant_day(host: &Host, caller: &Caller, day: i64) -> Result<Option<Today>, Problem> {
    if caller.scope.workspace.is_some() {
        return Ok(None);
    }
    let engine = &host.app.engine;
    let (tenant, mode) = (caller.scope.tenant.clone(), caller.scope.mode);
    let account = BudgetAccount { tenant, mode, member: None };
    let usual = engine.limits().tenant_day;
    let DayAccount { limits, spent, .. } =
        DayAccount::read(&engine.budgets(), &account, usual, day).await?;
    Ok(Some(Today { limits, spent }))
}

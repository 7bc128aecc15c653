//! Accounts by day, at rest: what was used is counted, what calls under way may use is reserved.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_core::{Birth, Run, day_of};
use callboard_protocol::{
    Amount, BudgetDimension, EffectiveBudget, NodeId, ProviderUsage, RosterId, RunId, RunStatus,
    Tenant,
};

use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Tries, Within};
use crate::roster::{Spent, USAGE, member_key, member_stands};
use crate::spend;
use crate::store::{
    Append, Batch, Claim, CounterChange, CounterQuery, KeyMode, Realm, Row, Scope, Standing, Store,
    StoreError,
};

/// Who pays: a member of a tenant, or the tenant with all that it has. Test keys and live keys pay apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BudgetAccount {
    pub tenant: Tenant,
    pub mode: KeyMode,
    pub member: Option<RosterId>,
}

impl BudgetAccount {
    pub(super) fn realm(&self) -> Realm {
        Realm { tenant: self.tenant.clone(), mode: self.mode }
    }

    /// What is kept of one day.
    fn key(&self, day: i64) -> Key {
        let member = self.member.as_ref().map_or("", |member| member.as_str());
        Key::in_realm(&self.realm(), [&day.to_string(), member])
    }
}

/// Accounts by day.
#[derive(Debug, Clone)]
pub struct Budgets {
    store: Arc<dyn Store>,
}

const INPUT_TOKENS: &str = "inputTokens";
const OUTPUT_TOKENS: &str = "outputTokens";
const COST_USD: &str = "costUsd";

/// An append with what follows from it for the budgets: the usage that it records is counted, in place of what was
/// reserved for the calls that are over with it.
pub fn accounted(birth: &Birth, append: Append) -> Batch {
    accounted_where(birth, append, |_| true)
}

/// The same for a run that is at hand: what core computes has nothing reserved, and its append goes with others then.
pub(crate) fn accounted_of(run: &Run, append: Append) -> Batch {
    accounted_where(run.birth(), append, |node| run.plan().is_performed(node))
}

fn accounted_where(birth: &Birth, append: Append, calls: impl Fn(&NodeId) -> bool) -> Batch {
    let ended = append.rows.iter().filter_map(call_over).filter(|node| calls(node));
    let ended =
        ended.map(|node| RecordChange::delete(Kind::Reservation, reservation(&append.run, node)));
    let mut counters = usage(birth, &append.rows);
    counters.extend(spend::counted(birth, &append.rows));
    let records = ended.collect();
    Batch { records, counters, ..Batch::of_append(append) }
}

/// The node whose call is over with this row: what it used is recorded, its answer has a tool called, or its attempt has
/// come to an end. A tool may start runs that wait for room: it must not find its own caller before them.
fn call_over(row: &Row) -> Option<&NodeId> {
    let is_over = match row.kind.as_str() {
        USAGE | "agent.toolCalled" => true,
        "node.started" => false,
        kind => kind.starts_with("node."),
    };
    row.node.as_ref().filter(|_| is_over)
}

/// What rows add to the days of those who pay for the run. A replay pays nobody.
fn usage(birth: &Birth, rows: &[Row]) -> Vec<CounterChange> {
    let (tenant, mode) = (birth.owner.tenant.clone(), KeyMode::of(birth.test));
    let tenant = BudgetAccount { tenant, mode, member: None };
    let member = birth.charged_to.clone();
    let member = member.map(|member| BudgetAccount { member: Some(member), ..tenant.clone() });
    let mut counters = Vec::new();
    for row in rows.iter().filter(|row| row.kind == USAGE && !birth.is_replay()) {
        let Ok(usage) = serde_json::from_str::<ProviderUsage>(&row.payload) else { continue };
        let used = Spent::of(&usage);
        for account in [&tenant].into_iter().chain(&member) {
            let key = account.key(day_of(row.at));
            let named = [
                (INPUT_TOKENS, Amount::from(used.input_tokens)),
                (OUTPUT_TOKENS, Amount::from(used.output_tokens)),
                (COST_USD, Amount::from(used.cost_usd)),
            ];
            counters.extend(named.map(|(name, amount)| CounterChange {
                key: key.clone(),
                name,
                add: amount.get(),
            }));
        }
    }
    counters
}

/// What a call under way may use, in the order of positions. It counts as long as its run goes on and nobody has taken
/// it over.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reservation {
    run: RunId,
    node: NodeId,
    epoch: u64,
    day: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    member: Option<RosterId>,
    estimate: Spent,
}

impl Reservation {
    /// Whether it can never count again.
    fn is_void(&self, standing: Option<Standing>) -> bool {
        standing.is_none_or(|run| run.epoch != self.epoch || run.status.is_terminal())
    }

    fn counts(&self, standing: Option<Standing>) -> bool {
        !self.is_void(standing) && standing.is_some_and(|run| run.status != RunStatus::Paused)
    }
}

/// Where a member's daily limit is kept.
pub(crate) fn daily_limit_key(realm: &Realm, member: &RosterId) -> Key {
    Key::in_realm(realm, [member.as_str()])
}

fn reservation(run: &RunId, node: &NodeId) -> Key {
    Key::of([run.as_str(), node.as_str()])
}

impl Budgets {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// What was used on a day. A tenant's account counts every run, a member's those that are charged to it.
    pub async fn spent_on(&self, account: &BudgetAccount, day: i64) -> Result<Spent, StoreError> {
        let mut spent = Spent::default();
        for (_, name, value) in self.store.counters(&CounterQuery::Of(account.key(day))).await? {
            match name.as_str() {
                INPUT_TOKENS => spent.input_tokens = whole(value),
                OUTPUT_TOKENS => spent.output_tokens = whole(value),
                COST_USD => spent.cost_usd = value,
                _ => {}
            }
        }
        Ok(spent)
    }

    /// Reserves what a call of a run's node may use, behind all that is reserved already. It counts until the call is
    /// over ([`accounted`]), as long as the run goes on and nobody has taken it over. Only the holder of the run may.
    pub async fn reserve(
        &self,
        payer: &BudgetAccount,
        claim: &Claim,
        node: &NodeId,
        day: i64,
        estimate: Spent,
    ) -> Result<(), StoreError> {
        let key = reservation(&claim.run, node);
        let (run, node, member) = (claim.run.clone(), node.clone(), payer.member.clone());
        let body = Reservation { run, node, epoch: claim.epoch, day, member, estimate };
        let place = Scope { tenant: payer.tenant.clone(), workspace: None, mode: payer.mode };
        let mut changes = Vec::new();
        // What counts no longer is not worth a look at every call.
        for (record, known, standing) in self.reservations(&payer.realm()).await? {
            if known.is_void(standing) && record.key != key {
                changes.push(RecordChange::delete(Kind::Reservation, record.key));
            }
        }
        // Made anew, so that a repeated request is behind the others.
        changes.push(RecordChange::delete(Kind::Reservation, key.clone()));
        let new = RecordChange::put(Kind::Reservation, key, place, &body)?.of_run(&claim.run);
        let changes = Batch::of_records(changes.into_iter().chain([new]));
        self.store.commit(Batch { claims: vec![claim.clone()], ..changes }).await
    }

    /// What others had reserved on a day when a node reserved its own.
    pub async fn reserved_before(
        &self,
        account: &BudgetAccount,
        day: i64,
        run: &RunId,
        node: &NodeId,
    ) -> Result<Spent, StoreError> {
        let own = reservation(run, node);
        let known = self.reservations(&account.realm()).await?;
        let before = known.into_iter().take_while(|(record, ..)| record.key != own);
        let mut sum = Spent::default();
        for (_, known, standing) in before {
            let is_theirs = account.member.is_none() || account.member == known.member;
            if is_theirs && known.day == day && known.counts(standing) {
                sum.add(known.estimate);
            }
        }
        Ok(sum)
    }

    /// What a tenant's calls under way have reserved, the first first, with how their runs stand.
    async fn reservations(
        &self,
        realm: &Realm,
    ) -> Result<Vec<(Record, Reservation, Option<Standing>)>, StoreError> {
        let all = RecordQuery::all(Kind::Reservation, Within::Realm(realm.clone()));
        let mut records = self.store.scan(&all).await?;
        records.sort_by_key(|record| record.position);
        let read = records.iter().map(Record::read::<Reservation>);
        let read = read.collect::<Result<Vec<_>, _>>()?;
        let runs: Vec<RunId> = read.iter().map(|reservation| reservation.run.clone()).collect();
        let standings = self.store.statuses(&runs).await?;
        let all = records.into_iter().zip(read).zip(standings);
        Ok(all.map(|((record, read), standing)| (record, read, standing)).collect())
    }

    /// What a member may use in a day, where something was said of it.
    pub async fn daily_limit(
        &self,
        realm: &Realm,
        member: &RosterId,
    ) -> Result<Option<EffectiveBudget>, StoreError> {
        let found = self.store.get(Kind::DailyLimit, &daily_limit_key(realm, member)).await?;
        found.as_ref().map(Record::read).transpose()
    }

    /// Says what a member may use in a day; none leaves it to the host's configuration. Goes with the member, and
    /// nobody who is not there has one.
    pub async fn set_daily_limit(
        &self,
        realm: &Realm,
        member: &RosterId,
        limit: Option<EffectiveBudget>,
    ) -> Result<(), StoreError> {
        let key = daily_limit_key(realm, member);
        let Some(limit) = limit else {
            let gone = RecordChange::delete(Kind::DailyLimit, key);
            return self.store.commit(Batch::of_records([gone])).await;
        };
        let found = self.store.get(Kind::Member, &member_key(&realm.tenant, member)).await?;
        let Some(found) = found.filter(|found| found.place.mode == realm.mode) else {
            return Ok(());
        };
        let put = RecordChange::put(Kind::DailyLimit, key, found.place, &limit)?;
        let stands = member_stands(&realm.tenant, member);
        self.store.commit(Batch::of_records([stands, put])).await
    }

    /// What people have granted beyond a day's ceiling; unbounded dimensions were not raised.
    pub async fn granted_on(
        &self,
        account: &BudgetAccount,
        day: i64,
    ) -> Result<EffectiveBudget, StoreError> {
        let found = self.store.get(Kind::BudgetGrant, &account.key(day)).await?;
        found.as_ref().map_or(Ok(EffectiveBudget::default()), Record::read)
    }

    /// Raises a day's ceiling. A lower one than it has changes nothing, so that a repetition does no harm.
    pub async fn grant_extra(
        &self,
        account: &BudgetAccount,
        day: i64,
        dimension: BudgetDimension,
        limit: Amount,
    ) -> Result<(), StoreError> {
        let (key, mut tries) = (account.key(day), Tries::default());
        let place = Scope { tenant: account.tenant.clone(), workspace: None, mode: account.mode };
        loop {
            let found = self.store.get(Kind::BudgetGrant, &key).await?;
            let granted: EffectiveBudget =
                found.as_ref().map_or(Ok(EffectiveBudget::default()), Record::read)?;
            if granted.limit(dimension).is_some_and(|known| known >= limit) {
                return Ok(());
            }
            let granted = granted.with(dimension, limit);
            let put = RecordChange::put(Kind::BudgetGrant, key.clone(), place.clone(), &granted)?
                .expecting(Expected::of(found.as_ref()));
            let outcome = self.store.commit(Batch::of_records([put])).await;
            if !tries.again(&outcome) {
                return outcome;
            }
        }
    }
}

/// A sum of whole numbers as one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sum of tokens is whole and not negative, and beyond what a double counts nobody gets in a day"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

//! Accounts of days: counted with every usage that is recorded, read before every call.

mod aside;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use callboard_core::day_of;
use callboard_engine::{Budgets, Claim, KeyMode, Purse, Row, Spent, StoreError, USAGE};
use callboard_protocol::{
    Amount, BudgetDimension, EffectiveBudget, NodeId, ProviderUsage, RunId, Timestamp,
};

use super::SqliteStore;
use super::fault::Fault;
use super::rows::{execute, signed, unsigned};

#[async_trait]
impl Budgets for SqliteStore {
    async fn spent_on(&self, purse: &Purse, day: i64) -> Result<Spent, StoreError> {
        let purse = purse.clone();
        self.readers.read(move |db| spent_on(db, &purse, day)).await
    }

    async fn set_aside(
        &self,
        claim: &Claim,
        node: &NodeId,
        day: i64,
        estimate: Spent,
    ) -> Result<(), StoreError> {
        let (claim, node) = (claim.clone(), node.clone());
        self.writer.write(move |db| aside::set(db, &claim, &node, day, estimate)).await
    }

    async fn set_aside_before(
        &self,
        purse: &Purse,
        day: i64,
        run: &RunId,
        node: &NodeId,
    ) -> Result<Spent, StoreError> {
        let (purse, run, node) = (purse.clone(), run.clone(), node.clone());
        self.readers.read(move |db| aside::before(db, &purse, day, &run, &node)).await
    }

    async fn raised_on(&self, purse: &Purse, day: i64) -> Result<EffectiveBudget, StoreError> {
        let purse = purse.clone();
        self.readers.read(move |db| raised_on(db, &purse, day)).await
    }

    async fn raise(
        &self,
        purse: &Purse,
        day: i64,
        dimension: BudgetDimension,
        limit: Amount,
    ) -> Result<(), StoreError> {
        let purse = purse.clone();
        self.writer.write(move |db| raise(db, &purse, day, dimension, limit)).await
    }

    async fn allowance(&self, purse: &Purse) -> Result<Option<EffectiveBudget>, StoreError> {
        let purse = purse.clone();
        self.readers.read(move |db| allowance(db, &purse)).await
    }

    async fn allow(
        &self,
        purse: &Purse,
        allowance: Option<EffectiveBudget>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let purse = purse.clone();
        self.writer.write(move |db| allow(db, &purse, allowance, at)).await
    }
}

/// Counts the usage among rows that are being appended, in place of what was set aside for it. A replay has paid nobody.
pub(super) fn count(db: &Connection, run: i64, rows: &[Row]) -> Result<(), Fault> {
    aside::forget(db, run, rows)?;
    for row in rows.iter().filter(|row| row.kind == USAGE) {
        let Ok(told) = serde_json::from_str::<ProviderUsage>(&row.payload) else { continue };
        let Spent { input_tokens, output_tokens, cost_usd } = Spent::of(&told);
        execute(
            db,
            "INSERT INTO spending (tenant, test, day, member, input_tokens, output_tokens, cost_usd)
             SELECT tenant, test, ?2, coalesce(charged_to, ''), ?3, ?4, ?5 FROM runs
             WHERE id = ?1 AND NOT is_replay
             ON CONFLICT (tenant, test, day, member) DO UPDATE SET
                 input_tokens = input_tokens + excluded.input_tokens,
                 output_tokens = output_tokens + excluded.output_tokens,
                 cost_usd = cost_usd + excluded.cost_usd",
            params![run, day_of(row.at), signed(input_tokens), signed(output_tokens), cost_usd],
        )?;
    }
    Ok(())
}

fn spent_on(db: &Connection, purse: &Purse, day: i64) -> Result<Spent, Fault> {
    let mut select = db.prepare_cached(
        "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), total(cost_usd)
         FROM spending WHERE tenant = ?1 AND test = ?2 AND day = ?3 AND (?4 IS NULL OR member = ?4)",
    )?;
    let member = purse.member.as_ref().map(|member| member.as_str());
    let mut rows =
        select.query(params![purse.tenant.as_str(), purse.mode == KeyMode::Test, day, member])?;
    sum(rows.next()?)
}

/// Input tokens, output tokens, dollars.
fn sum(row: Option<&rusqlite::Row<'_>>) -> Result<Spent, Fault> {
    let Some(row) = row else { return Ok(Spent::default()) };
    Ok(Spent {
        input_tokens: unsigned(row, 0)?,
        output_tokens: unsigned(row, 1)?,
        cost_usd: row.get(2)?,
    })
}

fn raised_on(db: &Connection, purse: &Purse, day: i64) -> Result<EffectiveBudget, Fault> {
    let mut select = db.prepare_cached(
        "SELECT dimension, ceiling FROM budget_raises
         WHERE tenant = ?1 AND test = ?2 AND day = ?3 AND member = ?4",
    )?;
    let (tenant, test, member) = key(purse);
    let mut rows = select.query(params![tenant, test, day, member])?;
    let mut raised = EffectiveBudget::default();
    while let Some(row) = rows.next()? {
        let (name, ceiling): (String, f64) = (row.get(0)?, row.get(1)?);
        let known = BudgetDimension::ALL.into_iter().find(|dimension| name_of(*dimension) == name);
        if let Some(dimension) = known {
            raised = raised.with(dimension, ceiling.into());
        }
    }
    Ok(raised)
}

fn raise(
    db: &Connection,
    purse: &Purse,
    day: i64,
    dimension: BudgetDimension,
    limit: Amount,
) -> Result<(), Fault> {
    let (tenant, test, member) = key(purse);
    execute(
        db,
        "INSERT INTO budget_raises (tenant, test, day, member, dimension, ceiling)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (tenant, test, day, member, dimension)
         DO UPDATE SET ceiling = max(ceiling, excluded.ceiling)",
        params![tenant, test, day, member, name_of(dimension), limit.get()],
    )?;
    Ok(())
}

fn key(purse: &Purse) -> (&str, bool, &str) {
    let member = purse.member.as_ref().map_or("", |member| member.as_str());
    (purse.tenant.as_str(), purse.mode == KeyMode::Test, member)
}

fn name_of(dimension: BudgetDimension) -> &'static str {
    match dimension {
        BudgetDimension::Tokens => "tokens",
        BudgetDimension::Cost => "cost",
        BudgetDimension::ToolCalls => "toolCalls",
        BudgetDimension::Retries => "retries",
    }
}

fn allowance(db: &Connection, purse: &Purse) -> Result<Option<EffectiveBudget>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT budget FROM allowances
         WHERE member = (SELECT id FROM roster WHERE tenant = ?1 AND test = ?2 AND roster_id = ?3)",
    )?;
    let (tenant, test, member) = key(purse);
    let kept: Option<String> =
        select.query_row(params![tenant, test, member], |row| row.get(0)).optional()?;
    let read = |text: String| {
        serde_json::from_str(&text).map_err(|error| Fault::unreadable("an allowance", error))
    };
    kept.map(read).transpose()
}

fn allow(
    db: &Connection,
    purse: &Purse,
    allowance: Option<EffectiveBudget>,
    at: Timestamp,
) -> Result<(), Fault> {
    let (tenant, test, member) = key(purse);
    let Some(allowance) = allowance else {
        let sql = "DELETE FROM allowances
             WHERE member = (SELECT id FROM roster WHERE tenant = ?1 AND test = ?2 AND roster_id = ?3)";
        execute(db, sql, params![tenant, test, member])?;
        return Ok(());
    };
    let text = serde_json::to_string(&allowance)
        .map_err(|error| Fault::unreadable("an allowance", error))?;
    execute(
        db,
        "INSERT INTO allowances (member, budget, updated_at)
         SELECT id, ?4, ?5 FROM roster WHERE tenant = ?1 AND test = ?2 AND roster_id = ?3
         ON CONFLICT (member) DO UPDATE SET budget = excluded.budget, updated_at = excluded.updated_at",
        params![tenant, test, member, text, at.as_millis()],
    )?;
    Ok(())
}

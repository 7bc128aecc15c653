//! Subscriptions to events: their rows, and the port that they are reached by.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use callboard_engine::{
    Callback, Care, DeadLetter, KeyMode, LogPosition, Plan, Scope, Secret, Settlement, StoreError,
    TakeRequest, Taken, Unplanned, Webhook, Webhooks,
};
use callboard_protocol::{Timestamp, WebhookId, Workspace};

use super::SqliteStore;
use super::deliveries::{self, SealedDelivery};
use super::fault::Fault;
use super::rows::{execute, millis, scope_params, signed, time, unsigned};

/// The columns that `webhook` reads, in its order.
macro_rules! webhook_columns {
    () => {
        "webhooks.webhook_id, webhooks.tenant, webhooks.workspace, webhooks.test, webhooks.url, webhooks.events,
         webhooks.tags, webhooks.durable, webhooks.fingerprint, webhooks.created_at, webhooks.since, webhooks.circuit"
    };
}
pub(super) use webhook_columns;

/// How many columns that are.
pub(super) const WEBHOOK_COLUMNS: usize = 12;

/// Keeps a caller inside its scope, where there are no callbacks; `scope_params` fills ?1 to ?3.
macro_rules! in_scope {
    () => {
        "webhooks.tenant = ?1 AND webhooks.test = ?2 AND (?3 IS NULL OR webhooks.workspace = ?3)
         AND webhooks.run IS NULL"
    };
}

/// Where a webhook's secret stands, for its seal.
pub(super) fn secret_place(id: &WebhookId) -> String {
    format!("webhooks/{id}/secret")
}

/// Reads a webhook from the first columns of a row.
pub(super) fn webhook(row: &Row<'_>) -> Result<Webhook, Fault> {
    let id: WebhookId = row.get::<_, String>(0)?.into();
    let unreadable = |error: serde_json::Error| Fault::unreadable(format!("webhook {id}"), error);
    let text = |column| row.get::<_, String>(column);
    Ok(Webhook {
        scope: Scope {
            tenant: text(1)?.into(),
            workspace: row.get::<_, Option<String>>(2)?.map(Workspace::from),
            mode: mode(row, 3)?,
        },
        url: text(4)?,
        events: serde_json::from_str(&text(5)?).map_err(unreadable)?,
        tags: serde_json::from_str(&text(6)?).map_err(unreadable)?,
        care: if row.get(7)? { Care::Durable } else { Care::BestEffort },
        fingerprint: text(8)?,
        created_at: time(row, 9)?,
        since: LogPosition(unsigned(row, 10)?),
        circuit: serde_json::from_str(&text(11)?).map_err(unreadable)?,
        id,
    })
}

pub(super) fn mode(row: &Row<'_>, column: usize) -> Result<KeyMode, Fault> {
    Ok(KeyMode::of(row.get(column)?))
}

/// JSON text for a column.
pub(super) fn written(json: serde_json::Result<String>) -> Result<String, Fault> {
    json.map_err(|error| Fault::unreadable("a webhook", error))
}

/// It hears of nothing that is already committed. Where nobody listened before it, the cursor has stood still
/// and need not pass through what nobody wanted.
fn register(db: &Connection, webhook: &Webhook, sealed_secret: &[u8]) -> Result<(), Fault> {
    let last: i64 = db
        .prepare_cached("SELECT coalesce(max(position), 0) FROM events")?
        .query_row([], |row| row.get(0))?;
    execute(
        db,
        "UPDATE webhook_cursor SET position = ?1 WHERE NOT EXISTS (SELECT 1 FROM webhooks WHERE run IS NULL)",
        params![last],
    )?;
    insert(db, webhook, sealed_secret, last, None)
}

/// Makes a webhook of each question, with its one delivery.
pub(super) fn call_back(db: &Connection, run: i64, callbacks: &[Callback]) -> Result<(), Fault> {
    for Callback { sequence, webhook } in callbacks {
        insert(db, webhook, &[], signed(webhook.since.0), Some(run))?;
        execute(
            db,
            "INSERT INTO deliveries (webhook, event, attempts, due_at)
             SELECT ?1, position, 0, ?4 FROM events WHERE run = ?2 AND sequence = ?3",
            params![db.last_insert_rowid(), run, signed(*sequence), webhook.created_at.as_millis()],
        )?;
    }
    Ok(())
}

fn insert(
    db: &Connection,
    webhook: &Webhook,
    sealed_secret: &[u8],
    since: i64,
    run: Option<i64>,
) -> Result<(), Fault> {
    let (tenant, test, workspace) = scope_params(&webhook.scope);
    execute(
        db,
        "INSERT INTO webhooks (webhook_id, tenant, workspace, test, url, events, tags, durable, fingerprint,
             sealed_secret, created_at, since, circuit, rest_until, failed, epoch, run)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, 0, ?16)",
        params![
            webhook.id.as_str(),
            tenant,
            workspace,
            test,
            webhook.url,
            written(serde_json::to_string(&webhook.events))?,
            written(serde_json::to_string(&webhook.tags))?,
            webhook.care == Care::Durable,
            webhook.fingerprint,
            sealed_secret,
            webhook.created_at.as_millis(),
            since,
            written(serde_json::to_string(&webhook.circuit))?,
            millis(webhook.circuit.rest_until()),
            webhook.circuit.has_failed(),
            run,
        ],
    )?;
    Ok(())
}

fn list(db: &Connection, scope: &Scope) -> Result<Vec<Webhook>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let mut select = db.prepare_cached(concat!(
        "SELECT ",
        webhook_columns!(),
        " FROM webhooks WHERE ",
        in_scope!(),
        " ORDER BY webhooks.id",
    ))?;
    let mut rows = select.query(params![tenant, test, workspace])?;
    let mut webhooks = Vec::new();
    while let Some(row) = rows.next()? {
        webhooks.push(webhook(row)?);
    }
    Ok(webhooks)
}

fn remove(db: &Connection, scope: &Scope, id: &WebhookId) -> Result<bool, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = concat!("DELETE FROM webhooks WHERE webhook_id = ?4 AND ", in_scope!());
    Ok(execute(db, sql, params![tenant, test, workspace, id.as_str()])? > 0)
}

/// The webhook's key in the other tables, if the caller may see it.
fn visible(db: &Connection, scope: &Scope, id: &WebhookId) -> Result<Option<i64>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = concat!("SELECT id FROM webhooks WHERE webhook_id = ?4 AND ", in_scope!());
    let mut select = db.prepare_cached(sql)?;
    let found = select
        .query_row(params![tenant, test, workspace, id.as_str()], |row| row.get(0))
        .optional()?;
    Ok(found)
}

fn dead_letters(
    db: &Connection,
    scope: &Scope,
    id: &WebhookId,
    since: Timestamp,
    limit: usize,
) -> Result<Option<Vec<DeadLetter>>, Fault> {
    let Some(webhook) = visible(db, scope, id)? else { return Ok(None) };
    let mut select = db.prepare_cached(
        "SELECT deliveries.id, runs.run_id, events.sequence, events.kind, deliveries.attempts, deliveries.reason,
             deliveries.dead_at
         FROM deliveries JOIN events ON events.position = deliveries.event JOIN runs ON runs.id = events.run
         WHERE deliveries.webhook = ?1 AND deliveries.dead_at >= ?2
         ORDER BY deliveries.dead_at DESC, deliveries.id DESC LIMIT ?3",
    )?;
    let limit = signed(limit as u64);
    let mut rows = select.query(params![webhook, since.as_millis(), limit])?;
    let mut letters = Vec::new();
    while let Some(row) = rows.next()? {
        letters.push(DeadLetter {
            id: unsigned(row, 0)?,
            run: row.get::<_, String>(1)?.into(),
            sequence: unsigned(row, 2)?,
            kind: row.get(3)?,
            attempts: row.get(4)?,
            reason: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
            dead_at: time(row, 6)?,
        });
    }
    Ok(Some(letters))
}

#[async_trait]
impl Webhooks for SqliteStore {
    async fn register_webhook(&self, webhook: Webhook, secret: Secret) -> Result<(), StoreError> {
        let sealed = self.seal.seal(&secret_place(&webhook.id), secret.reveal());
        let sealed = sealed.map_err(|error| {
            StoreError::Unavailable(format!(
                "the secret of {} cannot be sealed: {error}",
                webhook.id
            ))
        })?;
        self.writer.write(move |db| register(db, &webhook, &sealed)).await
    }

    async fn webhooks(&self, scope: &Scope) -> Result<Vec<Webhook>, StoreError> {
        let scope = scope.clone();
        self.readers.read(move |db| list(db, &scope)).await
    }

    async fn remove_webhook(&self, scope: &Scope, id: &WebhookId) -> Result<bool, StoreError> {
        let (scope, id) = (scope.clone(), id.clone());
        self.writer.write(move |db| remove(db, &scope, &id)).await
    }

    async fn dead_letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        since: Timestamp,
        limit: usize,
    ) -> Result<Option<Vec<DeadLetter>>, StoreError> {
        let (scope, id) = (scope.clone(), id.clone());
        self.readers.read(move |db| dead_letters(db, &scope, &id, since, limit)).await
    }

    async fn read_unplanned(&self, limit: usize) -> Result<Unplanned, StoreError> {
        self.readers.read(move |db| deliveries::unplanned(db, limit)).await
    }

    async fn plan_deliveries(&self, plan: Plan) -> Result<bool, StoreError> {
        self.writer.write(move |db| deliveries::plan(db, &plan)).await
    }

    async fn take_deliveries(&self, request: &TakeRequest) -> Result<Taken, StoreError> {
        let request = *request;
        let (taken, next) = self.writer.write(move |db| deliveries::take(db, &request)).await?;
        let open = |delivery: SealedDelivery| match delivery.open(&self.seal) {
            Ok(delivery) => Some(delivery),
            // The others need not suffer for it. It is looked at again when its lease ends.
            Err(error) => {
                tracing::error!(%error, "a webhook cannot be delivered to");
                None
            }
        };
        Ok(Taken { deliveries: taken.into_iter().filter_map(open).collect(), next })
    }

    async fn settle_delivery(&self, settlement: Settlement) -> Result<bool, StoreError> {
        self.writer.write(move |db| deliveries::settle(db, &settlement)).await
    }
}

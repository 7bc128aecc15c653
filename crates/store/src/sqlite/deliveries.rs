//! Events on their way to webhooks: made from the log, taken, settled.

use rusqlite::{Connection, OptionalExtension, Row, params};

use callboard_engine::{
    Delivery, Fate, LogPosition, Logged, Others, Plan, Recorded, Scope, Secret, Settlement,
    StoreError, TakeRequest, Unplanned, Webhook,
};
use callboard_protocol::{NodeId, Timestamp, Workspace};

use super::fault::Fault;
use super::rows::{cause, execute, millis, payload, signed, time, unsigned};
use super::webhooks::{WEBHOOK_COLUMNS, mode, secret_place, webhook, webhook_columns, written};
use crate::seal::Seal;

/// The events after the cursor, with what decides who hears of them.
pub(super) const UNPLANNED: &str =
    "SELECT events.position, events.kind, runs.tenant, runs.workspace, runs.test,
         runs.is_replay, (SELECT json_group_array(tag) FROM run_tags WHERE run_tags.run = runs.id)
     FROM events JOIN runs ON runs.id = events.run
     WHERE events.position > ?1 ORDER BY events.position LIMIT ?2";

pub(super) fn unplanned(db: &Connection, limit: usize) -> Result<Unplanned, Fault> {
    let webhooks = listeners(db)?;
    let cursor = cursor(db)?;
    let events = if webhooks.is_empty() { Vec::new() } else { logged(db, cursor, limit)? };
    let calling = "SELECT EXISTS (SELECT 1 FROM webhooks WHERE run IS NOT NULL)";
    let has_callbacks = db.prepare_cached(calling)?.query_row([], |row| row.get(0))?;
    Ok(Unplanned { cursor, webhooks, events, has_callbacks })
}

fn listeners(db: &Connection) -> Result<Vec<Webhook>, Fault> {
    let mut select = db.prepare_cached(concat!(
        "SELECT ",
        webhook_columns!(),
        " FROM webhooks WHERE NOT failed AND run IS NULL ORDER BY id"
    ))?;
    let mut rows = select.query([])?;
    let mut webhooks = Vec::new();
    while let Some(row) = rows.next()? {
        webhooks.push(webhook(row)?);
    }
    Ok(webhooks)
}

fn cursor(db: &Connection) -> Result<LogPosition, Fault> {
    let mut select = db.prepare_cached("SELECT position FROM webhook_cursor")?;
    let mut rows = select.query([])?;
    rows.next()?.map_or(Ok(LogPosition::default()), |row| Ok(LogPosition(unsigned(row, 0)?)))
}

fn logged(db: &Connection, cursor: LogPosition, limit: usize) -> Result<Vec<Logged>, Fault> {
    let mut select = db.prepare_cached(UNPLANNED)?;
    let mut rows = select.query(params![signed(cursor.0), signed(limit as u64)])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let tags: String = row.get(6)?;
        events.push(Logged {
            position: LogPosition(unsigned(row, 0)?),
            kind: row.get(1)?,
            scope: Scope {
                tenant: row.get::<_, String>(2)?.into(),
                workspace: row.get::<_, Option<String>>(3)?.map(Workspace::from),
                mode: mode(row, 4)?,
            },
            tags: serde_json::from_str(&tags)
                .map_err(|error| Fault::unreadable("the tags of a run", error))?,
            is_replay: row.get(5)?,
        });
    }
    Ok(events)
}

/// Answers false if the cursor is not where the plan was made.
pub(super) fn plan(db: &Connection, plan: &Plan) -> Result<bool, Fault> {
    let sql = "UPDATE webhook_cursor SET position = ?2 WHERE position = ?1";
    if execute(db, sql, params![signed(plan.from.0), signed(plan.to.0)])? == 0 {
        return Ok(false);
    }
    // A webhook that was removed since gets nothing.
    let mut insert = db.prepare_cached(
        "INSERT INTO deliveries (webhook, event, attempts, due_at)
         SELECT id, ?2, 0, ?3 FROM webhooks WHERE webhook_id = ?1",
    )?;
    for planned in &plan.deliveries {
        let event = signed(planned.event.0);
        insert.execute(params![planned.webhook.as_str(), event, plan.at.as_millis()])?;
    }
    Ok(true)
}

/// The first delivery of each webhook that could be taken, and from when on.
macro_rules! firsts {
    () => {
        "SELECT webhooks.id AS webhook, first.id AS delivery, first.due_at AS due_at,
             max(first.due_at, coalesce(webhooks.rest_until, 0), coalesce(webhooks.lease_until, 0)) AS free_at
         FROM webhooks JOIN deliveries AS first ON first.id = (
             SELECT id FROM deliveries WHERE deliveries.webhook = webhooks.id AND due_at IS NOT NULL
             ORDER BY due_at, event LIMIT 1)
         WHERE NOT webhooks.failed"
    };
}

pub(super) const FREE: &str = concat!(
    "SELECT webhook, delivery FROM (",
    firsts!(),
    ") WHERE free_at <= ?1 ORDER BY due_at, webhook LIMIT ?2"
);
const NEXT: &str = concat!("SELECT min(free_at) FROM (", firsts!(), ") WHERE free_at > ?1");

/// A taken delivery whose secret is still sealed.
pub(super) struct SealedDelivery {
    id: u64,
    epoch: u64,
    webhook: Webhook,
    /// None for a callback.
    sealed_secret: Option<Vec<u8>>,
    attempts: u32,
    event: Recorded,
    workspace: Option<Workspace>,
}

impl SealedDelivery {
    pub(super) fn open(self, seal: &Seal) -> Result<Delivery, StoreError> {
        let Self { id, epoch, webhook, sealed_secret, attempts, event, workspace } = self;
        let open = |sealed: Vec<u8>| seal.open(&secret_place(&webhook.id), &sealed);
        let secret = sealed_secret.map(open).transpose().map_err(|error| {
            let what = format!("the secret of {}", webhook.id);
            StoreError::Unreadable { what, why: error.to_string() }
        })?;
        let tenant = webhook.scope.tenant.clone();
        let secret = secret.map(Secret::new);
        Ok(Delivery { id, epoch, webhook, secret, attempts, event, tenant, workspace })
    }
}

pub(super) fn take(
    db: &Connection,
    request: &TakeRequest,
) -> Result<(Vec<SealedDelivery>, Option<Timestamp>), Fault> {
    let at = request.at.as_millis();
    let next: Option<i64> = db.prepare_cached(NEXT)?.query_row([at], |row| row.get(0))?;
    let most = signed(request.most as u64);
    let free = db
        .prepare_cached(FREE)?
        .query_map(params![at, most], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(i64, i64)>, _>>()?;
    let mut taken = Vec::new();
    for (webhook, delivery) in free {
        let sql = "UPDATE webhooks SET epoch = epoch + 1, lease_until = ?2 WHERE id = ?1";
        execute(db, sql, params![webhook, request.until.as_millis()])?;
        taken.extend(read(db, delivery)?);
    }
    Ok((taken, next.map(Timestamp::from_millis)))
}

fn read(db: &Connection, delivery: i64) -> Result<Option<SealedDelivery>, Fault> {
    let mut select = db.prepare_cached(concat!(
        "SELECT ",
        webhook_columns!(),
        ", CASE WHEN webhooks.run IS NULL THEN webhooks.sealed_secret END, webhooks.epoch, deliveries.id, deliveries.attempts, runs.run_id, runs.workspace,
             runs.stamped_version, events.sequence, events.at, events.kind, events.node, events.payload,
             events.cause
         FROM deliveries JOIN webhooks ON webhooks.id = deliveries.webhook
             JOIN events ON events.position = deliveries.event JOIN runs ON runs.id = events.run
         WHERE deliveries.id = ?1"
    ))?;
    let mut rows = select.query([delivery])?;
    rows.next()?.map(sealed_delivery).transpose()
}

fn sealed_delivery(row: &Row<'_>) -> Result<SealedDelivery, Fault> {
    let column = |offset: usize| WEBHOOK_COLUMNS + offset;
    Ok(SealedDelivery {
        webhook: webhook(row)?,
        sealed_secret: row.get(column(0))?,
        epoch: unsigned(row, column(1))?,
        id: unsigned(row, column(2))?,
        attempts: row.get(column(3))?,
        workspace: row.get::<_, Option<String>>(column(5))?.map(Workspace::from),
        event: Recorded {
            run: row.get::<_, String>(column(4))?.into(),
            engine_version: row.get(column(6))?,
            sequence: unsigned(row, column(7))?,
            at: time(row, column(8))?,
            kind: row.get(column(9))?,
            node: row.get::<_, Option<String>>(column(10))?.map(NodeId::from),
            payload: payload(row, column(11))?,
            cause: cause(row, column(12))?,
        },
    })
}

/// Answers false if the lease is not the settling courier's any more.
pub(super) fn settle(db: &Connection, settlement: &Settlement) -> Result<bool, Fault> {
    let circuit = &settlement.circuit;
    let webhook: Option<i64> = db
        .prepare_cached(
            "UPDATE webhooks SET lease_until = NULL, circuit = ?3, rest_until = ?4, failed = ?5
             WHERE webhook_id = ?1 AND epoch = ?2 AND lease_until IS NOT NULL RETURNING id",
        )?
        .query_row(
            params![
                settlement.webhook.as_str(),
                signed(settlement.epoch),
                written(serde_json::to_string(circuit))?,
                millis(circuit.rest_until()),
                circuit.has_failed(),
            ],
            |row| row.get(0),
        )
        .optional()?;
    let Some(webhook) = webhook else { return Ok(false) };
    settle_one(db, settlement)?;
    if !matches!(settlement.fate, Fate::Retry { .. }) {
        execute(db, "DELETE FROM webhooks WHERE id = ?1 AND run IS NOT NULL", params![webhook])?;
    }
    settle_others(db, webhook, settlement)?;
    let forget = "DELETE FROM deliveries WHERE webhook = ?1 AND dead_at < ?2";
    execute(db, forget, params![webhook, settlement.forget_before.as_millis()])?;
    Ok(true)
}

fn settle_one(db: &Connection, settlement: &Settlement) -> Result<(), Fault> {
    let id = signed(settlement.delivery);
    match &settlement.fate {
        Fate::Gone => execute(db, "DELETE FROM deliveries WHERE id = ?1", params![id])?,
        Fate::Retry { due_at } => execute(
            db,
            "UPDATE deliveries SET attempts = attempts + 1, due_at = ?2 WHERE id = ?1",
            params![id, due_at.as_millis()],
        )?,
        Fate::Dead { reason } => execute(
            db,
            "UPDATE deliveries SET attempts = attempts + 1, due_at = NULL, dead_at = ?2, reason = ?3 WHERE id = ?1",
            params![id, settlement.at.as_millis(), reason],
        )?,
    };
    Ok(())
}

fn settle_others(db: &Connection, webhook: i64, settlement: &Settlement) -> Result<(), Fault> {
    match settlement.others {
        Others::Wait => 0,
        Others::Skip => execute(
            db,
            "DELETE FROM deliveries WHERE webhook = ?1 AND due_at IS NOT NULL",
            params![webhook],
        )?,
        Others::Bury => execute(
            db,
            "UPDATE deliveries SET due_at = NULL, dead_at = ?2, reason = ?3
             WHERE webhook = ?1 AND due_at IS NOT NULL",
            params![webhook, settlement.at.as_millis(), Others::BURIED],
        )?,
    };
    Ok(())
}

/// Ends every lease: whoever held one could not have the folder's lock.
pub(super) fn void_leases(db: &Connection) -> Result<usize, rusqlite::Error> {
    db.execute("UPDATE webhooks SET lease_until = NULL WHERE lease_until IS NOT NULL", [])
}

//! Members' work items, each kept with the run that it fires.

pub(super) mod waiting;

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use callboard_engine::{
    FiredWork, InboundDelivery, KeyMode, Kind, Scope, StoreError, StoredWork, Subscription, Waits,
    Work, WorkChange, queue_changes,
};
use callboard_protocol::RosterId;

use super::SqliteStore;
use super::create::{self, SealedRun};
use super::fault::Fault;
use super::records::{self, SealedChange};
use super::roster::in_roster;
use super::rows::{execute, scope_params, signed, unsigned};
use crate::seal::Seal;

/// What an item fires, as it goes to the disk.
struct SealedFire {
    queue: Subscription,
    delivery: InboundDelivery,
    run: SealedRun,
}

impl SealedFire {
    fn seal(fired: FiredWork, seal: &Seal) -> Result<Self, StoreError> {
        let FiredWork { queue, delivery, run } = fired;
        Ok(Self { queue, delivery, run: SealedRun::seal(run, seal)? })
    }
}

#[async_trait]
impl Work for SqliteStore {
    async fn work(&self, scope: &Scope, member: &RosterId) -> Result<Vec<StoredWork>, StoreError> {
        let (scope, member) = (scope.clone(), member.clone());
        self.readers.read(move |db| list(db, &scope, &member)).await
    }

    async fn work_item(
        &self,
        scope: &Scope,
        member: &RosterId,
        id: &str,
    ) -> Result<Option<StoredWork>, StoreError> {
        let (scope, member, id) = (scope.clone(), member.clone(), id.to_owned());
        self.readers.read(move |db| find(db, &scope, &member, &id)).await
    }

    async fn put_work(
        &self,
        change: WorkChange,
        fired: Option<FiredWork>,
    ) -> Result<(), StoreError> {
        let fired = fired.map(|fired| SealedFire::seal(fired, &self.seal)).transpose()?;
        let (changes, recent) = (Arc::clone(&self.changes), Arc::clone(&self.recent));
        let (known, kinds) = (Arc::clone(&self.records), Arc::clone(&self.kinds));
        let announce = move |fired: Option<SealedFire>, ()| {
            if let Some(SealedFire { run, .. }) = fired {
                kinds.add([Kind::Subscription, Kind::InboundDelivery]);
                known.forget(|read| read.kind() == Kind::Subscription);
                recent.begin(&run.birth, run.head.status);
                changes.announce(&run.birth.run_id, 0);
            }
        };
        let seal = Arc::clone(&self.seal);
        let write = move |db: &Connection, fired: &Option<SealedFire>| {
            put(db, &seal, &change, fired.as_ref())
        };
        self.writer.write_then(fired, write, announce).await
    }

    async fn startable_work(&self, most: usize) -> Result<Vec<(StoredWork, Waits)>, StoreError> {
        let seal = Arc::clone(&self.seal);
        self.readers.read(move |db| waiting::startable(db, &seal, most)).await
    }
}

const ITEMS: &str = concat!(
    "SELECT work_items.version, work_items.item FROM work_items
     JOIN roster ON roster.id = work_items.member WHERE roster.roster_id = ?4 AND ",
    in_roster!()
);

fn list(db: &Connection, scope: &Scope, member: &RosterId) -> Result<Vec<StoredWork>, Fault> {
    let mut select = db.prepare_cached(&format!("{ITEMS} ORDER BY work_items.id"))?;
    let (tenant, test, workspace) = scope_params(scope);
    let mut rows = select.query(params![tenant, test, workspace, member.as_str()])?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(item(row)?);
    }
    Ok(items)
}

fn find(
    db: &Connection,
    scope: &Scope,
    member: &RosterId,
    id: &str,
) -> Result<Option<StoredWork>, Fault> {
    let mut select = db.prepare_cached(&format!("{ITEMS} AND work_id = ?5"))?;
    let (tenant, test, workspace) = scope_params(scope);
    let mut rows = select.query(params![tenant, test, workspace, member.as_str(), id])?;
    rows.next()?.map(item).transpose()
}

fn item(row: &Row<'_>) -> Result<StoredWork, Fault> {
    let text: String = row.get(1)?;
    let item =
        serde_json::from_str(&text).map_err(|error| Fault::unreadable("a work item", error))?;
    Ok(StoredWork { item, version: unsigned(row, 0)? })
}

/// The run comes first: a repetition of its request must learn what the first came to, not that it lost.
fn put(
    db: &Connection,
    seal: &Seal,
    change: &WorkChange,
    fired: Option<&SealedFire>,
) -> Result<(), Fault> {
    if let Some(fired) = fired {
        create::create(db, &fired.run)?;
    }
    let moved = || StoreError::Moved { what: format!("work item {}", change.item.work_id) };
    let (tenant, test, workspace) = scope_params(&change.scope);
    let place = params![tenant, test, workspace, change.item.roster_id.as_str()];
    let member: Option<i64> = db
        .prepare_cached(concat!("SELECT id FROM roster WHERE roster_id = ?4 AND ", in_roster!()))?
        .query_row(place, |row| row.get(0))
        .optional()?;
    let member = member.ok_or_else(moved)?;
    let text = serde_json::to_string(&change.item)
        .map_err(|error| Fault::unreadable("a work item", error))?;
    let waits_test = change.waits.as_ref().map(|waits| waits.mode == KeyMode::Test);
    let waits_for = change.waits.as_ref().map(waiting::text).transpose()?;
    let written = match change.expected {
        0 => execute(
            db,
            "INSERT INTO work_items (member, work_id, version, item, waits_for, waits_test)
             VALUES (?1, ?2, 1, ?3, ?4, ?5) ON CONFLICT (member, work_id) DO NOTHING",
            params![member, change.item.work_id, text, waits_for, waits_test],
        )?,
        expected => execute(
            db,
            "UPDATE work_items SET version = version + 1, item = ?3, waits_for = ?4, waits_test = ?5
             WHERE member = ?1 AND work_id = ?2 AND version = ?6",
            params![member, change.item.work_id, text, waits_for, waits_test, signed(expected)],
        )?,
    };
    if written == 0 {
        return Err(moved().into());
    }
    let Some(SealedFire { queue, delivery, .. }) = fired else { return Ok(()) };
    let standing = records::get(db, seal, Kind::Subscription, &Subscription::key(&queue.id))?;
    let changes = queue_changes(queue, standing.as_ref(), delivery)?.into_iter();
    let changes = changes.map(|change| SealedChange::seal(change, seal));
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    records::check(db, &changes)?;
    records::apply(db, &changes)
}

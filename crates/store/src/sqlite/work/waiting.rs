//! Items that wait, found by whether their member takes something now.

use rusqlite::{Connection, params};

use callboard_engine::{KeyMode, Kind, StoredWork, Subscription, Waits};
use callboard_protocol::{RosterId, Tenant};

use super::item;
use crate::seal::Seal;
use crate::sqlite::fault::Fault;
use crate::sqlite::records;
use crate::sqlite::rows::signed;

/// A member before whom something waits.
struct Member {
    row: i64,
    tenant: Tenant,
    id: RosterId,
    mode: KeyMode,
}

/// Each of them is one step in the index of what waits.
pub(in crate::sqlite) const TAKING: &str = "WITH RECURSIVE waiting (member) AS (
         SELECT min(member) FROM work_items WHERE waits_test IS NOT NULL
         UNION ALL
         SELECT (SELECT min(member) FROM work_items WHERE waits_test IS NOT NULL AND member > waiting.member)
         FROM waiting WHERE waiting.member IS NOT NULL)
     SELECT roster.id, tenant, roster_id, test FROM waiting JOIN roster ON roster.id = waiting.member
     WHERE entry ->> 'enabled'";

pub(super) fn startable(
    db: &Connection,
    seal: &Seal,
    most: usize,
) -> Result<Vec<(StoredWork, Waits)>, Fault> {
    let mut found = Vec::new();
    for member in taking(db)? {
        let left = most.saturating_sub(found.len());
        if left > 0 && is_open(db, seal, &member)? {
            found.extend(items(db, &member, left)?);
        }
    }
    Ok(found)
}

fn taking(db: &Connection) -> Result<Vec<Member>, Fault> {
    let mut select = db.prepare_cached(TAKING)?;
    let mut rows = select.query([])?;
    let mut members = Vec::new();
    while let Some(row) = rows.next()? {
        let (tenant, id): (String, String) = (row.get(1)?, row.get(2)?);
        let mode = if row.get(3)? { KeyMode::Test } else { KeyMode::Live };
        members.push(Member { row: row.get(0)?, tenant: tenant.into(), id: id.into(), mode });
    }
    Ok(members)
}

/// A queue that is not there yet takes everything.
fn is_open(db: &Connection, seal: &Seal, member: &Member) -> Result<bool, Fault> {
    let queue = Subscription::work_queue_id(&member.tenant, &member.id, member.mode);
    let queue = records::get(db, seal, Kind::Subscription, &Subscription::key(&queue))?;
    let queue = queue.as_ref().map(Subscription::read).transpose()?;
    Ok(queue.is_none_or(|queue| queue.is_active()))
}

fn items(db: &Connection, member: &Member, most: usize) -> Result<Vec<(StoredWork, Waits)>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT version, item, waits_for FROM work_items
         WHERE member = ?1 AND waits_test = ?2 ORDER BY id LIMIT ?3",
    )?;
    let most = signed(most as u64);
    let mut rows = select.query(params![member.row, member.mode == KeyMode::Test, most])?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        let owner: String = row.get(2)?;
        let owner = serde_json::from_str(&owner)
            .map_err(|error| Fault::unreadable("whose a work item is", error))?;
        items.push((item(row)?, Waits { owner, mode: member.mode }));
    }
    Ok(items)
}

/// Whose run it becomes, as it goes to the disk.
pub(super) fn text(waits: &Waits) -> Result<String, Fault> {
    serde_json::to_string(&waits.owner)
        .map_err(|error| Fault::unreadable("whose a work item is", error))
}

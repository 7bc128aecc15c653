//! Members' work items, with the deliveries that items fire.

mod queues;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use callboard_core::{Birth, Delivered};
use callboard_protocol::{
    AgentRosterEntry, Object, Owner, RetryPolicy, RosterId, SubscriptionState, Tenant, Timestamp,
    TriggerEvent, TriggerSource, WorkItem, WorkState, WorkflowId, hex,
};

use crate::engine::{Done, Engine, EngineError, Remember};
use crate::order::Order;
use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within};
use crate::roster::{Roster, member_key, member_stands};
use crate::store::{Batch, KeyMode, NewRun, Realm, Scope, Store, StoreError};
use crate::triggers::{
    InboundDelivery, InboundState, Subscription, SubscriptionBody, Terms, Verification, dedup_key,
    queue_changes,
};

pub use queues::Queues;

/// Queues of work by member, for those who see the member. They go with it.
#[derive(Debug, Clone)]
pub struct Work {
    store: Arc<dyn Store>,
    roster: Roster,
}

/// The key of an item, below the one of its member.
fn item_key(tenant: &Tenant, member: &RosterId, id: &str) -> Key {
    Key::of([tenant.as_str(), member.as_str(), id])
}

/// What the keys of all items begin with that wait for a member.
pub(crate) fn waiting_of(realm: &Realm, member: &RosterId) -> Key {
    Key::in_realm(realm, [member.as_str()])
}

/// The key of an item that waits: those of a member stand in the order in which they were put there.
fn waiting_key(realm: &Realm, item: &WorkItem) -> Key {
    let since = format!("{:020}", item.created_at.as_millis());
    Key::in_realm(realm, [item.roster_id.as_str(), since.as_str(), item.work_id.as_str()])
}

/// An item that waits, with whose run it becomes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    roster_id: RosterId,
    work_id: String,
    owner: Owner,
}

impl Work {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { roster: Roster::new(Arc::clone(&store)), store }
    }

    /// All items of a member, oldest first.
    pub async fn work(
        &self,
        viewer: &Scope,
        member: &RosterId,
    ) -> Result<Vec<StoredWork>, StoreError> {
        if self.roster.member(viewer, member).await?.is_none() {
            return Ok(Vec::new());
        }
        let items = RecordQuery::all(Kind::WorkItem, Within::VisibleTo(viewer.clone()));
        let mut items = self.store.scan(&items.below(member_key(&viewer.tenant, member))).await?;
        items.sort_by_key(|record| record.position);
        items.iter().map(StoredWork::read).collect()
    }

    pub async fn work_item(
        &self,
        viewer: &Scope,
        member: &RosterId,
        id: &str,
    ) -> Result<Option<StoredWork>, StoreError> {
        let found = self.store.get(Kind::WorkItem, &item_key(&viewer.tenant, member, id)).await?;
        let found = found.filter(|record| viewer.includes(&record.place));
        found.as_ref().map(StoredWork::read).transpose()
    }

    /// Keeps an item with the delivery and the run that it fires, or none of them. What was decided on another
    /// version, for a member that is gone or a queue that takes nothing, is [`StoreError::Moved`].
    pub async fn put_work(
        &self,
        change: WorkChange,
        fired: Option<FiredWork>,
    ) -> Result<(), StoreError> {
        let WorkChange { scope, item, expected, waits } = change;
        let Some(member) = self.roster.member(&scope, &item.roster_id).await? else {
            return Err(StoreError::Moved { what: format!("work item {}", item.work_id) });
        };
        let place = Scope { workspace: member.entry.owner.workspace_id, ..scope };
        let expected = if expected == 0 { Expected::Absent } else { Expected::Version(expected) };
        let key = item_key(&place.tenant, &item.roster_id, &item.work_id);
        let put = RecordChange::put(Kind::WorkItem, key, place.clone(), &item)?;
        let mut records =
            vec![member_stands(&place.tenant, &item.roster_id), put.expecting(expected)];
        let waiting = waiting_key(&place.realm(), &item);
        records.push(match waits {
            Some(Waits { owner, .. }) => {
                let WorkItem { roster_id, work_id, .. } = item;
                let body = Waiting { roster_id, work_id, owner };
                RecordChange::put(Kind::WaitingWork, waiting, place, &body)?
            }
            None => RecordChange::delete(Kind::WaitingWork, waiting),
        });
        let mut batch = Batch::of_records(records);
        if let Some(FiredWork { queue, delivery, run }) = fired {
            let key = Subscription::key(&queue.id);
            let standing = self.store.get(Kind::Subscription, &key).await?;
            batch.records.extend(queue_changes(&queue, standing.as_ref(), &delivery)?);
            batch = batch.with_birth(run);
        }
        self.store.commit(batch).await
    }

    /// Up to `most` items that wait although their member and their queue take something now, for all tenants.
    pub async fn startable_work(
        &self,
        most: usize,
    ) -> Result<Vec<(StoredWork, Waits)>, StoreError> {
        let (mut startable, mut after) = (Vec::new(), None);
        // One step for each member before whom something waits, however much that is.
        while startable.len() < most {
            let next = RecordQuery { after, limit: 1, ..all_waiting() };
            let Some(first) = self.store.scan(&next).await?.pop() else { break };
            let Waiting { roster_id, .. } = first.read()?;
            let theirs = waiting_of(&first.place.realm(), &roster_id);
            after = Some(theirs.end_below());
            if self.takes_work(&first.place, &roster_id).await? {
                let left = most - startable.len();
                let waiting = RecordQuery { limit: left, ..all_waiting() }.below(theirs);
                for record in self.store.scan(&waiting).await? {
                    startable.extend(self.waiting_item(&record).await?);
                }
            }
        }
        Ok(startable)
    }

    /// Whether a member that waits for nothing else takes an item now. A queue that is not there yet takes everything.
    async fn takes_work(&self, place: &Scope, member: &RosterId) -> Result<bool, StoreError> {
        let found = self.roster.member(place, member).await?;
        if !found.is_some_and(|found| found.entry.enabled) {
            return Ok(false);
        }
        let queue = Subscription::work_queue_id(&place.tenant, member, place.mode);
        let queue = self.store.get(Kind::Subscription, &Subscription::key(&queue)).await?;
        let queue = queue.as_ref().map(Subscription::read).transpose()?;
        Ok(queue.is_none_or(|queue| queue.is_active()))
    }

    async fn waiting_item(
        &self,
        record: &Record,
    ) -> Result<Option<(StoredWork, Waits)>, StoreError> {
        let Waiting { roster_id, work_id, owner } = record.read()?;
        let found = self.work_item(&record.place, &roster_id, &work_id).await?;
        Ok(found.map(|work| (work, Waits { owner, mode: record.place.mode })))
    }
}

fn all_waiting() -> RecordQuery {
    RecordQuery::all(Kind::WaitingWork, Within::Everywhere)
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredWork {
    pub item: WorkItem,
    /// Grows by one with every change; the first is one.
    pub version: u64,
}

impl StoredWork {
    fn read(record: &Record) -> Result<Self, StoreError> {
        Ok(Self { item: record.read()?, version: record.version })
    }
}

/// An item to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkChange {
    /// Where its member is.
    pub scope: Scope,
    pub item: WorkItem,
    /// The version that the change was decided on; zero for a new item.
    pub expected: u64,
    /// Set for an item that begins by itself as soon as its member and its queue take something.
    pub waits: Option<Waits>,
}

/// Whose run an item becomes that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// Who put it there.
    pub owner: Owner,
    pub mode: KeyMode,
}

/// What an item fires.
#[derive(Debug)]
pub struct FiredWork {
    /// What it comes over; made with the first item of its queue.
    pub queue: Subscription,
    pub delivery: InboundDelivery,
    pub run: NewRun,
}

/// An item on its way over its member's queue.
#[derive(Debug)]
pub struct WorkMove {
    pub change: WorkChange,
    pub queue: Subscription,
}

impl WorkMove {
    /// The item as its member takes it.
    pub fn new(mut change: WorkChange, queue: Subscription) -> Self {
        let item = &mut change.item;
        item.state = WorkState::Doing;
        item.claimed_by = Some(item.roster_id.to_string());
        item.reason = None;
        change.waits = None;
        Self { change, queue }
    }
}

impl Subscription {
    /// Names of queues of work begin with this, and no others do.
    const WORK: &str = "work-";

    /// The name of a member's queue of work: the same for every caller, and no other member's.
    pub fn work_queue_id(tenant: &Tenant, member: &RosterId, mode: KeyMode) -> String {
        let name = member.as_str().strip_prefix(RosterId::PREFIX).unwrap_or(member.as_str());
        let mode = mode.as_str();
        let mut hasher = Sha256::new();
        for field in ["work queue", tenant.as_str(), member.as_str(), mode] {
            hasher.update((field.len() as u64).to_be_bytes());
            hasher.update(field);
        }
        let digest = hasher.finalize();
        let hex = hex(&digest[..6]);
        format!("{}{name}-{hex}", Self::WORK)
    }

    /// The subscription that stands for a member's queue of work. `first` is the workflow of its first item; each
    /// item has its own.
    pub fn work_queue(
        member: &AgentRosterEntry,
        mode: KeyMode,
        first: WorkflowId,
        at: Timestamp,
    ) -> Self {
        let (tenant, workspace) = (&member.owner.tenant_id, &member.owner.workspace_id);
        Self {
            id: Self::work_queue_id(tenant, &member.roster_id, mode),
            place: Scope { tenant: tenant.clone(), workspace: workspace.clone(), mode },
            source: TriggerSource::Queue,
            workflow: first,
            roster_id: Some(member.roster_id.clone()),
            state: SubscriptionState::Active,
            version: 1,
            body: SubscriptionBody {
                dedup: true,
                // An item that cannot begin is refused where it is put: there is nothing to try again.
                retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
                verification: Verification::None,
                mapping: Object::new(),
                terms: Terms::default(),
                fingerprint: None,
                principal: None,
                created_at: at,
                updated_at: at,
            },
        }
    }

    /// Whether only items of work come over it.
    pub fn is_work_queue(&self) -> bool {
        self.id.starts_with(Self::WORK)
    }
}

impl Engine {
    /// Keeps an item together with the delivery and the run that it fires. Once this returns, all are on disk.
    pub async fn fire_work(
        &self,
        moved: WorkMove,
        order: Order,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let WorkMove { mut change, queue } = moved;
        let at = self.inner.clock.now();
        let (mut delivery, event) = inbound(&change.item, &queue, at);
        let work_id = Some(change.item.work_id.clone());
        let delivered = |birth: &mut Birth| {
            // Not from outside: a caller with a key put it there.
            birth.delivery = Some(Delivered { work_id, ..delivery.delivered(birth, event) });
        };
        let prepared = self.prepare(order, delivered).await?;
        let run = prepared.run.id();
        delivery.state = InboundState::Delivered { run: run.clone(), at };
        change.item.run_id = Some(run.clone());
        let work = Work::new(Arc::clone(&self.inner.store));
        let write = move |record: Box<NewRun>| async move {
            work.put_work(change, Some(FiredWork { queue, delivery, run: *record })).await
        };
        Ok(self.persist_and_drive(prepared, remember, write).await?)
    }
}

/// The delivery of an item's move, and what its run is given. Moved back, the item is another thing delivered.
fn inbound(item: &WorkItem, queue: &Subscription, at: Timestamp) -> (InboundDelivery, Object) {
    let id = format!("dlv_{}_{}", item.work_id, item.moves);
    let dedup_key = dedup_key(&queue.id, &format!("{}/{}", item.work_id, item.moves));
    let content = json!({ "workId": item.work_id, "title": item.title, "move": item.moves });
    let event = TriggerEvent {
        source: queue.source,
        subscription_id: queue.id.clone(),
        delivery_id: String::new(),
        dedup_key: Some(dedup_key.clone()),
        received_at: at,
        verified: true,
        content_trust: "untrusted".to_owned(),
        webhook: None,
        email: None,
        form: None,
        queue: Some(content),
        event: None,
    };
    let content = serde_json::to_value(&event).ok().and_then(|event| match event {
        serde_json::Value::Object(event) => Some(event),
        _ => None,
    });
    (InboundDelivery::new(queue, id, dedup_key, &event, at), content.unwrap_or_default())
}

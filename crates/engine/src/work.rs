//! The port to members' work items, with the deliveries that items fire.

mod queues;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use callboard_core::{Birth, Delivered};
use callboard_protocol::{
    AgentRosterEntry, Object, Owner, RetryPolicy, RosterId, SubscriptionState, Tenant, Timestamp,
    TriggerEvent, TriggerSource, WorkItem, WorkState, WorkflowId, hex,
};

use crate::engine::{Done, Engine, EngineError, Remember};
use crate::order::Order;
use crate::store::{KeyMode, NewRun, Scope, StoreError};
use crate::triggers::{
    InboundDelivery, InboundState, Subscription, SubscriptionBody, Verification, dedup_key,
};

pub use queues::Queues;

/// Queues of work by member, for those who see the member. They go with it.
#[async_trait]
pub trait Work: fmt::Debug + Send + Sync {
    /// All items of a member, oldest first.
    async fn work(&self, scope: &Scope, member: &RosterId) -> Result<Vec<StoredWork>, StoreError>;

    async fn work_item(
        &self,
        scope: &Scope,
        member: &RosterId,
        id: &str,
    ) -> Result<Option<StoredWork>, StoreError>;

    /// Keeps an item with the delivery and the run that it fires, or none of them. What was decided on another
    /// version, for a member that is gone or a queue that takes nothing, is [`StoreError::Moved`].
    async fn put_work(
        &self,
        change: WorkChange,
        fired: Option<FiredWork>,
    ) -> Result<(), StoreError>;

    /// Up to `most` items that wait although their member and their queue take something now, for all tenants.
    async fn startable_work(&self, most: usize) -> Result<Vec<(StoredWork, Waits)>, StoreError>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredWork {
    pub item: WorkItem,
    /// Grows by one with every change; the first is one.
    pub version: u64,
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
    /// Whoever put it there.
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

    /// The name of a member's queue of work: the same whoever asks, and nobody else's.
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
        work: Arc<dyn Work>,
        moved: WorkMove,
        order: Order,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let WorkMove { mut change, queue } = moved;
        let at = self.inner.clock.now();
        let (mut delivery, event) = inbound(&change.item, &queue, at);
        let work_id = Some(change.item.work_id.clone());
        let delivered = |birth: &mut Birth| {
            // Not from outside: somebody of the house put it there.
            birth.delivery = Some(Delivered { work_id, ..delivery.delivered(birth, event) });
        };
        let newborn = self.conceive_with(order, delivered).await?;
        let run = newborn.run.id();
        delivery.state = InboundState::Delivered { run: run.clone(), at };
        change.item.run_id = Some(run.clone());
        let write = move |record: Box<NewRun>| async move {
            work.put_work(change, Some(FiredWork { queue, delivery, run: *record })).await
        };
        Ok(self.bring_up_with(newborn, remember, write).await?)
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
    };
    let content = serde_json::to_value(&event).ok().and_then(|event| match event {
        serde_json::Value::Object(event) => Some(event),
        _ => None,
    });
    (InboundDelivery::new(queue, id, dedup_key, &event, at), content.unwrap_or_default())
}

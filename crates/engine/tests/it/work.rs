//! Work that waits in simulated time: it begins once its member is resumed, whoever dies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use callboard_engine::{
    Clock, Filter, InMemoryStore, Listed, Queues, Roster, Store, Subscription, Triggers, Waits,
    Work, WorkChange,
};
use callboard_protocol::{
    AgentRosterEntry, Object, Owner, SubscriptionState, Timestamp, WorkItem, WorkState,
};

use crate::roster::{member, noop};
use crate::sim::{Fate, SimClock, doomed_store, host, scope};

const SALLY: &str = "host:sally";

struct World {
    store: Arc<InMemoryStore>,
    clock: Arc<SimClock>,
}

impl World {
    /// A paused member, before whom these items wait.
    async fn new(items: &[&str]) -> Self {
        let world = Self { store: Arc::new(InMemoryStore::new()), clock: SimClock::new() };
        Roster::new(world.store.clone())
            .hire(scope().mode, sally(false), Timestamp::default())
            .await
            .unwrap();
        for id in items {
            world.put(id, "campaign").await;
        }
        world
    }

    async fn put(&self, id: &str, workflow: &str) {
        let owner =
            Owner { tenant: "default".into(), workspace: None, principal: Some("key:k".into()) };
        let waits = Some(Waits { owner, mode: scope().mode });
        let item = item(id, workflow, self.clock.now());
        let change = WorkChange { scope: scope(), item, expected: 0, waits };
        Work::new(self.store.clone()).put_work(change, None).await.unwrap();
    }

    fn host(&self, name: &str, fate: Fate) -> Queues {
        let store = doomed_store(self.store.clone(), fate);
        let engine = host(name, store.clone(), self.clock.clone(), &[noop()]);
        let queues = Queues::new(engine);
        queues.start();
        queues
    }

    async fn set_enabled(&self, enabled: bool) {
        let found =
            Roster::new(self.store.clone()).member(&scope(), &SALLY.into()).await.unwrap().unwrap();
        Roster::new(self.store.clone())
            .change(found.mode, sally(enabled), found.version)
            .await
            .unwrap();
    }

    async fn runs(&self) -> Vec<Listed> {
        let filter = Filter { limit: usize::MAX, ..Filter::default() };
        self.store.list(&scope(), &filter).await.unwrap()
    }

    async fn items(&self) -> Vec<WorkItem> {
        let kept = Work::new(self.store.clone()).work(&scope(), &SALLY.into()).await.unwrap();
        kept.into_iter().map(|kept| kept.item).collect()
    }
}

fn sally(enabled: bool) -> AgentRosterEntry {
    AgentRosterEntry { enabled, ..member(SALLY, &["campaign", "gone"]) }
}

fn item(id: &str, workflow: &str, at: Timestamp) -> WorkItem {
    WorkItem {
        work_id: id.to_owned(),
        roster_id: SALLY.into(),
        title: id.to_owned(),
        workflow_id: workflow.into(),
        inputs: Object::new(),
        state: WorkState::Todo,
        claimed_by: None,
        reason: Some("the member is paused".to_owned()),
        moves: 1,
        run_id: None,
        run_status: None,
        created_at: at,
        updated_at: at,
    }
}

async fn a_while() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}

/// Two hosts look; one of them dies before or after each of its writes, or sleeps through its lease.
#[tokio::test(start_paused = true)]
async fn what_waited_begins_once_when_its_member_is_resumed_whoever_dies() {
    for write in 1..=8 {
        let fates = [Fate::Live, Fate::DieBefore(write), Fate::DieAfter(write)];
        for fate in fates.into_iter().chain([Fate::Oversleep(write)]) {
            let world = World::new(&["a", "b", "c"]).await;
            let (first, second) = (world.host("first", fate), world.host("second", Fate::Live));
            a_while().await;
            assert!(world.runs().await.is_empty(), "{fate:?}: nothing fires while she is paused");
            world.set_enabled(true).await;
            first.wake();
            second.wake();
            a_while().await;
            let runs = world.runs().await;
            assert!(runs.iter().all(|run| run.status.is_terminal()), "{fate:?}");
            let started: BTreeSet<_> = runs.into_iter().map(|run| run.run_id).collect();
            let items = world.items().await;
            assert!(items.iter().all(|item| item.state == WorkState::Doing), "{items:?}");
            assert!(items.iter().all(|item| item.reason.is_none()), "{items:?}");
            let told: BTreeSet<_> = items.into_iter().filter_map(|item| item.run_id).collect();
            assert_eq!((started.len(), told), (3, started), "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_holds_its_items_until_it_is_resumed() {
    let world = World::new(&["a"]).await;
    let host = world.host("one", Fate::Live);
    world.set_enabled(true).await;
    host.wake();
    a_while().await;
    assert_eq!(world.runs().await.len(), 1);
    let queue = Subscription::work_queue_id(&"default".into(), &SALLY.into(), scope().mode);
    let triggers = Triggers::new(world.store.clone());
    let mut queue = triggers.subscription(&scope(), &queue).await.unwrap().unwrap();
    let mut set = async |state| {
        queue.state = state;
        queue.version += 1;
        let (changed, expected) = (queue.clone(), queue.version - 1);
        triggers.change_subscription(changed, expected, None, None).await.unwrap();
    };
    set(SubscriptionState::Paused).await;
    world.put("b", "campaign").await;
    a_while().await;
    assert_eq!(world.runs().await.len(), 1);
    set(SubscriptionState::Active).await;
    a_while().await;
    assert_eq!(world.runs().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_begin_is_left_to_a_person_with_the_reason() {
    let world = World::new(&[]).await;
    world.put("of nobody", "other").await;
    world.put("of nothing", "gone").await;
    world.put("good", "campaign").await;
    let _host = world.host("one", Fate::Live);
    world.set_enabled(true).await;
    a_while().await;
    let items = world.items().await;
    let reasons: Vec<Option<&str>> = items.iter().map(|item| item.reason.as_deref()).collect();
    let expected = [Some("the member does not own the workflow"), Some("no workflow gone"), None];
    assert_eq!(reasons, expected);
    assert_eq!(items[1].state, WorkState::Todo);
    assert_eq!(world.runs().await.len(), 1);
    assert!(
        Work::new(world.store.clone()).startable_work(9).await.unwrap().is_empty(),
        "they are not tried again"
    );
}

//! Receivers that misbehave on command, a host that dies between two writes, and a world around them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::InterruptView;
use callboard_engine::{
    Care, Clock, Courier, DeadLetter, Deliver, DeliverError, Engine, InMemoryStore, Order, Parcel,
    Plan, Realm, Registration, Scope, Secret, Settlement, SignCallbacks, StoreError, TakeRequest,
    Taken, Unplanned, Webhook, Webhooks,
};
use callboard_protocol::{Object, RunId, Timestamp, WebhookId};

use crate::sim::{DoomedStore, Fate, SimClock, host, order, scope};

/// How the receiver at one address behaves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Receiver {
    Answers(u16),
    Takes(Duration),
    Hangs,
    Refuses,
    /// Its answer brings down whoever reads it.
    Poisons,
}

#[derive(Debug)]
struct Letter {
    to: String,
    at: tokio::time::Instant,
    body: Value,
    is_taken: bool,
}

/// Every receiver there is. Whoever was not told otherwise answers 204.
#[derive(Debug, Default)]
pub(super) struct Post {
    receivers: Mutex<BTreeMap<String, Receiver>>,
    letters: Mutex<Vec<Letter>>,
    /// Requests under way per address, and the most there ever were.
    at_once: Mutex<BTreeMap<String, (usize, usize)>>,
}

impl Post {
    pub(super) fn set(&self, name: &str, receiver: Receiver) {
        self.receivers.lock().unwrap().insert(name.to_owned(), receiver);
    }

    fn receiver(&self, name: &str) -> Receiver {
        self.receivers.lock().unwrap().get(name).copied().unwrap_or(Receiver::Answers(204))
    }

    fn read<T>(&self, name: &str, read: impl Fn(&Letter) -> T) -> Vec<T> {
        let letters = self.letters.lock().unwrap();
        letters.iter().filter(|letter| letter.to == name).map(read).collect()
    }

    /// The types of the events that were sent there, attempts included.
    pub(super) fn kinds(&self, name: &str) -> Vec<String> {
        self.read(name, |letter| letter.body["type"].as_str().unwrap().to_owned())
    }

    /// The events that were taken in.
    pub(super) fn arrived(&self, name: &str) -> Vec<String> {
        let ids = self.read(name, |letter| {
            letter.is_taken.then(|| letter.body["event"]["eventId"].as_str().unwrap().to_owned())
        });
        ids.into_iter().flatten().collect()
    }

    /// What was sent there, attempts included.
    pub(super) fn bodies(&self, name: &str) -> Vec<Value> {
        self.read(name, |letter| letter.body.clone())
    }

    /// Seconds between two requests.
    pub(super) fn gaps(&self, name: &str) -> Vec<u64> {
        let times = self.read(name, |letter| letter.at);
        times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect()
    }

    pub(super) fn most_at_once(&self, name: &str) -> usize {
        self.at_once.lock().unwrap().get(name).map_or(0, |(_, most)| *most)
    }

    fn count(&self, name: &str, begins: bool) {
        let mut at_once = self.at_once.lock().unwrap();
        let (now, most) = at_once.entry(name.to_owned()).or_default();
        *now = if begins { *now + 1 } else { *now - 1 };
        *most = (*most).max(*now);
    }
}

#[async_trait]
impl Deliver for Post {
    async fn admit(&self, url: &str) -> Result<(), DeliverError> {
        match self.receiver(url) {
            Receiver::Refuses => Err(DeliverError::Refused("not public".to_owned())),
            Receiver::Answers(_) | Receiver::Takes(_) | Receiver::Hangs | Receiver::Poisons => {
                Ok(())
            }
        }
    }

    async fn post(&self, parcel: Parcel) -> Result<u16, DeliverError> {
        let receiver = self.receiver(&parcel.url);
        let is_taken = matches!(receiver, Receiver::Answers(200..=299) | Receiver::Takes(_));
        let body = serde_json::from_str(&parcel.body).unwrap();
        let at = tokio::time::Instant::now();
        let letter = Letter { to: parcel.url.clone(), at, body, is_taken };
        self.letters.lock().unwrap().push(letter);
        match receiver {
            Receiver::Answers(status) => Ok(status),
            Receiver::Takes(time) => {
                self.count(&parcel.url, true);
                tokio::time::sleep(time).await;
                self.count(&parcel.url, false);
                Ok(200)
            }
            Receiver::Hangs => std::future::pending().await,
            Receiver::Poisons => panic!("on command"),
            Receiver::Refuses => Err(DeliverError::Refused("not public".to_owned())),
        }
    }
}

pub(super) struct World {
    pub(super) store: Arc<InMemoryStore>,
    pub(super) post: Arc<Post>,
    pub(super) courier: Courier,
    pub(super) engine: Engine,
    clock: Arc<SimClock>,
}

/// Signs with what anybody can read.
#[derive(Debug)]
struct Plain;

#[async_trait]
impl SignCallbacks for Plain {
    async fn token(
        &self,
        realm: &Realm,
        run: &RunId,
        question: &InterruptView,
        _: Timestamp,
    ) -> Result<String, StoreError> {
        Ok(format!("{}/{run}/{}", realm.tenant, question.id))
    }

    async fn secret(&self, place: &Scope) -> Result<Secret, StoreError> {
        Ok(Secret::new(place.tenant.to_string()))
    }
}

/// Long enough for everything that needs no waiting.
pub(super) async fn settled() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

impl World {
    /// One host that delivers.
    pub(super) fn new() -> Self {
        let world = Self::silent();
        world.courier.start();
        world
    }

    /// One host that runs workflows and delivers nothing.
    pub(super) fn silent() -> Self {
        let store = Arc::new(InMemoryStore::new());
        let clock = SimClock::new();
        let engine = engine("one", &store, &clock);
        let post = Arc::new(Post::default());
        let courier = Courier::new(engine.clone(), store.clone(), post.clone(), Arc::new(Plain));
        Self { store, post, courier, clock, engine }
    }

    /// Another host that delivers, with its own view of the webhooks.
    pub(super) fn host(&self, name: &str, webhooks: Arc<dyn Webhooks>) -> Courier {
        let engine = engine(name, &self.store, &self.clock);
        let courier = Courier::new(engine, webhooks, self.post.clone(), Arc::new(Plain));
        courier.start();
        courier
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) async fn register(&self, scope: Scope, registration: Registration) {
        self.courier.register(scope, registration).await.unwrap();
    }

    /// Runs a workflow of one node: four events.
    pub(super) async fn run(&self, change: impl FnOnce(&mut Order)) -> RunId {
        let mut order = order("only", Object::new(), Object::new());
        change(&mut order);
        let run = self.engine.create(order, None).await.unwrap().run;
        settled().await;
        run
    }

    /// The addresses of webhooks whose circuit is open.
    pub(super) async fn resting(&self) -> Vec<String> {
        let webhooks = self.courier.list(&scope()).await.unwrap();
        let resting = webhooks.into_iter().filter(|webhook| webhook.circuit.is_open(self.now()));
        resting.map(|webhook| webhook.url).collect()
    }

    pub(super) async fn dead_letters(&self, name: &str) -> Vec<(RunId, String, u32, String)> {
        let letters = self.courier.dead_letters(&scope(), &id(name), 100).await.unwrap().unwrap();
        let read = |letter: DeadLetter| (letter.run, letter.kind, letter.attempts, letter.reason);
        letters.into_iter().map(read).collect()
    }
}

fn engine(name: &str, store: &Arc<InMemoryStore>, clock: &Arc<SimClock>) -> Engine {
    let definitions = [
        definition("only", "core.noop", &json!({})),
        definition("asks", "core.approvalGate", &json!({ "title": "Ship it?" })),
        definition("calls", "core.subWorkflow", &json!({ "workflowId": "asks" })),
    ];
    let store = DoomedStore::new(store.clone(), Fate::Live);
    host(name, store, clock.clone(), &definitions)
}

/// A workflow of one node.
fn definition(id: &str, type_id: &str, config: &Value) -> String {
    let node = json!({
        "id": "a", "typeId": type_id, "name": "a", "position": { "x": 0, "y": 0 }, "config": config, "inputs": {},
    });
    let definition = json!({
        "id": id, "name": id, "version": "1.0", "nodes": [node], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
    });
    definition.to_string()
}

fn id(name: &str) -> WebhookId {
    format!("wh_{name}").into()
}

/// A best-effort webhook whose address is its name.
pub(super) fn only(name: &str, events: &[&str]) -> Registration {
    Registration {
        id: id(name),
        url: name.to_owned(),
        events: events.iter().map(|event| (*event).to_owned()).collect(),
        tags: Vec::new(),
        care: Care::BestEffort,
        secret: Secret::new(format!("secret-of-{name}")),
    }
}

pub(super) fn durable(name: &str, events: &[&str]) -> Registration {
    Registration { care: Care::Durable, ..only(name, events) }
}

/// Where a process dies: at which of its writes, and on which side of the commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    write: u64,
    is_committed: bool,
}

/// Every write of a host that plans once and sends four deliveries, and some beyond.
pub(super) fn steps() -> Vec<Step> {
    let sides = |write| [false, true].map(|is_committed| Step { write, is_committed });
    (1..=14).flat_map(sides).collect()
}

/// One process's view of the webhooks.
#[derive(Debug)]
pub(super) struct Doomed {
    inner: Arc<InMemoryStore>,
    step: Step,
    writes: AtomicU64,
    is_dead: AtomicBool,
    lost_an_outcome: AtomicBool,
}

impl Doomed {
    pub(super) fn new(inner: Arc<InMemoryStore>, step: Step) -> Arc<Self> {
        Arc::new(Self {
            inner,
            step,
            writes: AtomicU64::new(0),
            is_dead: AtomicBool::new(false),
            lost_an_outcome: AtomicBool::new(false),
        })
    }

    /// Whether it was about to write down what became of an attempt.
    pub(super) fn lost_an_outcome(&self) -> bool {
        self.lost_an_outcome.load(Ordering::Relaxed)
    }

    async fn live(&self) {
        if self.is_dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// Does a write, or dies before or after it.
    async fn write<T>(&self, write: impl Future<Output = T>) -> T {
        self.live().await;
        let is_last = self.writes.fetch_add(1, Ordering::Relaxed) + 1 == self.step.write;
        if is_last {
            self.is_dead.store(true, Ordering::Relaxed);
        }
        if is_last && !self.step.is_committed {
            return std::future::pending().await;
        }
        let written = write.await;
        if is_last {
            return std::future::pending().await;
        }
        written
    }
}

#[async_trait]
impl Webhooks for Doomed {
    async fn register_webhook(&self, webhook: Webhook, secret: Secret) -> Result<(), StoreError> {
        self.inner.register_webhook(webhook, secret).await
    }

    async fn webhooks(&self, scope: &Scope) -> Result<Vec<Webhook>, StoreError> {
        self.inner.webhooks(scope).await
    }

    async fn remove_webhook(&self, scope: &Scope, id: &WebhookId) -> Result<bool, StoreError> {
        self.inner.remove_webhook(scope, id).await
    }

    async fn dead_letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        since: Timestamp,
        limit: usize,
    ) -> Result<Option<Vec<DeadLetter>>, StoreError> {
        self.inner.dead_letters(scope, id, since, limit).await
    }

    async fn read_unplanned(&self, limit: usize) -> Result<Unplanned, StoreError> {
        self.live().await;
        self.inner.read_unplanned(limit).await
    }

    async fn plan_deliveries(&self, plan: Plan) -> Result<bool, StoreError> {
        self.write(self.inner.plan_deliveries(plan)).await
    }

    async fn take_deliveries(&self, request: &TakeRequest) -> Result<Taken, StoreError> {
        self.write(self.inner.take_deliveries(request)).await
    }

    async fn settle_delivery(&self, settlement: Settlement) -> Result<bool, StoreError> {
        let is_lost = self.is_dead.load(Ordering::Relaxed)
            || (self.writes.load(Ordering::Relaxed) + 1 == self.step.write
                && !self.step.is_committed);
        if is_lost {
            self.lost_an_outcome.store(true, Ordering::Relaxed);
        }
        self.write(self.inner.settle_delivery(settlement)).await
    }
}

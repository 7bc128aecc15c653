//! Receivers that misbehave on command, and a world around them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::InterruptView;
use callboard_engine::{
    Care, Clock, DeadLetter, Deliver, DeliverError, DeliveryLoop, Engine, InMemoryStore, Order,
    Parcel, Realm, Registration, Scope, Secret, SignCallbacks, Store, StoreError,
};
use callboard_protocol::{Object, RunId, Timestamp, WebhookId};

use crate::sim::{Fate, SimClock, doomed_store, host, order, scope};

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
    async fn admit(&self, _: &callboard_protocol::Tenant, url: &str) -> Result<(), DeliverError> {
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
    pub(super) courier: DeliveryLoop,
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
        _: (Timestamp, callboard_protocol::Dialect),
    ) -> Result<String, StoreError> {
        Ok(format!("{}/{run}/{}", realm.tenant, question.id))
    }

    async fn secret(&self, place: &Scope) -> Result<Secret, StoreError> {
        Ok(Secret::new(place.tenant.to_string()))
    }

    async fn project(
        &self,
        _: &callboard_engine::Webhook,
        _: &callboard_engine::Recorded,
    ) -> Result<Option<callboard_engine::TranslatedEvent>, callboard_engine::ProjectError> {
        Ok(None)
    }

    fn project_callback(&self, _: &Scope, body: serde_json::Value) -> serde_json::Value {
        body
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
        let courier =
            DeliveryLoop::new(engine.clone(), store.clone(), post.clone(), Arc::new(Plain));
        Self { store, post, courier, clock, engine }
    }

    /// Another host that delivers, with its own view of the store.
    pub(super) fn host(&self, name: &str, store: Arc<dyn Store>) -> DeliveryLoop {
        let engine = engine(name, &self.store, &self.clock);
        let courier = DeliveryLoop::new(engine, store, self.post.clone(), Arc::new(Plain));
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
    let store = doomed_store(store.clone(), Fate::Live);
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

pub(super) fn id(name: &str) -> WebhookId {
    format!("wh_{name}").into()
}

/// A best-effort webhook whose address is its name.
pub(super) fn only(name: &str, events: &[&str]) -> Registration {
    Registration {
        dialect: callboard_protocol::Dialect::V1,
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

/// Every write of a host that plans once and sends four deliveries, and some beyond: it dies before or after it.
pub(super) fn fates() -> Vec<Fate> {
    (1..=14).flat_map(|write| [Fate::DieBefore(write), Fate::DieAfter(write)]).collect()
}

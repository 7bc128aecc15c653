//! Webhooks: registered, told of what happens, given up, and removed with whatever was on its way; and questions that are
//! brought to their run's own address.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::InterruptView;
use callboard_engine::{
    Care, Circuit, Deliver, DeliverError, DeliveryLoop, Fate, Kind, Letters, Order, Others, Parcel,
    Plan, Planned, Realm, RecordQuery, Registration, RegistrationError, Scope, Secret, Settlement,
    SignCallbacks, Store, StoreError, TakeRequest, Webhooks, Within,
};
use callboard_protocol::{Object, RunId, Timestamp};

use super::scenario::{Host, Scenario, runs};
use crate::sim::{order, scope};
use crate::simulation::node;
use crate::world::workflow;

pub(super) struct OutboundDeliveries;

/// Takes whatever comes.
#[derive(Debug)]
struct Receiver;

#[async_trait]
impl Deliver for Receiver {
    async fn admit(&self, _: &callboard_protocol::Tenant, _: &str) -> Result<(), DeliverError> {
        Ok(())
    }

    async fn post(&self, _: Parcel) -> Result<u16, DeliverError> {
        Ok(204)
    }
}

#[async_trait]
impl SignCallbacks for Receiver {
    async fn token(
        &self,
        _: &Realm,
        _: &RunId,
        _: &InterruptView,
        _: (Timestamp, callboard_protocol::Dialect),
    ) -> Result<String, StoreError> {
        Ok("token".to_owned())
    }

    async fn secret(&self, _: &Scope) -> Result<Secret, StoreError> {
        Ok(Secret::new("secret".to_owned()))
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

fn deliveries(host: &Host) -> DeliveryLoop {
    let store = Arc::clone(&host.store);
    DeliveryLoop::new(host.engine.clone(), store, Arc::new(Receiver), Arc::new(Receiver))
}

async fn register(host: &Host, id: &str) {
    let registration = Registration {
        dialect: callboard_protocol::Dialect::V1,
        id: id.into(),
        url: id.to_owned(),
        events: vec!["*".to_owned()],
        tags: Vec::new(),
        care: Care::Durable,
        secret: Secret::new("secret".to_owned()),
    };
    match deliveries(host).register(scope(), registration).await {
        // The one that got no answer was kept.
        Ok(()) | Err(RegistrationError::Store(StoreError::Moved { .. })) => {}
        Err(error) => panic!("{error}"),
    }
}

#[async_trait(?Send)]
impl Scenario for OutboundDeliveries {
    fn start(&self, host: &Host) {
        deliveries(host).start();
    }

    fn steps(&self) -> usize {
        4
    }

    async fn act(&self, host: &Host, step: usize) {
        match step {
            0 => register(host, "wh_stays").await,
            1 => register(host, "wh_goes").await,
            2 => {
                let order = order("campaign", Object::new(), Object::new());
                let create = async |remember| host.engine.create(order, Some(remember)).await;
                host.once("order", create).await;
            }
            _ => drop(deliveries(host).remove(&scope(), &"wh_goes".into()).await.unwrap()),
        }
    }

    /// A delivery that a dead process held waits for the end of its lease.
    fn settles_in(&self) -> Duration {
        Duration::from_secs(90)
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let webhooks = Webhooks::new(Arc::clone(&store));
        let listed = webhooks.webhooks(&scope()).await.unwrap().into_iter();
        let listed: Vec<_> = listed.map(|webhook| (webhook.id, webhook.url)).collect();
        let on_its_way = RecordQuery::all(Kind::WebhookDelivery, Within::Everywhere);
        let planned = webhooks.planned_until().await.unwrap();
        let is_planned = planned == Some(store.newest().await.unwrap());
        json!([listed, store.scan(&on_its_way).await.unwrap().len(), is_planned])
    }
}

/// How many records of a kind are there.
async fn count(store: &dyn Store, kind: Kind) -> usize {
    store.scan(&RecordQuery::all(kind, Within::Everywhere)).await.unwrap().len()
}

/// Deliveries that are given up, attempt by attempt, without the loop that would take an hour and a half for it.
pub(super) struct DeadLetters;

async fn plan(host: &Host) {
    let webhooks = Webhooks::new(Arc::clone(&host.store));
    let unplanned = webhooks.read_unplanned(100).await.unwrap();
    let planned = unplanned.events.iter().map(|event| Planned::of(&"wh_dead".into(), event));
    let (from, to) = (unplanned.cursor, unplanned.until);
    let plan = Plan { from, to, at: host.now(), deliveries: planned.collect() };
    webhooks.plan_deliveries(plan).await.unwrap();
}

async fn give_up(host: &Host) {
    let webhooks = Webhooks::new(Arc::clone(&host.store));
    while count(&*host.store, Kind::WebhookDelivery).await > 0 {
        let (at, counted) = (host.now(), host.engine.clock().counted());
        let request = TakeRequest { at, counted, lease: Duration::from_secs(5), most: 1 };
        let taken = webhooks.take_deliveries(&request).await.unwrap();
        for delivery in &taken.deliveries {
            let fate = Fate::Dead { reason: "refused".to_owned() };
            let (circuit, others) = (Circuit::default(), Others::Wait);
            let settlement = Settlement { at, fate, circuit, others };
            webhooks.settle_delivery(delivery, &settlement).await.unwrap();
        }
        if taken.deliveries.is_empty() {
            // A dead process holds one.
            host.rest(1).await;
        }
    }
}

#[async_trait(?Send)]
impl Scenario for DeadLetters {
    fn steps(&self) -> usize {
        7
    }

    async fn act(&self, host: &Host, step: usize) {
        match step {
            0 => register(host, "wh_dead").await,
            1 => {
                let order = order("campaign", Object::new(), Object::new());
                let create = async |remember| host.engine.create(order, Some(remember)).await;
                host.once("order", create).await;
            }
            // Until the run has ended, whoever drives it.
            2 => host.wait_until(20).await,
            3 => plan(host).await,
            5 => {
                let webhooks = Webhooks::new(Arc::clone(&host.store));
                let (id, now) = ("wh_dead".into(), host.now());
                webhooks.resend_letters(&scope(), &id, Letters::All, now).await.unwrap();
            }
            _ => give_up(host).await,
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let webhooks = Webhooks::new(Arc::clone(&store));
        let since = Timestamp::default();
        let letters =
            webhooks.dead_letters(&scope(), &"wh_dead".into(), (since, None), 99).await.unwrap();
        // A run that was taken over tells of it.
        let letters = letters.unwrap().len().min(3);
        json!([letters, count(&*store, Kind::WebhookDelivery).await])
    }
}

/// A question that is brought to its run's own address.
pub(super) struct Callbacks;

#[async_trait(?Send)]
impl Scenario for Callbacks {
    fn definitions(&self) -> Vec<String> {
        let gate = node("a", "core.approvalGate", json!({ "title": "Ship it?" }));
        vec![workflow("asks", &[gate]).to_string()]
    }

    fn start(&self, host: &Host) {
        deliveries(host).start();
    }

    fn steps(&self) -> usize {
        1
    }

    async fn act(&self, host: &Host, _: usize) {
        let order = order("asks", Object::new(), Object::new());
        let order = Order { callback_url: Some("https://example.com/ask".to_owned()), ..order };
        let create = async |remember| host.engine.create(order, Some(remember)).await;
        host.once("asks", create).await;
    }

    fn settles_in(&self) -> Duration {
        Duration::from_secs(90)
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        json!([count(&*store, Kind::Callback).await, runs(&*store).await])
    }
}

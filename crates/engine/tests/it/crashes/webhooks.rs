//! Webhooks: registered, told of what happens, and removed with whatever was on its way.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::InterruptView;
use callboard_engine::{
    Care, Deliver, DeliverError, DeliveryLoop, Kind, Parcel, Realm, RecordQuery, Registration,
    RegistrationError, Scope, Secret, SignCallbacks, Store, StoreError, Webhooks, Within,
};
use callboard_protocol::{Object, RunId, Timestamp};

use super::scenario::{Host, Scenario};
use crate::sim::{order, scope};

pub(super) struct OutboundDeliveries;

/// Takes whatever comes.
#[derive(Debug)]
struct Receiver;

#[async_trait]
impl Deliver for Receiver {
    async fn admit(&self, _: &str) -> Result<(), DeliverError> {
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
        _: Timestamp,
    ) -> Result<String, StoreError> {
        Ok("token".to_owned())
    }

    async fn secret(&self, _: &Scope) -> Result<Secret, StoreError> {
        Ok(Secret::new("secret".to_owned()))
    }
}

fn courier(host: &Host) -> DeliveryLoop {
    let store = Arc::clone(&host.store);
    DeliveryLoop::new(host.engine.clone(), store, Arc::new(Receiver), Arc::new(Receiver))
}

async fn register(host: &Host, id: &str) {
    let registration = Registration {
        id: id.into(),
        url: id.to_owned(),
        events: vec!["*".to_owned()],
        tags: Vec::new(),
        care: Care::Durable,
        secret: Secret::new("secret".to_owned()),
    };
    match courier(host).register(scope(), registration).await {
        // The one that got no answer was kept.
        Ok(()) | Err(RegistrationError::Store(StoreError::Moved { .. })) => {}
        Err(error) => panic!("{error}"),
    }
}

#[async_trait(?Send)]
impl Scenario for OutboundDeliveries {
    fn start(&self, host: &Host) {
        courier(host).start();
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
            _ => drop(courier(host).remove(&scope(), &"wh_goes".into()).await.unwrap()),
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

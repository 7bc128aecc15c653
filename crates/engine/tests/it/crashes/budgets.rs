//! Days of accounts: what calls reserve, and what people grant.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::Outcome;
use callboard_engine::{
    Activities, Activity, BudgetAccount, Budgets, Call, Claim, KeyMode, Kind, RecordQuery, Spent,
    Store, StoreError, Within,
};
use callboard_protocol::{BudgetDimension, Object};

use super::scenario::{Host, Scenario};
use crate::sim::order;
use crate::simulation::node;
use crate::world::workflow;

/// A run that is held for as long as anybody lives, and what is reserved under its claim.
#[derive(Default)]
pub(super) struct BudgetDays {
    held: Held,
}

/// The claim under which the run is held now.
type Held = Arc<Mutex<Option<Claim>>>;

#[derive(Debug)]
struct Holder(Held);

#[async_trait]
impl Activity for Holder {
    async fn perform(&self, call: Call) -> Outcome {
        *self.0.lock().unwrap() = Some(call.claim().clone());
        std::future::pending().await
    }
}

fn tenant() -> BudgetAccount {
    BudgetAccount { tenant: "default".into(), mode: KeyMode::Live, member: None }
}

impl BudgetDays {
    async fn reserve(&self, host: &Host, tokens: u64) {
        let estimate = Spent { input_tokens: tokens, ..Spent::default() };
        let budgets = Budgets::new(Arc::clone(&host.store));
        loop {
            let claim = self.held.lock().unwrap().clone();
            if let Some(claim) = claim {
                match budgets.reserve(&tenant(), &claim, &"a".into(), 1, estimate).await {
                    Err(StoreError::LeaseLost { .. }) => {}
                    reserved => return reserved.unwrap(),
                }
            }
            host.rest(1).await;
        }
    }
}

#[async_trait(?Send)]
impl Scenario for BudgetDays {
    fn definitions(&self) -> Vec<String> {
        vec![workflow("holds", &[node("a", "test.holder", json!({}))]).to_string()]
    }

    fn activities(&self, _: &Arc<dyn Store>) -> Activities {
        Activities::default().with("test.holder", Arc::new(Holder(self.held.clone())))
    }

    fn reset(&self) {
        *self.held.lock().unwrap() = None;
    }

    fn steps(&self) -> usize {
        5
    }

    async fn act(&self, host: &Host, step: usize) {
        let budgets = Budgets::new(Arc::clone(&host.store));
        match step {
            0 => {
                let order = order("holds", Object::new(), Object::new());
                let create = async |remember| host.engine.create(order, Some(remember)).await;
                host.once("run", create).await;
            }
            1 => self.reserve(host, 10).await,
            2 => self.reserve(host, 20).await,
            step => {
                let limit = if step == 3 { 300_u64 } else { 200 };
                let tokens = BudgetDimension::Tokens;
                budgets.grant_extra(&tenant(), 1, tokens, limit.into()).await.unwrap();
            }
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let granted = Budgets::new(Arc::clone(&store)).granted_on(&tenant(), 1).await.unwrap();
        let all = RecordQuery::all(Kind::Reservation, Within::Everywhere);
        let reserved = store.scan(&all).await.unwrap();
        let reserved: Vec<Value> = reserved
            .iter()
            .map(|record| record.read::<Value>().unwrap()["estimate"].clone())
            .collect();
        json!([granted, reserved])
    }
}

//! Days of accounts: what calls reserve, and what people grant.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{
    BudgetAccount, Budgets, Claim, ClaimOrigin, Filter, KeyMode, Kind, RecordQuery, Spent, Store,
    Within,
};
use callboard_protocol::{BudgetDimension, Object};

use super::scenario::{Host, Scenario};
use crate::sim::{order, scope};

pub(super) struct BudgetDays;

fn tenant() -> BudgetAccount {
    BudgetAccount { tenant: "default".into(), mode: KeyMode::Live, member: None }
}

async fn reserve(host: &Host, tokens: u64) {
    let filter = Filter { limit: 1, ..Filter::default() };
    let run = host.store.list(&scope(), &filter).await.unwrap().remove(0).run_id;
    let claim = Claim { run, host: "h0".into(), epoch: 1, origin: ClaimOrigin::Free };
    let estimate = Spent { input_tokens: tokens, ..Spent::default() };
    let budgets = Budgets::new(Arc::clone(&host.store));
    budgets.reserve(&tenant(), &claim, &"a".into(), 1, estimate).await.unwrap();
}

#[async_trait(?Send)]
impl Scenario for BudgetDays {
    fn steps(&self) -> usize {
        5
    }

    async fn act(&self, host: &Host, step: usize) {
        let budgets = Budgets::new(Arc::clone(&host.store));
        match step {
            0 => {
                let order = order("campaign", Object::new(), Object::new());
                let create = async |remember| host.engine.create(order, Some(remember)).await;
                host.once("run", create).await;
            }
            1 => reserve(host, 10).await,
            2 => reserve(host, 20).await,
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

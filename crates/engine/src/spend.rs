//! What models were paid by day, and who used them: counted in the append that records the usage, read by key.
//!
//! Reading costs a few keys for each day that is asked for, however many runs there are. Of a day no more than
//! [`MOST_NAMES`] agents, members, models and workflows are read, the first in the order of their names. Beside the days,
//! each model has a sum of all time and all tenants, for the operator's graphs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use callboard_core::{Birth, day_of};
use callboard_protocol::ProviderUsage;

use crate::records::Key;
use crate::roster::USAGE;
use crate::store::{CounterChange, CounterQuery, Realm, Row, Scope, Store, StoreError};

/// Names that are read of one day and kind; a page shows a dozen.
pub const MOST_NAMES: usize = 200;

const CALLS: &str = "calls";
const UNPRICED: &str = "unpricedCalls";
const INPUT_TOKENS: &str = "inputTokens";
const OUTPUT_TOKENS: &str = "outputTokens";
const CACHED_TOKENS: &str = "cachedTokens";
const COST_USD: &str = "costUsd";
/// Counters of one key.
const COUNTERS: usize = 6;

/// What calls of models are summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpendBy {
    /// All calls of a day; its one name is empty.
    Total,
    Agent,
    Member,
    Model,
    Workflow,
}

impl SpendBy {
    fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Agent => "agent",
            Self::Member => "member",
            Self::Model => "model",
            Self::Workflow => "workflow",
        }
    }
}

/// A sum of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub calls: u64,
    /// Calls of which nobody knows the price. They are not in the sum.
    pub unpriced_calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Of the input tokens, those that a provider had in its cache.
    pub cached_tokens: u64,
    /// An estimate.
    pub cost_usd: f64,
}

impl Usage {
    fn of(told: &ProviderUsage) -> Self {
        Self {
            calls: 1,
            unpriced_calls: u64::from(told.cost_estimate_usd.is_none()),
            input_tokens: told.input_tokens,
            output_tokens: told.output_tokens,
            cached_tokens: told.cache_read_tokens.unwrap_or(0),
            cost_usd: told.cost_estimate_usd.unwrap_or(0.0),
        }
    }

    pub fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.unpriced_calls = self.unpriced_calls.saturating_add(other.unpriced_calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.cost_usd += other.cost_usd;
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "tokens of one call are far below what a double counts exactly"
    )]
    fn named(self) -> [(&'static str, f64); COUNTERS] {
        [
            (CALLS, self.calls as f64),
            (UNPRICED, self.unpriced_calls as f64),
            (INPUT_TOKENS, self.input_tokens as f64),
            (OUTPUT_TOKENS, self.output_tokens as f64),
            (CACHED_TOKENS, self.cached_tokens as f64),
            (COST_USD, self.cost_usd),
        ]
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sum of tokens is whole and not negative"
    )]
    fn set(&mut self, name: &str, value: f64) {
        match name {
            CALLS => self.calls = value as u64,
            UNPRICED => self.unpriced_calls = value as u64,
            INPUT_TOKENS => self.input_tokens = value as u64,
            OUTPUT_TOKENS => self.output_tokens = value as u64,
            CACHED_TOKENS => self.cached_tokens = value as u64,
            COST_USD => self.cost_usd = value,
            _ => {}
        }
    }
}

/// Where a day's sums are kept. The whole tenant has a shelf, and each workspace one of its own.
fn below(realm: &Realm, workspace: &str, by: SpendBy, day: i64) -> Key {
    Key::in_realm(realm, ["spend", workspace, by.as_str(), &day.to_string()])
}

fn key(realm: &Realm, workspace: &str, by: SpendBy, day: i64, name: &str) -> Key {
    Key::in_realm(realm, ["spend", workspace, by.as_str(), &day.to_string(), name])
}

/// Where the sums of all time are kept, one for each model. No tenant has an empty name.
fn models() -> Key {
    Key::of(["", "models"])
}

fn model_key(told: &ProviderUsage) -> Key {
    Key::of(["", "models", &model_name(told)])
}

fn model_name(told: &ProviderUsage) -> String {
    format!("{}/{}", told.provider, told.model)
}

/// What rows add to the sums of their days and models. A replay pays nobody.
pub(crate) fn counted(birth: &Birth, rows: &[Row]) -> Vec<CounterChange> {
    let place = Scope::of(birth);
    let realm = place.realm();
    let workspace = place.workspace.as_ref().map(|workspace| workspace.as_str());
    let mut counters = Vec::new();
    for row in rows.iter().filter(|row| row.kind == USAGE && !birth.is_replay()) {
        let Ok(told) = serde_json::from_str::<ProviderUsage>(&row.payload) else { continue };
        let (day, used) = (day_of(row.at), Usage::of(&told));
        let mut add = |key: Key| {
            let named = used.named().into_iter().filter(|(_, add)| *add != 0.0);
            let change = |(name, add)| CounterChange { key: key.clone(), name, add };
            counters.extend(named.map(change));
        };
        for (by, name) in names(birth, row, &told) {
            for shelf in [""].into_iter().chain(workspace) {
                add(key(&realm, shelf, by, day, &name));
            }
        }
        add(model_key(&told));
    }
    counters
}

/// What a call counts for.
fn names(birth: &Birth, row: &Row, told: &ProviderUsage) -> Vec<(SpendBy, String)> {
    let node = row.node.as_ref().or(told.node_id.as_ref());
    let pinned = node.and_then(|node| birth.agents.get(node)).map(|pin| pin.agent_id.to_string());
    let hired = birth.attribution.as_ref().map(|member| member.agent_id.to_string());
    let mut names = vec![
        (SpendBy::Total, String::new()),
        (SpendBy::Model, model_name(told)),
        (SpendBy::Workflow, birth.workflow_id.to_string()),
    ];
    names.extend(pinned.or(hired).map(|agent| (SpendBy::Agent, agent)));
    names.extend(birth.charged_to.as_ref().map(|member| (SpendBy::Member, member.to_string())));
    names
}

/// Sums by day.
#[derive(Debug, Clone)]
pub struct Spending {
    store: Arc<dyn Store>,
}

impl Spending {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// What was used on a day where the caller may look, by name.
    pub async fn on(
        &self,
        scope: &Scope,
        by: SpendBy,
        day: i64,
    ) -> Result<BTreeMap<String, Usage>, StoreError> {
        let workspace = scope.workspace.as_ref().map_or("", |workspace| workspace.as_str());
        self.sums(below(&scope.realm(), workspace, by, day)).await
    }

    /// What models were used since the database was made, by the names of provider and model.
    pub async fn of_models(&self) -> Result<BTreeMap<(String, String), Usage>, StoreError> {
        let sums = self.sums(models()).await?;
        let split = |(name, used): (String, Usage)| {
            let (provider, model) = name.split_once('/')?;
            Some(((provider.to_owned(), model.to_owned()), used))
        };
        Ok(sums.into_iter().filter_map(split).collect())
    }

    async fn sums(&self, below: Key) -> Result<BTreeMap<String, Usage>, StoreError> {
        let mut sums: BTreeMap<String, Usage> = BTreeMap::new();
        let query = CounterQuery::Below { key: below, most: MOST_NAMES * COUNTERS };
        for (key, name, value) in self.store.counters(&query).await? {
            if let Some(of) = key.last_part() {
                sums.entry(of).or_default().set(&name, value);
            }
        }
        Ok(sums)
    }
}

//! The provider `mock` of the protocol's test suite: it says what a test has put down for a node.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use callboard_protocol::{NodeId, Tenant};

use crate::model::{
    DeltaSink, Model, ModelError, ModelRef, ModelRequest, StopReason, TokenUsage, Turn,
};

/// Scripts by node; one entry answers one turn. Only hosts with `--test-seams` have one.
#[derive(Debug, Clone, Default)]
pub struct MockAi(Arc<Mutex<BTreeMap<String, Played>>>);

/// What is left to say at one place.
#[derive(Debug, Default)]
struct Played {
    queue: VecDeque<MockEntry>,
    last_budget: Option<u32>,
}

/// One answer.
#[derive(Clone, PartialEq)]
pub struct MockEntry {
    pub text: MockText,
    pub stop: StopReason,
    pub usage: TokenUsage,
}

/// What is said. Hidden, like the words of any model.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MockText(pub String);

impl fmt::Debug for MockText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MockText")
    }
}

impl fmt::Debug for MockEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockEntry").field("stop", &self.stop).finish_non_exhaustive()
    }
}

impl MockAi {
    pub const PROVIDER: &'static str = "mock";

    /// Where a node's program lies.
    pub fn place(tenant: &Tenant, node: &NodeId) -> String {
        format!("{tenant}/{node}")
    }

    /// Replaces what a node has left to say.
    pub fn program(&self, tenant: &Tenant, node: &NodeId, entries: Vec<MockEntry>) {
        let played = Played { queue: entries.into(), last_budget: None };
        self.lock().insert(Self::place(tenant, node), played);
    }

    /// The budget of the last turn of a node.
    pub fn last_budget(&self, tenant: &Tenant, node: &NodeId) -> Option<u32> {
        self.lock().get(&Self::place(tenant, node))?.last_budget
    }

    /// Forgets a tenant's programs.
    pub fn reset(&self, tenant: &Tenant) {
        let of_tenant = format!("{tenant}/");
        self.lock().retain(|place, _| !place.starts_with(&of_tenant));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Played>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Model for MockAi {
    /// What is rehearsed is said: an entry answers one turn, in a run or in its replay.
    fn rehearse(&self, _: &ModelRef, call_prefix: &str, turns: usize) -> Vec<StopReason> {
        let mut places = self.lock();
        let Some(played) = places.get_mut(call_prefix) else { return Vec::new() };
        let said = turns.min(played.queue.len());
        played.queue.drain(..said).map(|entry| entry.stop).collect()
    }

    /// Who has nothing left to say says nothing.
    async fn turn(
        &self,
        request: &ModelRequest,
        _: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError> {
        let entry = {
            let mut places = self.lock();
            let played = places.entry(request.call_prefix.clone()).or_default();
            played.last_budget = Some(request.max_output_tokens);
            played.queue.pop_front()
        };
        let entry = entry.unwrap_or(MockEntry {
            text: MockText::default(),
            stop: StopReason::Stop,
            usage: TokenUsage::default(),
        });
        Ok(Turn {
            text: entry.text.0,
            thinking: String::new(),
            tool_calls: Vec::new(),
            stop: entry.stop,
            usage: Some(entry.usage),
            provider_request_id: None,
        })
    }
}

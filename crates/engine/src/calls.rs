//! The outcomes of outward calls, for callers that may read the run: a model's request is kept with its answer.

use serde_json::Value;

use callboard_core::Attempt;
use callboard_protocol::{NodeId, RunId};

use crate::effects::EffectKey;
use crate::engine::{Engine, EngineError};
use crate::once;
use crate::store::Scope;

/// Outward calls of a visit that are looked at.
const MOST_CALLS: u32 = 1024;
/// Places in a row that hold nothing, behind which no more is looked for: a call that had no effect leaves one.
const MOST_GAPS: u32 = 16;
/// Runs whose history a fork goes on with, one before the other.
const MOST_SOURCES: usize = 16;

impl Engine {
    /// What the outward calls of a visit to a node came to, in their order, without those that failed; none if there is
    /// no such run for the caller. What a fork took over is with its source.
    pub async fn call_outcomes(
        &self,
        scope: &Scope,
        run: &RunId,
        node: &NodeId,
        visit: u32,
    ) -> Result<Option<Vec<Value>>, EngineError> {
        if self.store().find(scope, run).await?.is_none() {
            return Ok(None);
        }
        let attempt = Attempt { node: node.clone(), visit, number: 0 };
        let mut outcomes = Vec::new();
        let mut gaps = 0;
        let runs = self.with_sources(run).await?;
        for index in 0..MOST_CALLS {
            let mut found = None;
            for run in &runs {
                let key = EffectKey::new(&scope.tenant, run, &attempt, index);
                found = self.store().find_effect(&key).await?;
                if found.is_some() {
                    break;
                }
            }
            gaps = if found.is_some() { 0 } else { gaps + 1 };
            if gaps > MOST_GAPS {
                break;
            }
            outcomes.extend(found.and_then(|settled| once::kept_value(&settled.outcome)));
        }
        Ok(Some(outcomes))
    }

    /// A run, and those whose history it goes on with.
    async fn with_sources(&self, run: &RunId) -> Result<Vec<RunId>, EngineError> {
        let opened = self.store().open(run).await?;
        let sources = opened.into_iter().flat_map(|opened| {
            let forebears = opened.birth.forebears();
            opened.birth.fork.map(|fork| fork.source).into_iter().chain(forebears)
        });
        Ok([run.clone()].into_iter().chain(sources).take(MOST_SOURCES).collect())
    }
}

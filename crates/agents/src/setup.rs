//! Inputs of an invocation that could change while it lasts: its tools and its prompt templates.
//!
//! Recorded before the first call of a model. A later attempt, on whatever host, offers the same tools under the same
//! names and composes the same templates, so that every outward call keeps its place and asks what it asked before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use callboard_core::{Outcome, RetryClass};
use callboard_engine::{Call, OnceError, Scope};
use callboard_protocol::{Failure, PromptTemplate};

use crate::tool::{RecordedTool, ToolSurface, Toolbox};

/// Prompt templates, by the refs that named them.
pub(crate) type Templates = BTreeMap<String, PromptTemplate>;

/// Kept with the run's effects. An old reader ignores fields that it does not know; a new reader defaults those that
/// are missing; no record is rewritten.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Setup {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<RecordedTool>,
    /// What the allowlist names and the host did not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unresolved: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) templates: Templates,
}

impl Setup {
    /// What an earlier attempt at this visit recorded.
    pub(crate) async fn recorded(call: &Call) -> Result<Option<Self>, OnceError> {
        let Some(recorded) = call.setup().await? else { return Ok(None) };
        serde_json::from_value(recorded).map(Some).map_err(|error| unusable(&error.to_string()))
    }

    /// Records the setup, unless there is nothing in it that could change.
    pub(crate) async fn record(
        call: &Call,
        surface: &ToolSurface,
        templates: Templates,
    ) -> Result<(), OnceError> {
        let (tools, unresolved) = (surface.recorded(), surface.unresolved().to_vec());
        let setup = Self { tools, unresolved, templates };
        if setup.tools.is_empty() && setup.unresolved.is_empty() && setup.templates.is_empty() {
            return Ok(());
        }
        let setup = serde_json::to_value(setup).map_err(|error| unusable(&error.to_string()))?;
        call.keep_setup(&setup).await
    }

    /// The tools as they were recorded, each with what the host has of it now.
    pub(crate) async fn surface(
        &self,
        toolbox: &dyn Toolbox,
        scope: &Scope,
    ) -> Result<ToolSurface, OnceError> {
        let restored = ToolSurface::restore(toolbox, scope, &self.tools, &self.unresolved).await;
        restored.map_err(|why| unusable(&why))
    }
}

fn unusable(why: &str) -> OnceError {
    let failure = Failure::new("internal_error", format!("a recorded setup: {why}"));
    OnceError::Ended(Outcome::Failed { failure, class: RetryClass::Final })
}

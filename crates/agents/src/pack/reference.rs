//! Following an agent's references to files of its pack.

use std::sync::Arc;

use callboard_protocol::AgentManifest;

use super::{Agent, Schema};
use crate::archive::{Files, is_inside};
use crate::error::PackError;

/// One agent and the files that it may refer to.
pub(super) struct Resolver<'p> {
    pub(super) files: &'p Files,
    pub(super) agent: &'p AgentManifest,
}

impl<'p> Resolver<'p> {
    pub(super) fn resolve(&self) -> Result<Agent, PackError> {
        let agent = self.agent;
        let handoff = agent.handoff.as_ref();
        let task = handoff.and_then(|handoff| handoff.task_schema_ref.as_deref());
        let result = handoff.and_then(|handoff| handoff.return_schema_ref.as_deref());
        Ok(Agent {
            prompt: self.prompt()?,
            task: self.schema("handoff.taskSchemaRef", task)?,
            result: self.schema("handoff.returnSchemaRef", result)?,
            evaluations: self.evaluations()?,
            manifest: agent.clone(),
        })
    }

    fn prompt(&self) -> Result<Arc<str>, PackError> {
        let text = match (&self.agent.system_prompt, &self.agent.system_prompt_ref) {
            (Some(text), _) => return Ok(text.as_str().into()),
            (None, Some(path)) => self.text("systemPromptRef", path)?,
            (None, None) => "",
        };
        Ok(text.into())
    }

    fn schema(&self, field: &'static str, path: Option<&str>) -> Result<Option<Schema>, PackError> {
        let Some(path) = path else { return Ok(None) };
        let bytes = self.file(field, path)?;
        let schema = Schema::compile(bytes)
            .map_err(|why| PackError::Content { path: path.to_owned(), why })?;
        Ok(Some(schema))
    }

    fn evaluations(&self) -> Result<Option<serde_json::Value>, PackError> {
        let Some(path) = &self.agent.eval_suite_ref else { return Ok(None) };
        let suite = serde_json::from_slice(self.file("evalSuiteRef", path)?)
            .map_err(|error| PackError::Content { path: path.clone(), why: error.to_string() })?;
        Ok(Some(suite))
    }

    fn text(&self, field: &'static str, path: &str) -> Result<&'p str, PackError> {
        std::str::from_utf8(self.file(field, path)?)
            .map_err(|error| PackError::Content { path: path.to_owned(), why: error.to_string() })
    }

    fn file(&self, field: &'static str, path: &str) -> Result<&'p [u8], PackError> {
        let agent = || self.agent.agent_id.clone();
        let named = path.strip_prefix("./").unwrap_or(path);
        if !is_inside(named) {
            return Err(PackError::Reference { agent: agent(), field, path: path.to_owned() });
        }
        self.files.get(named).map(AsRef::as_ref).ok_or_else(|| PackError::ReferenceMissing {
            agent: agent(),
            field,
            path: path.to_owned(),
        })
    }
}

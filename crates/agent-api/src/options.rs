//! The extensions of a request, checked before anything is started.

mod add_dirs;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::capability::{
    ADD_DIRS, AgentCapabilities, EXTERNAL_SANDBOX, MODEL, NEW_ID_SUFFIX, NON_INTERACTIVE,
    SESSION_FORK, SESSION_RESUME, TOOLS_SUFFIX,
};
use crate::error::AgentError;
use crate::grant::Grant;
use crate::kind::AgentKind;
use crate::request::AgentRunRequest;

pub(crate) use session::{Origin, Selector};

/// A request that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunOptions {
    pub(crate) non_interactive: bool,
    pub(crate) external_sandbox: bool,
    pub(crate) model: Option<String>,
    pub(crate) add_dirs: Vec<PathBuf>,
    pub(crate) origin: Origin,
    /// The tools that the request allows; without it the backend's own list holds.
    pub(crate) grants: Option<BTreeSet<Grant>>,
    pub(crate) new_session_id: Option<String>,
    /// Keys of the one backend, with values that it checks itself.
    pub(crate) private: BTreeMap<String, String>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            non_interactive: true,
            external_sandbox: false,
            model: None,
            add_dirs: Vec::new(),
            origin: Origin::New,
            grants: None,
            new_session_id: None,
            private: BTreeMap::new(),
        }
    }
}

/// Checks in the order of the contract: the prompt, every key, every value, what contradicts what.
pub(crate) fn validate(
    kind: &AgentKind,
    capabilities: &AgentCapabilities,
    request: &AgentRunRequest,
    working_dir: &Path,
) -> Result<RunOptions, AgentError> {
    if request.prompt.trim().is_empty() {
        return Err(AgentError::invalid("the prompt is empty"));
    }
    let own = format!("backend.{kind}.");
    for key in request.extensions.keys() {
        let ours = is_extension(key) || key.starts_with(&own);
        if !ours || !capabilities.contains(key) {
            return Err(AgentError::UnsupportedCapability {
                agent_kind: kind.clone(),
                capability: key.clone(),
            });
        }
    }
    let mut options = RunOptions::default();
    for (key, value) in &request.extensions {
        read_value(&mut options, key, &own, value, working_dir)?;
    }
    contradictions(&options, request, &own)?;
    Ok(options)
}

/// The capabilities that are also keys of a request.
fn is_extension(key: &str) -> bool {
    [NON_INTERACTIVE, EXTERNAL_SANDBOX, MODEL, ADD_DIRS, SESSION_RESUME, SESSION_FORK]
        .contains(&key)
}

fn read_value(
    options: &mut RunOptions,
    key: &str,
    own: &str,
    value: &Value,
    working_dir: &Path,
) -> Result<(), AgentError> {
    match key {
        NON_INTERACTIVE => options.non_interactive = boolean(key, value)?,
        EXTERNAL_SANDBOX => options.external_sandbox = boolean(key, value)?,
        MODEL => options.model = Some(model(value)?),
        ADD_DIRS => options.add_dirs = add_dirs::read(value, working_dir)?,
        SESSION_RESUME => set_origin(options, Origin::Resume(session::selector(key, value)?))?,
        SESSION_FORK => set_origin(options, Origin::Fork(session::selector(key, value)?))?,
        _ => {
            let name = key.strip_prefix(own).unwrap_or(key);
            let text = value.as_str();
            match name {
                TOOLS_SUFFIX => options.grants = Some(Grant::list(key, value)?),
                NEW_ID_SUFFIX => options.new_session_id = Some(session::new_id(key, value)?),
                _ => {
                    let text = text.ok_or_else(|| invalid(key))?;
                    options.private.insert(name.to_owned(), text.to_owned());
                }
            }
        }
    }
    Ok(())
}

/// Resuming excludes forking. The value of the second is still looked at first.
fn set_origin(options: &mut RunOptions, origin: Origin) -> Result<(), AgentError> {
    if options.origin != Origin::New {
        return Err(AgentError::invalid("a session is either resumed or forked"));
    }
    options.origin = origin;
    Ok(())
}

fn contradictions(
    options: &RunOptions,
    request: &AgentRunRequest,
    own: &str,
) -> Result<(), AgentError> {
    if options.external_sandbox {
        if !options.non_interactive {
            return Err(AgentError::invalid(format!(
                "{EXTERNAL_SANDBOX} contradicts {NON_INTERACTIVE}=false"
            )));
        }
        let exec = format!("{own}exec.");
        if let Some(key) = request.extensions.keys().find(|key| key.starts_with(&exec)) {
            return Err(AgentError::invalid(format!("{EXTERNAL_SANDBOX} contradicts {key}")));
        }
    }
    if options.new_session_id.is_some() && matches!(options.origin, Origin::Resume(_)) {
        return Err(AgentError::invalid("a resumed session has its id already"));
    }
    Ok(())
}

/// Names the key, never the value.
pub(crate) fn invalid(key: &str) -> AgentError {
    AgentError::invalid(format!("invalid {key}"))
}

fn boolean(key: &str, value: &Value) -> Result<bool, AgentError> {
    value.as_bool().ok_or_else(|| invalid(key))
}

/// Longest model id; providers use less than half.
const MODEL_BYTES: usize = 128;

fn model(value: &Value) -> Result<String, AgentError> {
    let id = value.as_str().map(str::trim).unwrap_or_default();
    // A leading dash would be read as an option.
    if id.is_empty() || id.len() > MODEL_BYTES || id.starts_with('-') {
        return Err(invalid(MODEL));
    }
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests;

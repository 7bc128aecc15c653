//! The protocol's schemas, compiled, and the few places where its text and its schemas disagree.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use jsonschema::{Registry, Validator};
use serde_json::{Value, json};

/// A deviation that the contract settles in favour of the text. Nothing else is tolerated.
struct Exception {
    schema: &'static str,
    /// The place in the instance; a `*` stands for one segment.
    at: &'static str,
    /// What the complaint must mention.
    about: &'static str,
    reason: &'static str,
}

const EXCEPTIONS: [Exception; 4] = [
    Exception {
        schema: "capabilities",
        at: "/triggerBridge",
        about: "'deadLetter'",
        reason: "RFC 0232 adds `deadLetter` to the bridge; the stored schema is closed and older",
    },
    Exception {
        schema: "capabilities",
        at: "/triggerBridge/ingestion",
        about: "'inboundSigning'",
        reason: "RFC 0230 adds `inboundSigning`; the stored schema is closed and older",
    },
    Exception {
        schema: "channel.written",
        at: "/reducer",
        about: "\"message\"",
        reason: "the channels document defines the reducer `message`; the payload's pattern lacks it",
    },
    Exception {
        schema: "workflow-definition",
        at: "/variables/*",
        about: "'format'",
        reason: "RFC 0136 adds `format` to variables; the stored schema is closed and older",
    },
];

/// Schemas that whole bodies are checked against.
const BODIES: &[&str] = &[
    "capabilities",
    "run-event",
    "run-snapshot",
    "agent-deployment",
    "agent-inventory-response",
    "agent-roster-entry",
    "agent-roster-response",
    "agent-org-chart",
    "org-chart-responsibility-view",
    "heartbeat-evaluated",
    "heartbeat-state-changed",
    "memory-entry",
    "workspace-file",
    "error-envelope",
    "workflow-definition",
    "debug-bundle",
    "run-diff-response",
    "run-ancestry-response",
    "annotation",
    "prompt-template",
    "trigger-event",
    "trigger-subscription",
    "trigger-subscription-registration",
];

const PAYLOADS: &str = "run-event-payloads";

/// Compiled schemas, by file name without its ending and, for payloads, by event type.
#[derive(Debug)]
pub(crate) struct Schemas {
    validators: BTreeMap<String, Validator>,
    /// Every event type that the protocol owns.
    pub(crate) event_types: BTreeSet<String>,
    used: RefCell<BTreeSet<&'static str>>,
}

impl Schemas {
    pub(crate) fn load(folder: &Path) -> Result<Self> {
        let documents = read_all(folder)?;
        let id = |name: &str| -> Result<&str> {
            let document = documents.get(name).with_context(|| format!("no schema {name}"))?;
            document["$id"].as_str().with_context(|| format!("schema {name} has no $id"))
        };
        let mut builder = Registry::new();
        for document in documents.values() {
            if let Some(id) = document["$id"].as_str() {
                builder = builder.add(id, document)?;
            }
        }
        let registry = builder.prepare()?;
        let compile = |reference: &str| {
            let schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": reference });
            let options =
                jsonschema::options().should_validate_formats(true).with_registry(&registry);
            options.build(&schema).map_err(|error| anyhow!("{reference}: {error}"))
        };
        let mut validators = BTreeMap::new();
        for name in BODIES {
            validators.insert((*name).to_owned(), compile(id(name)?)?);
        }
        let index = &documents[PAYLOADS]["$defs"]["_typeIndex"]["properties"];
        for (kind, entry) in
            index.as_object().context("the payload schemas have no index of types")?
        {
            let local =
                entry["$ref"].as_str().with_context(|| format!("no payload schema of {kind}"))?;
            validators.insert(kind.clone(), compile(&format!("{}{local}", id(PAYLOADS)?))?);
        }
        let types = &documents["run-event"]["$defs"]["RunEventType"]["enum"];
        let event_types = types.as_array().context("no list of event types")?;
        let event_types =
            event_types.iter().filter_map(|kind| kind.as_str().map(str::to_owned)).collect();
        Ok(Self { validators, event_types, used: RefCell::default() })
    }

    /// What the schema says against this value, tolerated deviations apart.
    pub(crate) fn complaints(&self, schema: &str, value: &Value) -> Vec<String> {
        let Some(validator) = self.validators.get(schema) else {
            return vec![format!("there is no schema {schema}")];
        };
        let all = validator
            .iter_errors(value)
            .map(|error| (error.instance_path().to_string(), error.to_string()));
        all.filter(|(at, text)| !self.tolerates(schema, at, text))
            .map(|(at, text)| format!("{schema}{at}: {text}"))
            .collect()
    }

    /// Complaints against an event: its envelope and, where the protocol owns the type, its payload.
    pub(crate) fn event_complaints(&self, event: &Value) -> Vec<String> {
        let mut complaints = self.complaints("run-event", event);
        let kind = event["type"].as_str().unwrap_or_default();
        if self.validators.contains_key(kind) {
            complaints.extend(self.complaints(kind, &event["payload"]));
        }
        if !self.event_types.contains(kind) && !kind.starts_with("callboard.") {
            complaints.push(format!("`{kind}` is neither the protocol's type nor ours"));
        }
        complaints
    }

    fn tolerates(&self, schema: &str, at: &str, text: &str) -> bool {
        let found = EXCEPTIONS.iter().find(|exception| {
            exception.schema == schema
                && matches(exception.at, at)
                && text.contains(exception.about)
        });
        if let Some(exception) = found {
            self.used.borrow_mut().insert(exception.reason);
        }
        found.is_some()
    }

    /// Exceptions that nothing needed; they ought to go.
    pub(crate) fn idle_exceptions(&self) -> Vec<&'static str> {
        let used = self.used.borrow();
        EXCEPTIONS
            .iter()
            .map(|exception| exception.reason)
            .filter(|reason| !used.contains(reason))
            .collect()
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) =
        (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len()
        && pattern.iter().zip(&path).all(|(wanted, segment)| *wanted == "*" || wanted == segment)
}

fn read_all(folder: &Path) -> Result<BTreeMap<String, Value>> {
    let mut documents = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(".schema.json") {
            let text = fs::read_to_string(&path)?;
            documents.insert(
                name.to_owned(),
                serde_json::from_str(&text).with_context(|| path.display().to_string())?,
            );
        }
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_one_segment() {
        assert!(matches("/variables/*", "/variables/0"));
        assert!(!matches("/variables/*", "/variables/0/format"));
        assert!(matches("/reducer", "/reducer"));
    }
}

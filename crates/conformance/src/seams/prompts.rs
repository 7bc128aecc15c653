//! Prompts, as the suite asks about them: the same functions as in a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_agents::{
    AgentPrompts, Binding, Bindings, Bound, Observability, PromptSources, Trust, compose, resolve,
    told_of, untrusted,
};
use callboard_protocol::{
    AgentPromptResolved, ContentTrust, NodeId, Object, PromptKind, PromptRef, PromptSource,
};
use callboard_server::extend::{Answer, Caller, Code, Host, Problem, Shaped, prompts::problem};
use serde::Deserialize;
use serde_json::{Value, json};

/// The secret that the suite looks for in everything it can read, under the id that it names.
const CANARY: (&str, &str) =
    ("openwop-conformance-canary-secret", "CANARY-CONFORMANCE-SECRET-4f2a");

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Resolve {
    kind: PromptKind,
    node: Node,
    agent_manifest: Option<Manifest>,
    workflow_defaults: Option<Defaults>,
    host_defaults: Option<Object>,
    agent_bindings_supported: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    node_id: NodeId,
    #[serde(default)]
    config: Object,
}

/// As much of a manifest as counts here; the rest is left unread.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    agent_id: String,
    system_prompt: Option<String>,
    system_prompt_ref: Option<String>,
    prompt_overrides: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Defaults {
    prompt_refs: Option<Object>,
}

pub(super) async fn resolve_prompt(Shaped(body): Shaped<Resolve>) -> Answer {
    let named = body.node.config.get("agentId").and_then(Value::as_str);
    let manifest = body.agent_manifest.as_ref();
    let manifest = manifest.filter(|manifest| named == Some(manifest.agent_id.as_str()));
    let agent = match (named, manifest) {
        _ if body.agent_bindings_supported == Some(false) => Bound::Nobody,
        (None, _) => Bound::Nobody,
        (Some(_), None) => Bound::Unknown,
        (Some(agent_id), Some(manifest)) => Bound::Agent(AgentPrompts {
            agent_id,
            version: None,
            is_prompted: manifest.system_prompt.is_some() || manifest.system_prompt_ref.is_some(),
            overrides: manifest.prompt_overrides.as_ref(),
            library_default: None,
        }),
    };
    let defaults = body.workflow_defaults.as_ref().and_then(|it| it.prompt_refs.as_ref());
    let sources = PromptSources {
        run: None,
        node: &body.node.config,
        agent,
        workflow: defaults,
        host: body.host_defaults.as_ref(),
    };
    let found = resolve(body.kind, 0, &sources);
    let told = AgentPromptResolved {
        node_id: body.node.node_id.clone(),
        kind: body.kind,
        agent_id: matches!(agent, Bound::Agent(_)).then(|| named.map(str::to_owned)).flatten(),
        resolved: found.resolved(),
        chain: found.chain,
    };
    Answer::of(StatusCode::OK, &told)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Compose {
    template_id: String,
    #[serde(default)]
    bindings: Object,
    #[serde(default)]
    binding_trust: BTreeMap<String, ContentTrust>,
    observability: Option<Level>,
    node_id: Option<NodeId>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Off,
    Hashed,
    Full,
}

pub(super) async fn compose_prompt(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Compose>,
) -> Result<Answer, Problem> {
    let prompts = &host.app.prompts;
    let reference = PromptRef {
        library_id: None,
        template_id: body.template_id.clone(),
        version: None,
        overrides: Object::new(),
    };
    let template = prompts.library.find(&caller.scope, &reference).await.map_err(|error| {
        match problem(error) {
            Problem { code: Code::NotFound, message, .. } => {
                Problem::new(Code::TemplateNotFound, message)
            }
            other => other,
        }
    })?;
    let mut bindings: Bindings = Bindings::new();
    for (name, value) in &body.bindings {
        let trust = match body.binding_trust.get(name).copied().unwrap_or_default() {
            ContentTrust::Trusted => Trust::Trusted,
            ContentTrust::Untrusted => Trust::Untrusted,
        };
        bindings.insert(name.clone(), Binding::new(value.clone(), trust));
    }
    // The one secret that the suite may name stands in for every secret of a template.
    if body.bindings.get("secretRef").and_then(Value::as_str) == Some(CANARY.0) {
        let is_secret =
            |it: &&callboard_protocol::PromptVariable| it.source == Some(PromptSource::Secret);
        for variable in template.variables.iter().filter(is_secret) {
            bindings.insert(variable.name.clone(), Binding::secret(CANARY.0, CANARY.1));
        }
    }
    let composed = compose(&template, &bindings)?;
    let level = match body.observability {
        None => prompts.observability,
        Some(Level::Off) => Observability::Off,
        Some(Level::Hashed) => Observability::Hashed,
        Some(Level::Full) => Observability::Full,
    };
    let node = body.node_id.unwrap_or_else(|| "compose".into());
    Ok(Answer::of(StatusCode::OK, &told_of(&[&composed], &node, level)))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Wrap {
    payload: Value,
    #[serde(default)]
    content_trust: ContentTrust,
    event_type: Option<String>,
    source: Option<String>,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

/// A stranger's event on its way into a prompt, marked with where it comes from.
pub(super) async fn wrap(Shaped(body): Shaped<Wrap>) -> Answer {
    let text = match &body.payload {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let prompt = match body.content_trust {
        ContentTrust::Trusted => text,
        ContentTrust::Untrusted => {
            let source = body.source.unwrap_or_else(|| "run-event".to_owned());
            let named = [("source", Some(source)), ("type", body.event_type)];
            let named =
                named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            let marks: String = named
                .chain(body.attributes)
                .filter(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
                .map(|(name, value)| format!(" {name}=\"{}\"", tame(&value)))
                .collect();
            untrusted(&text).replacen("<UNTRUSTED>", &format!("<UNTRUSTED{marks}>"), 1)
        }
    };
    Answer::of(StatusCode::OK, &json!({ "prompt": prompt }))
}

/// Nothing of a value can end its quotes or the mark around it.
fn tame(value: &str) -> String {
    value.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

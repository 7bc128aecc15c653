//! The prompts of a node that calls a model: each kind resolved, composed, recorded.

use callboard_core::{AgentFact, RetryClass};
use callboard_engine::{Call, CallFailure, PastTask, Superseded};
use callboard_protocol::{AgentId, Failure, Object, PromptKind, PromptSource, PromptTemplate};
use serde_json::{Value, json};

use super::library::{LibraryError, PromptLibrary};
use super::place::Place;
use super::{
    AgentPrompts, Binding, Bindings, Bound, Chosen, Composed, Observability, PromptSources,
    Resolution, Trust, compose, resolve, told_of,
};
use crate::ask::FactBuffer;
use crate::inventory::{AgentRegistry, InstalledAgent};
use crate::setup::Templates;

/// What prompts of nodes are made from.
#[derive(Debug, Clone)]
pub struct PromptResolver {
    pub library: PromptLibrary,
    pub agents: std::sync::Arc<AgentRegistry>,
    pub observability: Observability,
}

/// The prompts of one call, with the events about them.
#[derive(Debug, Default)]
pub struct Prepared {
    pub facts: Vec<AgentFact>,
    pub parts: Vec<Composed>,
    /// What they were composed from, by the refs that named it.
    pub(crate) templates: Templates,
}

impl Prepared {
    /// Records which templates were found and what was made of them.
    pub async fn record(&self, call: &Call) -> Result<(), Superseded> {
        let mut facts = FactBuffer::new(call);
        self.facts.iter().for_each(|fact| facts.push(fact.clone()));
        facts.flush().await
    }

    /// The words for the system: its prompt, then hints about the shape of the answer.
    pub fn system(&self) -> Option<String> {
        self.joined([PromptKind::System, PromptKind::SchemaHint])
    }

    /// The words of the user: examples, then the task.
    pub fn user(&self) -> Option<String> {
        self.joined([PromptKind::FewShot, PromptKind::User])
    }

    /// The prompts that were chosen, each with its version.
    pub(crate) fn references(&self) -> Vec<&str> {
        self.parts.iter().map(|part| part.reference.as_str()).collect()
    }

    fn joined(&self, kinds: [PromptKind; 2]) -> Option<String> {
        let of = |kind| self.parts.iter().filter(move |part| part.kind == kind);
        let texts: Vec<&str> =
            kinds.into_iter().flat_map(of).map(|part| part.text.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }
}

/// The siblings of refs that hold words instead.
const INLINE: [(PromptKind, &str); 2] =
    [(PromptKind::System, "systemPrompt"), (PromptKind::User, "userPrompt")];

impl PromptResolver {
    /// Prepares the prompts of every kind that is named anywhere, from the templates that earlier attempts were made
    /// with. An error is what the node fails with.
    pub async fn prepare(
        &self,
        call: &Call,
        pinned: Option<&Templates>,
    ) -> Result<Prepared, CallFailure> {
        let mut prepared = Prepared::default();
        self.prepare_node(&Place { pinned, ..call.into() }, &mut prepared).await?;
        Ok(prepared)
    }

    /// Prepares the prompts of an agent that works on a node: its own, unless the node or the run names another.
    pub(crate) async fn prepare_agent(
        &self,
        call: &Call,
        agent: &InstalledAgent,
        pinned: Option<&Templates>,
    ) -> Result<Prepared, CallFailure> {
        let mut prepared = Prepared::default();
        let named = Some(agent.agent.id().as_str());
        let place = Place { pinned, ..call.into() };
        self.fill(&place, named, Some(agent), &mut prepared).await?;
        Ok(prepared)
    }

    /// The events that today's prompts would cause, of an agent or of the node; none where the library cannot say.
    pub async fn rehearse(
        &self,
        past: PastTask<'_>,
        agent: Option<&InstalledAgent>,
    ) -> Option<Vec<AgentFact>> {
        // What was recorded can be compared by digests, whatever the host keeps today.
        let prompt_resolver = Self { observability: Observability::Hashed, ..self.clone() };
        let (place, mut prepared) = (Place::from(past), Prepared::default());
        let ended = match agent {
            None => prompt_resolver.prepare_node(&place, &mut prepared).await,
            Some(agent) => {
                let named = Some(agent.agent.id().as_str());
                prompt_resolver.fill(&place, named, Some(agent), &mut prepared).await
            }
        };
        let is_known =
            ended.err().is_none_or(|call_failure| call_failure.class == RetryClass::Final);
        is_known.then_some(prepared.facts)
    }

    async fn prepare_node(
        &self,
        place: &Place<'_>,
        prepared: &mut Prepared,
    ) -> Result<(), CallFailure> {
        let agent = place.config.get("agentId").and_then(Value::as_str);
        let installed = agent.and_then(|agent| self.installed(place, agent));
        if let (Some(agent), None) = (agent, &installed) {
            let message = format!("agent {agent} is not installed, so its prompts do not apply");
            prepared.facts.push(warning("agent_binding_unresolvable", message));
        }
        self.fill(place, agent, installed.as_ref(), prepared).await?;
        for (kind, inline) in INLINE {
            let both = prepared.parts.iter().any(|part| part.kind == kind);
            if both && place.config.contains_key(inline) {
                let message = format!("config.{inline} gives way to the {} ref", kind.as_str());
                prepared.facts.push(warning("prompt_ref_supersedes_inline", message));
            }
        }
        Ok(())
    }

    async fn fill(
        &self,
        place: &Place<'_>,
        agent: Option<&str>,
        installed: Option<&InstalledAgent>,
        prepared: &mut Prepared,
    ) -> Result<(), CallFailure> {
        for kind in PromptKind::ALL {
            for slot in 0..slots(kind, place.config) {
                let found = self.resolve(place, kind, slot, agent, installed);
                if found.chosen.is_some() || is_asked_for(kind, place) {
                    self.compose(place, kind, found, installed, prepared).await?;
                }
            }
        }
        Ok(())
    }

    fn installed(&self, place: &Place<'_>, agent: &str) -> Option<InstalledAgent> {
        let agent: AgentId = agent.into();
        self.agents.snapshot().find(&place.scope.realm(), &agent, None).cloned()
    }

    fn resolve(
        &self,
        place: &Place<'_>,
        kind: PromptKind,
        slot: usize,
        named: Option<&str>,
        installed: Option<&InstalledAgent>,
    ) -> Resolution {
        let agent = match (named, installed) {
            (None, _) => Bound::Nobody,
            (Some(_), None) => Bound::Unknown,
            (Some(_), Some(found)) => Bound::Agent(AgentPrompts {
                agent_id: found.agent.id().as_str(),
                version: Some(found.version().as_str()),
                is_prompted: true,
                overrides: found.agent.manifest.prompt_overrides.as_ref(),
                library_default: None,
            }),
        };
        let sources = PromptSources {
            run: place.configurable.get("promptOverrides").and_then(Value::as_object),
            node: place.config,
            agent,
            workflow: place.prompt_defaults,
            host: None,
        };
        resolve(kind, slot, &sources)
    }

    /// Puts the tenant's secrets into the holes that are for secrets, and nothing else. One that is not there leaves its
    /// hole empty.
    async fn secrets(
        &self,
        place: &Place<'_>,
        template: &PromptTemplate,
        bindings: &mut Bindings,
    ) -> Result<(), CallFailure> {
        for variable in &template.variables {
            if variable.source != Some(PromptSource::Secret) {
                continue;
            }
            bindings.remove(&variable.name);
            if let Some(binding) = place.secret(&variable.name).await? {
                bindings.insert(variable.name.clone(), binding);
            }
        }
        Ok(())
    }

    async fn compose(
        &self,
        place: &Place<'_>,
        kind: PromptKind,
        found: Resolution,
        installed: Option<&InstalledAgent>,
        prepared: &mut Prepared,
    ) -> Result<(), CallFailure> {
        prepared.facts.push(found.fact(kind));
        let composed = match (found.chosen, installed) {
            (None, _) => return Ok(()),
            (Some(Chosen::Intrinsic { reference }), Some(found)) => {
                Composed::verbatim(kind, reference, &found.agent.prompt)
            }
            (Some(Chosen::Intrinsic { reference }), None) => {
                Composed::verbatim(kind, reference, "")
            }
            (Some(Chosen::Template(reference)), _) => {
                let name = reference.as_text();
                let template = match place.pinned.and_then(|pinned| pinned.get(&name)) {
                    Some(pinned) => pinned.clone(),
                    None => self.library.find(&place.scope, &reference).await.map_err(missing)?,
                };
                prepared.templates.insert(name, template.clone());
                let mut bindings = bindings(place);
                self.secrets(place, &template, &mut bindings).await?;
                for (name, value) in &reference.overrides {
                    bindings.insert(name.clone(), Binding::new(value.clone(), Trust::Trusted));
                }
                compose(&template, &bindings)
                    .map_err(|error| broken(error.code(), error.to_string()))?
            }
        };
        if let Some(told) = told_of(&[&composed], place.node, self.observability) {
            prepared.facts.push(AgentFact::PromptComposed(told));
        }
        prepared.parts.push(composed);
        Ok(())
    }
}

/// How many prompts of a kind a node may have.
fn slots(kind: PromptKind, config: &Object) -> usize {
    let named = config.get("fewShotPromptRefs").and_then(Value::as_array).map_or(0, Vec::len);
    if kind == PromptKind::FewShot { named.max(1) } else { 1 }
}

/// Whether a node names a prompt of this kind, be it one that leads nowhere.
fn is_asked_for(kind: PromptKind, place: &Place<'_>) -> bool {
    let key = match kind {
        PromptKind::System => "systemPromptRef",
        PromptKind::User => "userPromptRef",
        PromptKind::FewShot => "fewShotPromptRefs",
        PromptKind::SchemaHint => "schemaHintPromptRef",
    };
    place.config.contains_key(key)
}

/// What fills holes: the node's inputs, over what the host knows of the run.
fn bindings(place: &Place<'_>) -> Bindings {
    let context = [
        ("runId", place.run.as_str()),
        ("tenantId", place.scope.tenant.as_str()),
        ("nodeId", place.node.as_str()),
    ];
    let context = context.map(|(name, value)| (name.to_owned(), value.into(), Trust::Trusted));
    let inputs = place.inputs.iter().map(|(name, value)| {
        let is_stranger = place.from_outside || value["meta"]["contentTrust"] == "untrusted";
        let trust = if is_stranger { Trust::Untrusted } else { Trust::Trusted };
        (name.clone(), value.clone(), trust)
    });
    let all = context.into_iter().chain(inputs);
    all.map(|(name, value, trust)| (name, Binding::new(value, trust))).collect()
}

fn missing(error: LibraryError) -> CallFailure {
    match error {
        LibraryError::NotFound(_) => broken("prompt_template_not_found", error.to_string()),
        LibraryError::Ambiguous(_) => broken("prompt_ref_ambiguous", error.to_string()),
        LibraryError::Exists(_)
        | LibraryError::ReadOnly(_)
        | LibraryError::OfTenant(_)
        | LibraryError::NotNewer { .. }
        | LibraryError::Store(_) => CallFailure {
            failure: Failure::new("service_unavailable", "the prompt library cannot be read"),
            class: RetryClass::Retryable,
        },
    }
}

/// What stays wrong however often it is tried.
fn broken(code: &str, message: String) -> CallFailure {
    CallFailure { failure: Failure::new(code, message), class: RetryClass::Final }
}

fn warning(code: &str, message: String) -> AgentFact {
    let fields = json!({ "code": code });
    AgentFact::Noted {
        level: "warn".to_owned(),
        message,
        fields: fields.as_object().cloned().unwrap_or_default(),
    }
}

//! Which prompt applies to a node: the layers in their order, the first that names one wins.

use std::collections::BTreeMap;

use serde_json::Value;

use callboard_core::AgentFact;
use callboard_protocol::{Object, PromptKind, PromptLayer, PromptRef};

/// Every place that may name a prompt for one node.
#[derive(Debug, Clone, Copy)]
pub struct PromptSources<'a> {
    /// `configurable.promptOverrides`, if the run has any: kind → ref.
    pub run: Option<&'a Object>,
    pub node: &'a Object,
    pub agent: Bound<'a>,
    /// `defaults.promptRefs` of the definition: kind → ref.
    pub workflow: Option<&'a Object>,
    /// The host's own: kind → ref.
    pub host: Option<&'a Object>,
}

/// The agent that a node is bound to.
#[derive(Debug, Clone, Copy)]
pub enum Bound<'a> {
    Nobody,
    /// The node names an agent that is not installed: its layer is skipped, and the log gets a warning.
    Unknown,
    Agent(AgentPrompts<'a>),
}

/// What an agent brings along.
#[derive(Debug, Clone, Copy)]
pub struct AgentPrompts<'a> {
    pub agent_id: &'a str,
    /// Of its pack; absent where it is unknown.
    pub version: Option<&'a str>,
    /// Whether the manifest has a prompt of its own, in its text or in a file.
    pub is_prompted: bool,
    pub overrides: Option<&'a BTreeMap<String, Value>>,
    /// What its library has for this kind, if the library is here.
    pub library_default: Option<&'a PromptRef>,
}

/// Which prompt applies, with every place that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    pub chain: Vec<PromptLayer>,
    pub chosen: Option<Chosen>,
}

/// The prompt that applies.
#[derive(Debug, Clone, PartialEq)]
pub enum Chosen {
    Template(PromptRef),
    /// The agent's own, under the name that events give it.
    Intrinsic {
        reference: String,
    },
}

impl Chosen {
    pub fn as_text(&self) -> String {
        match self {
            Self::Template(reference) => reference.as_text(),
            Self::Intrinsic { reference } => reference.clone(),
        }
    }
}

impl Resolution {
    /// What the event `agent.promptResolved` says.
    pub fn fact(&self, kind: PromptKind) -> AgentFact {
        AgentFact::PromptResolved { kind, chain: self.chain.clone(), resolved: self.resolved() }
    }

    pub fn resolved(&self) -> Option<String> {
        self.chosen.as_ref().map(Chosen::as_text)
    }
}

/// Walks the layers for one kind. `slot` counts the examples of a node; all other kinds have one slot, 0.
pub fn resolve(kind: PromptKind, slot: usize, sources: &PromptSources<'_>) -> Resolution {
    let mut walk = Walk::default();
    if let Some(run) = sources.run {
        walk.look("run-configurable", named(run.get(kind.as_str())));
    }
    walk.look("node", named(at_node(kind, slot, sources.node)));
    match &sources.agent {
        Bound::Nobody => {}
        Bound::Unknown => walk.skip("agent-intrinsic", "agentId unresolved"),
        Bound::Agent(agent) => walk.ask_agent(kind, agent),
    }
    let default = |layer: Option<&Object>| named(layer.and_then(|refs| refs.get(kind.as_str())));
    walk.look("workflow-defaults", default(sources.workflow));
    walk.look("host-defaults", default(sources.host));
    Resolution { chain: walk.chain, chosen: walk.chosen }
}

/// A layer's candidate: none, or one that may not be a ref at all.
fn named(value: Option<&Value>) -> Candidate {
    match value {
        None | Some(Value::Null) => Candidate::None,
        Some(value) => PromptRef::read(value)
            .map_or(Candidate::Malformed, |reference| Candidate::Some(Chosen::Template(reference))),
    }
}

enum Candidate {
    None,
    Malformed,
    Some(Chosen),
}

fn at_node(kind: PromptKind, slot: usize, config: &Object) -> Option<&Value> {
    match kind {
        PromptKind::System => config.get("systemPromptRef"),
        PromptKind::User => config.get("userPromptRef"),
        PromptKind::SchemaHint => config.get("schemaHintPromptRef"),
        PromptKind::FewShot => config.get("fewShotPromptRefs")?.get(slot),
    }
}

#[derive(Default)]
struct Walk {
    chain: Vec<PromptLayer>,
    chosen: Option<Chosen>,
}

impl Walk {
    fn look(&mut self, layer: &str, candidate: Candidate) {
        let candidate = match candidate {
            Candidate::None => return self.skip(layer, "no candidate at this layer"),
            Candidate::Malformed => return self.skip(layer, "not a prompt reference"),
            Candidate::Some(candidate) => candidate,
        };
        let applied = self.chosen.is_none();
        self.chain.push(PromptLayer {
            layer: layer.to_owned(),
            applied,
            source: Some(candidate.as_text()),
            reason: (!applied).then(|| "superseded by a layer before it".to_owned()),
        });
        if applied {
            self.chosen = Some(candidate);
        }
    }

    fn skip(&mut self, layer: &str, why: &str) {
        self.chain.push(PromptLayer {
            layer: layer.to_owned(),
            applied: false,
            source: None,
            reason: Some(why.to_owned()),
        });
    }

    /// An agent's own prompt is for the system alone, and beats what its manifest says beside it.
    fn ask_agent(&mut self, kind: PromptKind, agent: &AgentPrompts<'_>) {
        if kind == PromptKind::System {
            let own = agent.is_prompted.then(|| Chosen::Intrinsic { reference: agent.own_ref() });
            self.look("agent-intrinsic", own.map_or(Candidate::None, Candidate::Some));
        }
        let overrides = agent.overrides.and_then(|overrides| overrides.get(kind.as_str()));
        self.look("agent-overrides", named(overrides));
        let default = agent.library_default.cloned().map(Chosen::Template);
        self.look("agent-library-default", default.map_or(Candidate::None, Candidate::Some));
    }
}

/// The longest name that a ref may have.
const LONGEST_NAME: usize = 128;
/// Stands for an unknown version.
const NO_VERSION: &str = "0.0.0";

impl AgentPrompts<'_> {
    /// A name for the agent's own prompt that has the form of a ref.
    pub(crate) fn own_ref(&self) -> String {
        let tame = |c: char| {
            let c = c.to_ascii_lowercase();
            let plain = c.is_ascii_lowercase() || c.is_ascii_digit();
            if plain || matches!(c, '.' | '_' | '-') { c } else { '-' }
        };
        let mut name: String =
            "agent-intrinsic.".chars().chain(self.agent_id.chars().map(tame)).collect();
        name.truncate(LONGEST_NAME);
        format!("prompt:{name}@{}", self.version.unwrap_or(NO_VERSION))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    fn applied(resolution: &Resolution) -> Vec<&str> {
        let applied = resolution.chain.iter().filter(|layer| layer.applied);
        applied.map(|layer| layer.layer.as_str()).collect()
    }

    #[test]
    fn every_layer_yields_to_those_before_it() {
        let run = object(json!({ "system": "prompt:run" }));
        let node = object(json!({ "systemPromptRef": "prompt:node@1.0.0" }));
        let overrides = BTreeMap::from([("system".to_owned(), json!("prompt:override"))]);
        let library = PromptRef::read(&json!("prompt:lib.default-system")).unwrap();
        let workflow =
            object(json!({ "system": { "templateId": "workflow", "version": "2.0.0" } }));
        let host = object(json!({ "system": "prompt:host" }));
        let nothing = Object::new();
        let mut agent = AgentPrompts {
            agent_id: "vendor.acme.Writer",
            version: Some("1.2.3"),
            is_prompted: true,
            overrides: Some(&overrides),
            library_default: Some(&library),
        };
        let mut sources = PromptSources {
            run: Some(&run),
            node: &node,
            agent: Bound::Agent(agent),
            workflow: Some(&workflow),
            host: Some(&host),
        };
        let mut seen = Vec::new();
        let mut look = |sources: &PromptSources<'_>| {
            let found = resolve(PromptKind::System, 0, sources);
            assert_eq!(applied(&found).len(), usize::from(found.chosen.is_some()));
            let source = found.chain.iter().find(|layer| layer.applied);
            assert_eq!(found.resolved(), source.and_then(|layer| layer.source.clone()));
            seen.push(found.resolved());
        };
        look(&sources);
        sources.run = None;
        look(&sources);
        sources.node = &nothing;
        look(&sources);
        agent.is_prompted = false;
        sources.agent = Bound::Agent(agent);
        look(&sources);
        agent.overrides = None;
        sources.agent = Bound::Agent(agent);
        look(&sources);
        sources.agent = Bound::Nobody;
        look(&sources);
        sources.workflow = None;
        look(&sources);
        sources.host = None;
        look(&sources);
        let expected = [
            Some("prompt:run"),
            Some("prompt:node@1.0.0"),
            Some("prompt:agent-intrinsic.vendor.acme.writer@1.2.3"),
            Some("prompt:override"),
            Some("prompt:lib.default-system"),
            Some("prompt:workflow@2.0.0"),
            Some("prompt:host"),
            None,
        ];
        assert_eq!(seen, expected.map(|text| text.map(str::to_owned)));
    }

    #[test]
    fn nothing_anywhere_still_lists_the_layers() {
        let node = Object::new();
        let agent = Bound::Nobody;
        let sources = PromptSources { run: None, node: &node, agent, workflow: None, host: None };
        let found = resolve(PromptKind::User, 0, &sources);
        let layers: Vec<&str> = found.chain.iter().map(|layer| layer.layer.as_str()).collect();
        assert_eq!(layers, ["node", "workflow-defaults", "host-defaults"]);
        assert_eq!(found.chosen, None);
    }

    #[test]
    fn an_agents_own_prompt_is_for_the_system_alone() {
        let node = Object::new();
        let agent = AgentPrompts {
            agent_id: "core.x",
            version: None,
            is_prompted: true,
            overrides: None,
            library_default: None,
        };
        let agent = Bound::Agent(agent);
        let sources = PromptSources { run: None, node: &node, agent, workflow: None, host: None };
        assert_eq!(resolve(PromptKind::User, 0, &sources).chosen, None);
        assert_eq!(applied(&resolve(PromptKind::System, 0, &sources)), ["agent-intrinsic"]);
    }

    #[test]
    fn each_slot_has_its_own_example() {
        let node = object(json!({ "fewShotPromptRefs": ["prompt:a", "prompt:b"] }));
        let agent = Bound::Nobody;
        let sources = PromptSources { run: None, node: &node, agent, workflow: None, host: None };
        let found = |slot| resolve(PromptKind::FewShot, slot, &sources).resolved();
        assert_eq!(found(0).as_deref(), Some("prompt:a"));
        assert_eq!(found(1).as_deref(), Some("prompt:b"));
    }

    #[test]
    fn what_is_no_ref_is_said_to_be_none() {
        let node = object(json!({ "systemPromptRef": "be kind" }));
        let agent = Bound::Unknown;
        let sources = PromptSources { run: None, node: &node, agent, workflow: None, host: None };
        let found = resolve(PromptKind::System, 0, &sources);
        assert_eq!(found.chosen, None);
        assert_eq!(found.chain[0].reason.as_deref(), Some("not a prompt reference"));
        assert_eq!(found.chain[1].reason.as_deref(), Some("agentId unresolved"));
    }

    #[test]
    fn an_agents_own_ref_has_the_form_of_a_ref() {
        let agent = AgentPrompts {
            agent_id: &format!("core.{}", "Ä:".repeat(200)),
            version: Some("1.0.0"),
            is_prompted: true,
            overrides: None,
            library_default: None,
        };
        assert!(PromptRef::read(&json!(agent.own_ref())).is_some(), "{}", agent.own_ref());
    }
}

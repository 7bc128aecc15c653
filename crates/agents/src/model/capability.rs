//! Capabilities that a node may require of a model, and what happens when the model lacks one.

use callboard_core::AgentFact;
use callboard_protocol::{ModelCapabilityInsufficient, ModelCapabilitySubstituted, NodeId};

use super::{ModelRef, Scripted};

/// Everything that this host knows of a model.
pub const MODEL_CAPABILITIES: [&str; 5] =
    ["structured-output", "discriminator-enum", "long-context", "reasoning", "function-calling"];

/// Capabilities of models, by the prefix of their names. For a model that is not listed none is assumed:
/// its operator knows better, and requires none of it.
const KNOWN: [(&str, &str, &[&str]); 12] = [
    (
        Scripted::PROVIDER,
        "",
        &["structured-output", "discriminator-enum", "function-calling", "long-context"],
    ),
    ("mock", "", &["structured-output", "discriminator-enum"]),
    ("anthropic", "claude-3-5", &["structured-output", "function-calling", "long-context"]),
    ("anthropic", "claude-3-7", &MODEL_CAPABILITIES),
    ("anthropic", "claude-opus-4", &MODEL_CAPABILITIES),
    ("anthropic", "claude-sonnet-4", &MODEL_CAPABILITIES),
    ("anthropic", "claude-haiku-4", &MODEL_CAPABILITIES),
    ("openai", "gpt-4o", &["structured-output", "discriminator-enum", "function-calling"]),
    (
        "openai",
        "gpt-4.1",
        &["structured-output", "discriminator-enum", "function-calling", "long-context"],
    ),
    ("openai", "gpt-5", &MODEL_CAPABILITIES),
    ("openai", "o", &MODEL_CAPABILITIES),
    ("gemini", "gemini-2", &MODEL_CAPABILITIES),
];

/// What is known of a model.
fn capabilities_of(model: &ModelRef) -> &'static [&'static str] {
    let known = KNOWN
        .iter()
        .filter(|(provider, name, _)| model.provider == *provider && model.model.starts_with(name));
    // The longest name says the most.
    known.max_by_key(|(_, name, _)| name.len()).map_or(&[], |(_, _, capabilities)| capabilities)
}

/// What a node demands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Demands {
    pub required: Vec<String>,
    /// Whom to ask instead.
    pub fallback: Option<ModelRef>,
}

/// What a host does about demands that are not met.
#[derive(Clone, Copy)]
pub struct Substitution<'a> {
    /// Whether another model may be asked at all.
    pub is_allowed: bool,
    /// Whether a provider can be asked: it is configured, with whatever it takes to speak to it.
    pub can_ask: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for Substitution<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Substitution").field("is_allowed", &self.is_allowed).finish_non_exhaustive()
    }
}

/// Whom to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    Dispatch,
    Substitute {
        fallback: ModelRef,
        missing: Vec<String>,
    },
    Refuse {
        missing: Vec<String>,
        /// Whether there was a fallback, which could not help either.
        fallback_attempted: bool,
    },
}

/// Decides which model to call. A fallback has no fallback of its own.
pub fn gate(active: &ModelRef, demands: &Demands, host: Substitution<'_>) -> Gate {
    let missing_of = |model: &ModelRef| -> Vec<String> {
        let has = capabilities_of(model);
        demands.required.iter().filter(|it| !has.contains(&it.as_str())).cloned().collect()
    };
    let mut missing = missing_of(active);
    missing.dedup();
    if missing.is_empty() {
        return Gate::Dispatch;
    }
    let Some(fallback) = demands.fallback.as_ref().filter(|_| host.is_allowed) else {
        return Gate::Refuse { missing, fallback_attempted: false };
    };
    if !(host.can_ask)(&fallback.provider) || !missing_of(fallback).is_empty() {
        return Gate::Refuse { missing, fallback_attempted: true };
    }
    Gate::Substitute { fallback: fallback.clone(), missing }
}

impl Gate {
    /// What the log says of it; nothing where nothing was wrong.
    pub fn fact(&self, active: &ModelRef, node: &NodeId) -> Option<AgentFact> {
        match self {
            Self::Dispatch => None,
            Self::Substitute { fallback, missing } => {
                Some(AgentFact::Substituted(ModelCapabilitySubstituted {
                    node_id: node.clone(),
                    original_provider: active.provider.clone(),
                    original_model: active.model.clone(),
                    fallback_provider: fallback.provider.clone(),
                    fallback_model: fallback.model.clone(),
                    missing_capabilities: missing.clone(),
                }))
            }
            Self::Refuse { missing, fallback_attempted } => {
                Some(AgentFact::Insufficient(ModelCapabilityInsufficient {
                    node_id: node.clone(),
                    provider: active.provider.clone(),
                    model: active.model.clone(),
                    missing_capabilities: missing.clone(),
                    fallback_attempted: *fallback_attempted,
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> ModelRef {
        text.parse().unwrap()
    }

    fn decided(active: &str, required: &[&str], fallback: Option<&str>, is_allowed: bool) -> Gate {
        let required = required.iter().map(|&it| it.to_owned()).collect();
        let demands = Demands { required, fallback: fallback.map(model) };
        let can_ask = |provider: &str| provider != "stranger";
        gate(&model(active), &demands, Substitution { is_allowed, can_ask: &can_ask })
    }

    ///
    #[test]
    fn a_demand_that_is_not_met_leads_to_another_model_or_nowhere() {
        let met = decided("anthropic/claude-3-5-sonnet", &["structured-output"], None, true);
        assert_eq!(met, Gate::Dispatch);
        let missing = vec!["long-context".to_owned()];
        let fallback = Some("anthropic/claude-opus-4-7");
        assert_eq!(
            decided("vendor/x", &["long-context"], fallback, true),
            Gate::Substitute {
                fallback: model("anthropic/claude-opus-4-7"),
                missing: missing.clone()
            }
        );
        for (fallback, is_allowed, fallback_attempted) in [
            (None, true, false),
            (fallback, false, false),
            (Some("stranger/claude"), true, true),
            (Some("vendor/other"), true, true),
        ] {
            assert_eq!(
                decided("vendor/x", &["long-context"], fallback, is_allowed),
                Gate::Refuse { missing: missing.clone(), fallback_attempted },
                "{fallback:?}"
            );
        }
    }

    #[test]
    fn the_longest_name_says_what_a_model_can_do() {
        assert!(!capabilities_of(&model("openai/gpt-4o")).contains(&"long-context"));
        assert!(capabilities_of(&model("openai/gpt-4.1-mini")).contains(&"long-context"));
        assert!(capabilities_of(&model("nobody/knows")).is_empty());
    }
}

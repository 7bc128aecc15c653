//! Resolves a class to a model, in the order: the run's own choice, the environment, the file, the built-in one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use callboard_protocol::{ModelClass, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Scripted;
use crate::coding::CODING_PROVIDER;

/// A model and who runs it, written `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ModelRef {
    /// Lower case.
    pub provider: String,
    /// Whatever the provider calls it: slashes and all.
    pub model: String,
}

impl ModelRef {
    pub fn scripted() -> Self {
        Self { provider: Scripted::PROVIDER.to_owned(), model: Scripted::MODEL.to_owned() }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// A text that names no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} must be provider/model")]
pub struct ModelRefError(pub String);

impl FromStr for ModelRef {
    type Err = ModelRefError;

    fn from_str(text: &str) -> Result<Self, ModelRefError> {
        // `scripted` has one model only.
        if text == Scripted::PROVIDER {
            return Ok(Self::scripted());
        }
        match text.split_once('/') {
            Some((provider, model)) if is_provider_name(provider) && !model.trim().is_empty() => {
                Ok(Self { provider: provider.to_owned(), model: model.trim().to_owned() })
            }
            _ => Err(ModelRefError(text.to_owned())),
        }
    }
}

/// What providers may be called: events carry the name in lower case.
fn is_provider_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(is_fine)
}

/// The configuration of models. All of it is read at the start, so a run that keeps what was resolved
/// keeps its model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelTable {
    /// For classes without a model of their own.
    pub default: Option<ModelRef>,
    pub classes: BTreeMap<ModelClass, ModelRef>,
    /// The models to fall back to, in this order, for classes without a list of their own.
    pub fallback: Vec<ModelRef>,
    pub fallbacks: BTreeMap<ModelClass, Vec<ModelRef>>,
    /// Providers that can be asked, beside the built-in one.
    pub providers: BTreeSet<String>,
    /// The models that a run may name without a key of its own, of providers for which the operator lists them.
    pub offered: BTreeMap<String, BTreeSet<String>>,
    /// Coding agents that the operator has named. No run names another: they are programs of this machine.
    pub coding: BTreeSet<String>,
}

/// What a run uses from its first turn to its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedModel {
    pub model: ModelRef,
    /// The name of the secret to ask with, where the run brought one. Never a key.
    pub credential_ref: Option<String>,
    /// The models to fall back to after it.
    pub fallbacks: Vec<ModelRef>,
    /// Whether the run named it: who asks for one model gets that one.
    pub is_wish: bool,
}

/// No model can answer. The code is `no_model_available`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoModel {
    #[error("no provider {0} is configured")]
    UnknownProvider(String),
    #[error("the coding agent {0} is not enabled on this host")]
    UnknownAgent(String),
    #[error(
        "{0} is not offered on this host; name another, or a key of your own with configurable.ai.credentialRef"
    )]
    NotOffered(ModelRef),
    #[error("configurable.ai.{0} must be text")]
    NotText(&'static str),
    #[error("configurable.ai.provider {0} needs configurable.ai.model beside it")]
    ModelMissing(String),
}

impl ModelTable {
    pub const CLASSES: [ModelClass; 6] = [
        ModelClass::Reasoning,
        ModelClass::Writing,
        ModelClass::Coding,
        ModelClass::Research,
        ModelClass::Classification,
        ModelClass::General,
    ];

    /// Puts the environment over the file: `CALLBOARD_MODEL` for every class, `CALLBOARD_MODEL_CODING` and its like
    /// for one. A model that is named there has no fallback. The error names the variable.
    pub fn with_environment(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, (String, ModelRefError)> {
        let read = |name: String| match variable(&name).map(|text| text.parse()) {
            None => Ok(None),
            Some(Ok(model)) => Ok(Some(model)),
            Some(Err(error)) => Err((name, error)),
        };
        if let Some(model) = read("CALLBOARD_MODEL".to_owned())? {
            let Self { providers, offered, coding, .. } = self;
            self = Self { default: Some(model), providers, offered, coding, ..Self::default() };
        }
        for class in Self::CLASSES {
            let name = format!("CALLBOARD_MODEL_{}", class.as_str().to_ascii_uppercase());
            if let Some(model) = read(name)? {
                self.classes.insert(class, model);
                self.fallbacks.insert(class, Vec::new());
            }
        }
        Ok(self)
    }

    /// The model of a class where the run has no wish of its own.
    pub fn of(&self, class: ModelClass) -> ModelRef {
        let named = self.classes.get(&class).or(self.default.as_ref());
        named.cloned().unwrap_or_else(ModelRef::scripted)
    }

    /// Decides once what a run uses for a class.
    pub fn resolve(
        &self,
        class: ModelClass,
        configurable: &Object,
    ) -> Result<ResolvedModel, NoModel> {
        let mut model = self.of(class);
        let mut wanted = wish(configurable, "model")?;
        let mut provider = wish(configurable, "provider")?;
        // The protocol's own key may name the provider too. What stands under `ai` goes before it.
        if let Some(named) = configurable.get("model").and_then(Value::as_str)
            && wanted.is_none()
        {
            let whole = named.parse().ok().filter(|named| self.can_ask(named));
            (provider, wanted) = match whole.filter(|_| provider.is_none()) {
                Some(ModelRef { provider, model }) => (Some(provider), Some(model)),
                None => (provider, Some(named.to_owned())),
            };
        }
        let is_wish = wanted.is_some() || provider.is_some();
        if let Some(provider) = provider
            && provider != model.provider
        {
            if wanted.is_none() && provider != Scripted::PROVIDER {
                return Err(NoModel::ModelMissing(provider));
            }
            model = ModelRef { provider, model: Scripted::MODEL.to_owned() };
        }
        if let Some(wanted) = wanted {
            model.model = wanted;
        }
        self.must_ask(&model)?;
        let credential_ref = wish(configurable, "credentialRef")?;
        if is_wish && credential_ref.is_none() && !self.is_offered(&model) {
            return Err(NoModel::NotOffered(model));
        }
        let fallbacks = match is_wish {
            true => Vec::new(),
            // The run's own key is for one provider.
            false => self.after(&model, class, |it| {
                credential_ref.is_none() || it.provider == model.provider
            }),
        };
        Ok(ResolvedModel { model, credential_ref, fallbacks, is_wish })
    }

    fn after(
        &self,
        model: &ModelRef,
        class: ModelClass,
        may_ask: impl Fn(&ModelRef) -> bool,
    ) -> Vec<ModelRef> {
        let listed = self.fallbacks.get(&class).unwrap_or(&self.fallback).iter();
        listed.filter(|it| *it != model && may_ask(it) && self.can_ask(it)).cloned().collect()
    }

    /// Whether a provider for a model is configured.
    pub fn can_ask(&self, model: &ModelRef) -> bool {
        self.must_ask(model).is_ok()
    }

    fn must_ask(&self, model: &ModelRef) -> Result<(), NoModel> {
        let is_there = match model.provider.as_str() {
            Scripted::PROVIDER => true,
            CODING_PROVIDER if self.coding.contains(&model.model) => true,
            CODING_PROVIDER => return Err(NoModel::UnknownAgent(model.model.clone())),
            provider => self.providers.contains(provider),
        };
        is_there.then_some(()).ok_or_else(|| NoModel::UnknownProvider(model.provider.clone()))
    }

    /// A configured list of a provider's models is complete, beside those that stand for a class.
    fn is_offered(&self, model: &ModelRef) -> bool {
        let Some(listed) = self.offered.get(&model.provider) else { return true };
        let lists = self.fallbacks.values().flatten();
        let mut named =
            self.default.iter().chain(self.classes.values()).chain(&self.fallback).chain(lists);
        listed.contains(&model.model) || named.any(|named| named == model)
    }

    /// Why the run's choice of model can never be granted, where that is known before the run exists.
    pub fn admit(&self, configurable: &Object) -> Result<(), NoModel> {
        let (provider, model) = (wish(configurable, "provider")?, wish(configurable, "model")?);
        match (provider, model) {
            (Some(provider), Some(model)) => self.must_ask(&ModelRef { provider, model }),
            // Its kind may come from the class, which a node decides.
            (Some(provider), None) if provider == CODING_PROVIDER => Ok(()),
            (Some(provider), None) => self.must_ask(&ModelRef { provider, model: String::new() }),
            (None, _) => Ok(()),
        }
    }
}

/// A member of `configurable.ai`, which may also be written `"ai.model"`. The nested one wins.
fn wish(configurable: &Object, name: &'static str) -> Result<Option<String>, NoModel> {
    let nested = configurable.get("ai").and_then(|ai| ai.get(name));
    match nested.or_else(|| configurable.get(&format!("ai.{name}"))) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(NoModel::NotText(name)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model(text: &str) -> ModelRef {
        text.parse().unwrap()
    }

    fn table() -> ModelTable {
        ModelTable {
            default: Some(model("anthropic/claude-sonnet-4-5")),
            classes: [(ModelClass::Coding, model("cli/claude-code"))].into(),
            fallback: vec![model("openai/gpt-4.1"), model("anthropic/claude-haiku-4-5")],
            fallbacks: [(ModelClass::Coding, vec![model("cli/codex")])].into(),
            providers: ["anthropic", "openai"].map(str::to_owned).into(),
            offered: BTreeMap::new(),
            coding: ["claude-code", "codex"].map(str::to_owned).into(),
        }
    }

    fn resolved(class: ModelClass, configurable: &Value) -> Result<String, NoModel> {
        let configurable = configurable.as_object().unwrap();
        table().resolve(class, configurable).map(|found| found.model.to_string())
    }

    #[test]
    fn a_class_without_a_model_uses_the_default_and_then_the_built_in_one() {
        assert_eq!(table().of(ModelClass::Coding), model("cli/claude-code"));
        assert_eq!(table().of(ModelClass::Writing), model("anthropic/claude-sonnet-4-5"));
        assert_eq!(ModelTable::default().of(ModelClass::Writing), ModelRef::scripted());
    }

    #[test]
    fn the_protocols_own_key_names_a_model_or_a_provider_with_it() {
        let check = |configurable: Value, expected: &str| {
            let found = resolved(ModelClass::General, &configurable);
            assert_eq!(found.as_deref(), Ok(expected), "{configurable}");
        };
        check(json!({ "model": "claude-opus-4-5" }), "anthropic/claude-opus-4-5");
        check(json!({ "model": "openai/gpt-5" }), "openai/gpt-5");
        check(json!({ "model": "qwen/qwen3" }), "anthropic/qwen/qwen3");
        check(json!({ "model": "a", "ai": { "model": "b" } }), "anthropic/b");
        check(json!({ "model": "gpt-5", "ai": { "provider": "openai" } }), "openai/gpt-5");
    }

    ///
    #[test]
    fn the_runs_own_wish_beats_the_class_nested_and_dotted() {
        let check = |configurable: Value, expected: &str| {
            assert_eq!(
                resolved(ModelClass::Coding, &configurable).as_deref(),
                Ok(expected),
                "{configurable}"
            );
        };
        check(json!({}), "cli/claude-code");
        check(json!({ "ai": { "provider": "openai", "model": "gpt-4.1" } }), "openai/gpt-4.1");
        check(json!({ "ai.provider": "openai", "ai.model": "gpt-4.1" }), "openai/gpt-4.1");
        check(json!({ "ai": { "model": "codex" }, "ai.model": "aider" }), "cli/codex");
        check(json!({ "ai": { "provider": "scripted" } }), "scripted/scripted");
        check(json!({ "ai": { "model": null } }), "cli/claude-code");
    }

    #[test]
    fn what_cannot_be_asked_is_said_before_a_turn() {
        let check = |configurable: Value, expected: NoModel| {
            assert_eq!(resolved(ModelClass::General, &configurable), Err(expected));
        };
        check(
            json!({ "ai": { "provider": "acme", "model": "m" } }),
            NoModel::UnknownProvider("acme".into()),
        );
        check(
            json!({ "ai": { "provider": "cli", "model": "gemini-cli" } }),
            NoModel::UnknownAgent("gemini-cli".into()),
        );
        check(json!({ "ai": { "provider": "openai" } }), NoModel::ModelMissing("openai".into()));
        check(json!({ "ai": { "model": 4 } }), NoModel::NotText("model"));
    }

    #[test]
    fn a_wish_that_no_node_could_have_is_refused_before_there_is_a_run() {
        let admitted =
            |configurable: Value| table().admit(configurable.as_object().unwrap()).is_ok();
        assert!(admitted(json!({})) && admitted(json!({ "ai": { "model": "codex" } })));
        assert!(admitted(json!({ "ai": { "provider": "cli", "model": "codex" } })));
        assert!(admitted(json!({ "ai": { "provider": "openai" } })));
        assert!(admitted(json!({ "ai.provider": "scripted" })));
        assert!(!admitted(json!({ "ai.provider": "cli", "ai.model": "aider" })));
        assert!(!admitted(json!({ "ai": { "provider": "acme" } })));
    }

    #[test]
    fn where_models_are_listed_another_needs_a_key_of_ones_own() {
        let mut table = table();
        table.offered.insert("openai".to_owned(), ["gpt-5".to_owned()].into());
        let resolved = |ai: Value| {
            let configurable = json!({ "ai": ai });
            table.resolve(ModelClass::General, configurable.as_object().unwrap()).map(drop)
        };
        assert_eq!(resolved(json!({ "provider": "openai", "model": "gpt-5" })), Ok(()));
        // It stands in a list of the host's own.
        assert_eq!(resolved(json!({ "provider": "openai", "model": "gpt-4.1" })), Ok(()));
        let dear = json!({ "provider": "openai", "model": "o1-pro" });
        assert_eq!(resolved(dear), Err(NoModel::NotOffered(model("openai/o1-pro"))));
        let own = json!({ "provider": "openai", "model": "o1-pro", "credentialRef": "mine" });
        assert_eq!(resolved(own), Ok(()));
        assert_eq!(resolved(json!({ "model": "claude-opus-4-5" })), Ok(()));
    }

    #[test]
    fn who_cannot_be_asked_is_passed_over_in_the_list() {
        let mut table = table();
        table.providers.remove("openai");
        let found = table.resolve(ModelClass::Writing, &Object::new()).unwrap();
        assert_eq!(found.fallbacks, [model("anthropic/claude-haiku-4-5")]);
    }

    #[test]
    fn a_credential_is_named_and_never_brought() {
        let configurable = json!({ "ai": { "credentialRef": "team-key" } });
        let found = table().resolve(ModelClass::General, configurable.as_object().unwrap());
        assert_eq!(found.unwrap().credential_ref.as_deref(), Some("team-key"));
    }

    #[test]
    fn a_class_has_its_own_list_of_fallbacks_and_a_wish_has_none() {
        let after = |class, configurable: Value| -> Vec<String> {
            let found = table().resolve(class, configurable.as_object().unwrap()).unwrap();
            found.fallbacks.iter().map(ToString::to_string).collect()
        };
        assert_eq!(after(ModelClass::Coding, json!({})), ["cli/codex"]);
        let general = ["openai/gpt-4.1", "anthropic/claude-haiku-4-5"];
        assert_eq!(after(ModelClass::General, json!({})), general);
        let own_key = json!({ "ai": { "credentialRef": "team-key" } });
        assert_eq!(after(ModelClass::General, own_key), ["anthropic/claude-haiku-4-5"]);
        let wish = json!({ "ai": { "model": "claude-opus-4-5" } });
        assert_eq!(after(ModelClass::General, wish), [""; 0]);
        let named = table().with_environment(|name| {
            (name == "CALLBOARD_MODEL_CODING").then(|| "openai/o4-mini".to_owned())
        });
        let found = named.unwrap().resolve(ModelClass::Coding, &Object::new()).unwrap();
        assert_eq!(found.fallbacks, []);
    }

    #[test]
    fn the_environment_is_over_the_file() {
        let environment = |all: &str, coding: &str| {
            table().with_environment(|name| match name {
                "CALLBOARD_MODEL" => (!all.is_empty()).then(|| all.to_owned()),
                "CALLBOARD_MODEL_CODING" => (!coding.is_empty()).then(|| coding.to_owned()),
                _ => None,
            })
        };
        let all = environment("scripted", "").unwrap();
        assert_eq!(all.of(ModelClass::Coding), ModelRef::scripted());
        let one = environment("scripted", "openai/o4-mini").unwrap();
        assert_eq!(one.of(ModelClass::Coding), model("openai/o4-mini"));
        assert_eq!(one.of(ModelClass::General), ModelRef::scripted());
        let (name, error) = environment("", "gpt").unwrap_err();
        assert_eq!((name.as_str(), error.0.as_str()), ("CALLBOARD_MODEL_CODING", "gpt"));
    }

    #[test]
    fn a_model_may_have_slashes_and_a_provider_may_not() {
        let found = model("router/meta-llama/llama-3");
        assert_eq!(
            (found.provider.as_str(), found.model.as_str()),
            ("router", "meta-llama/llama-3")
        );
        for wrong in ["", "gpt", "/x", "openai/", "Open AI/x"] {
            assert_eq!(wrong.parse::<ModelRef>(), Err(ModelRefError(wrong.to_owned())));
        }
    }
}

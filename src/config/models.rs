//! `[models]`: what a manifest's model class means here.

use std::collections::BTreeMap;

use callboard_agents::{CODING_PROVIDER, ModelRef, ModelTable, Scripted};
use callboard_backends::{CODING_KINDS, ProviderSettings};
use callboard_protocol::ModelClass;

use super::Config;
use super::source::{Source, Value};
use crate::exit::CommandError;

/// The section as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Models {
    default: Option<Named>,
    classes: BTreeMap<ModelClass, Named>,
    /// Who is asked when a model is in trouble, where its class does not say.
    fallback: Vec<Named>,
    fallbacks: BTreeMap<ModelClass, Vec<Named>>,
}

/// A model, and where the file names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) model: ModelRef,
    pub(super) place: String,
    pub(super) path: String,
}

impl Models {
    pub(super) fn named(&self) -> impl Iterator<Item = &Named> {
        let first = self.default.iter().chain(self.classes.values());
        first.chain(&self.fallback).chain(self.fallbacks.values().flatten())
    }
}

impl Config {
    /// The models of every class, with the environment over the file.
    pub(crate) fn model_table(
        &self,
        providers: &[ProviderSettings],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<ModelTable, CommandError> {
        let classes = self.models.classes.iter();
        let fallbacks = self.models.fallbacks.iter();
        let table = ModelTable {
            default: self.models.default.as_ref().map(|named| named.model.clone()),
            classes: classes.map(|(class, named)| (*class, named.model.clone())).collect(),
            fallback: models(&self.models.fallback),
            fallbacks: fallbacks.map(|(class, named)| (*class, models(named))).collect(),
            providers: providers.iter().map(|it| it.name.clone()).collect(),
            offered: self.offered_models(),
            coding: self.cli.agents.keys().cloned().collect(),
        };
        let mut table = table.with_environment(&variable).map_err(|(name, error)| {
            CommandError::usage(format!("{name}: {error}"))
                .hint("write it like anthropic/claude-sonnet-4-5, or scripted")
        })?;
        let file = self.models.named().map(|named| &named.model);
        let named = file.chain(&table.default).chain(table.classes.values());
        let coding = named.filter(|model| model.provider == CODING_PROVIDER);
        let coding: Vec<String> = coding.map(|model| model.model.clone()).collect();
        table.coding.extend(coding);
        let all = [("CALLBOARD_MODEL".to_owned(), table.default.as_ref())];
        let classes = ModelTable::CLASSES.map(|class| {
            let class_name = class.as_str().to_ascii_uppercase();
            (format!("CALLBOARD_MODEL_{class_name}"), table.classes.get(&class))
        });
        for (name, model) in all.into_iter().chain(classes) {
            if let Some(model) = variable(&name).and(model) {
                self.must_be_configured(&name, model, &table)?;
            }
        }
        // The file's own models were checked with their place.
        let named = table.default.iter().chain(table.classes.values());
        match named.filter_map(|model| self.unknown_agent(model)).next() {
            Some((what, hint)) => {
                Err(CommandError::usage(format!("CALLBOARD_MODEL: {what}")).hint(hint))
            }
            None => Ok(table),
        }
    }

    /// Whoever names a model in the environment wants it to be asked. A file may name more than a machine has keys for.
    fn must_be_configured(
        &self,
        name: &str,
        model: &ModelRef,
        table: &ModelTable,
    ) -> Result<(), CommandError> {
        let provider = model.provider.as_str();
        if table.can_ask(model) {
            return Ok(());
        }
        let what = format!("{name} is {model}, and no provider {provider} is configured");
        Err(CommandError::usage(what).hint(match self.key_variable(provider) {
            Some(key) => format!("set {key}, or add a section [providers.{provider}]"),
            None => format!("add a section [providers.{provider}] with kind and base_url"),
        }))
    }

    /// What is wrong with a model that names a coding agent which nobody knows, and what to do.
    pub(super) fn unknown_agent(&self, model: &ModelRef) -> Option<(String, String)> {
        let own = self.cli.agents.iter().filter(|(_, agent)| agent.acp.is_some());
        let known = CODING_KINDS.iter().map(|kind| kind.name);
        let known: Vec<&str> = known.chain(own.map(|(name, _)| name.as_str())).collect();
        let is_unknown =
            model.provider == CODING_PROVIDER && !known.contains(&model.model.as_str());
        is_unknown.then(|| {
            let what = format!("no coding agent is called {}", model.model);
            (what, format!("known: {}", known.join(", ")))
        })
    }
}

impl Source<'_> {
    pub(super) fn models(&self, value: &Value<'_>) -> Result<Models, CommandError> {
        let table = self.section(value, "models")?;
        let mut models = Models::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = format!("models.{name}");
            let class = ModelTable::CLASSES.into_iter().find(|class| class.as_str() == name);
            match (class, name) {
                (Some(class), _) => {
                    let named = self.succession(value, &path)?;
                    if named.len() > 1 {
                        self.models_only(&named, &path)?;
                    }
                    let mut named = named.into_iter();
                    if let Some(first) = named.next() {
                        models.classes.insert(class, first);
                    }
                    if named.len() > 0 {
                        models.fallbacks.insert(class, named.collect());
                    }
                }
                (None, "default") => models.default = Some(self.named(value, &path)?),
                (None, "fallback") => {
                    models.fallback = self.succession(value, &path)?;
                    self.models_only(&models.fallback, &path)?;
                }
                (None, _) => {
                    let classes = ModelTable::CLASSES.map(ModelClass::as_str);
                    let known: Vec<&str> =
                        ["default", "fallback"].into_iter().chain(classes).collect();
                    return Err(self.unknown(key.span().start, &path, name, &known));
                }
            }
        }
        Ok(models)
    }

    /// One model, or several in the order in which they are asked.
    fn succession(&self, value: &Value<'_>, path: &str) -> Result<Vec<Named>, CommandError> {
        match value.get_ref().as_array() {
            None => Ok(vec![self.named(value, path)?]),
            Some(listed) if listed.is_empty() => {
                Err(self.wrong(value, path, "a model or a list of models"))
            }
            Some(listed) => listed.iter().map(|value| self.named(value, path)).collect(),
        }
    }

    /// A succession in which whoever comes later can go on with what the earlier ones have begun.
    fn models_only(&self, named: &[Named], path: &str) -> Result<(), CommandError> {
        match named.iter().find(|named| named.model.provider == CODING_PROVIDER) {
            Some(Named { place, .. }) => {
                let what = format!("{place}: {path}: a coding agent is in no list of models");
                Err(CommandError::usage(what)
                    .hint("what it has begun nobody else can go on with; name it alone"))
            }
            None => Ok(()),
        }
    }

    fn named(&self, value: &Value<'_>, path: &str) -> Result<Named, CommandError> {
        let place = self.place(value.span().start);
        let text = self.text(value, path)?;
        let model: ModelRef = text.parse().map_err(|error| {
            CommandError::usage(format!("{place}: {path}: {error}"))
                .hint("write it like \"anthropic/claude-sonnet-4-5\"")
        })?;
        Ok(Named { model, place, path: path.to_owned() })
    }
}

fn models(named: &[Named]) -> Vec<ModelRef> {
    named.iter().map(|named| named.model.clone()).collect()
}

/// Whether a model can name the provider without a section of its own.
pub(super) fn is_built_in(provider: &str) -> bool {
    provider == Scripted::PROVIDER || provider == CODING_PROVIDER
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, (String, Option<String>)> {
        Config::parse("c.toml", text).map_err(|error| (error.what, error.hint))
    }

    #[test]
    fn classes_are_read_and_the_environment_is_over_them() {
        let text = "[models]\ndefault = \"anthropic/claude-sonnet-4-5\"\ncoding = \"cli/codex\"\n";
        let config = read(text).unwrap();
        let file = config.model_table(&[], |_| None).unwrap();
        assert_eq!(file.of(ModelClass::Coding).to_string(), "cli/codex");
        assert_eq!(file.of(ModelClass::Writing).to_string(), "anthropic/claude-sonnet-4-5");
        let scripted = |name: &str| (name == "CALLBOARD_MODEL").then(|| "scripted".to_owned());
        let over = config.model_table(&[], scripted).unwrap();
        assert_eq!(over.of(ModelClass::Coding), ModelRef::scripted());
        let wrong = |name: &str| (name == "CALLBOARD_MODEL_CODING").then(|| "gpt".to_owned());
        let error = config.model_table(&[], wrong).unwrap_err();
        assert_eq!(error.what, "CALLBOARD_MODEL_CODING: \"gpt\" must be provider/model");
        let keyless =
            |name: &str| (name == "CALLBOARD_MODEL_CODING").then(|| "openai/gpt".to_owned());
        let error = config.model_table(&[], keyless).unwrap_err();
        let what = "CALLBOARD_MODEL_CODING is openai/gpt, and no provider openai is configured";
        assert_eq!(error.what, what);
        let hint = "set OPENAI_API_KEY, or add a section [providers.openai]";
        assert_eq!(error.hint.as_deref(), Some(hint));
        let nobody = |name: &str| (name == "CALLBOARD_MODEL").then(|| "cli/claude".to_owned());
        let error = config.model_table(&[], nobody).unwrap_err();
        assert_eq!(error.what, "CALLBOARD_MODEL: no coding agent is called claude");
    }

    #[test]
    fn a_list_is_a_model_and_those_that_come_after_it() {
        let text = "[models]\ndefault = \"scripted\"\nfallback = \"local/a\"\n\
                    coding = [\"local/b\", \"local/c\", \"scripted\"]\n\
                    [providers.local]\nkind = \"openai-compatible\"\nbase_url = \"http://127.0.0.1:1/v1\"\n";
        let config = read(text).unwrap();
        let providers = config.provider_settings(|_| None).unwrap();
        let table = config.model_table(&providers, |_| None).unwrap();
        let after = |class| {
            let found = table.resolve(class, &callboard_protocol::Object::new()).unwrap();
            let all = [found.model].into_iter().chain(found.fallbacks);
            all.map(|model| model.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(after(ModelClass::Coding), ["local/b", "local/c", "scripted/scripted"]);
        assert_eq!(after(ModelClass::Writing), ["scripted/scripted", "local/a"]);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, what) in [
            ("[models]\nwritting = \"a/b\"", "c.toml:2: unknown key models.writting"),
            ("[models]\ndefault = 3", "c.toml:2: models.default must be text, not an integer"),
            (
                "[models]\ndefault = \"gpt\"",
                "c.toml:2: models.default: \"gpt\" must be provider/model",
            ),
            (
                "[models]\ncoding = \"cli/claude\"",
                "c.toml:2: models.coding: no coding agent is called claude",
            ),
            ("\n[models]\ndefault = \"acme/m\"", "c.toml:3: no provider acme is configured"),
            (
                "[models]\nfallback = [\"scripted\",\n\"acme/m\"]",
                "c.toml:3: no provider acme is configured",
            ),
            (
                "[models]\ncoding = [\"cli/codex\", \"scripted\"]",
                "c.toml:2: models.coding: a coding agent is in no list of models",
            ),
            (
                "[models]\ncoding = []",
                "c.toml:2: models.coding must be a model or a list of models, not an array",
            ),
            ("models = 1", "c.toml:1: models must be a section, not an integer"),
        ] {
            assert_eq!(
                read(text).map(|_| ()).map_err(|(what, _)| what),
                Err(what.to_owned()),
                "{text}"
            );
        }
        let (_, hint) = read("[models]\nwritting = \"a/b\"").unwrap_err();
        assert_eq!(hint.as_deref(), Some("did you mean writing?"));
    }
}

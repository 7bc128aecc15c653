//! `[models]`: which model each model class stands for.

use serde::Deserialize;
use serde::de::Deserializer;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use callboard_agents::{CODING_PROVIDER, ModelRef, ModelTable, Scripted};
use callboard_backends::{CODING_KINDS, ProviderSettings};
use callboard_protocol::ModelClass;

use super::Config;
use super::explain::Fault;
use super::values::checked;
use crate::exit::CommandError;

/// The section as it was read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Models {
    default: Option<Spanned<Model>>,
    /// The models to fall back to, where a class has no list of its own.
    #[serde(deserialize_with = "listed")]
    fallback: Listed,
    #[serde(deserialize_with = "listed")]
    reasoning: Listed,
    #[serde(deserialize_with = "listed")]
    writing: Listed,
    #[serde(deserialize_with = "listed")]
    coding: Listed,
    #[serde(deserialize_with = "listed")]
    research: Listed,
    #[serde(deserialize_with = "listed")]
    classification: Listed,
    #[serde(deserialize_with = "listed")]
    general: Listed,
}

/// A model as the file writes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct Model(ModelRef);

impl TryFrom<String> for Model {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| {
            format!("must be provider/model, not {text:?}\nwrite it like \"anthropic/claude-sonnet-4-5\"")
        })
    }
}

/// The models of a key, in the order in which they are asked.
type Listed = Vec<Spanned<Model>>;

fn listed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Listed, D::Error> {
    let admit = |models: Listed| (!models.is_empty()).then_some(models);
    checked(deserializer, "a model or a list of models", admit)
}

/// Makes a list of a model that stands alone, so that there is one form to read.
pub(super) fn list_models(file: &mut DeTable<'_>) {
    let Some(DeValue::Table(models)) = file.get_mut("models").map(Spanned::get_mut) else { return };
    for (key, value) in models.iter_mut() {
        if key.get_ref() != "default" && !value.get_ref().is_array() {
            let mut list = DeArray::new();
            list.push(value.clone());
            *value.get_mut() = DeValue::Array(list);
        }
    }
}

impl Models {
    fn of(&self, class: ModelClass) -> &Listed {
        match class {
            ModelClass::Reasoning => &self.reasoning,
            ModelClass::Writing => &self.writing,
            ModelClass::Coding => &self.coding,
            ModelClass::Research => &self.research,
            ModelClass::Classification => &self.classification,
            ModelClass::General => &self.general,
        }
    }

    fn named(&self) -> impl Iterator<Item = &Spanned<Model>> {
        let classes = ModelTable::CLASSES.into_iter().flat_map(|class| self.of(class).iter());
        self.default.iter().chain(self.fallback.iter()).chain(classes)
    }

    /// In a list, a later model must be able to continue what the earlier ones have begun.
    fn check_lists(&self) -> Result<(), Fault> {
        let classes = ModelTable::CLASSES.map(|class| self.of(class));
        let lists = classes.into_iter().filter(|models| models.len() > 1).chain([&self.fallback]);
        let mut listed = lists.flatten();
        match listed.find(|named| named.get_ref().0.provider == CODING_PROVIDER) {
            None => Ok(()),
            Some(named) => Err(Fault {
                span: named.span(),
                message: "lists a coding agent among models\n\
                          what it has begun nobody else can go on with; name it alone"
                    .to_owned(),
            }),
        }
    }
}

impl Config {
    /// Every model of the file has a provider that could answer.
    pub(super) fn check_models(&self) -> Result<(), Fault> {
        self.models.check_lists()?;
        for named in self.models.named() {
            let Model(model) = named.get_ref();
            let provider = model.provider.as_str();
            let (why, hint) = match self.unknown_agent(model) {
                Some(unknown) => unknown,
                None if self.knows_provider(provider) => continue,
                None => (
                    format!("no provider {provider} is configured"),
                    format!("add a section [providers.{provider}] with kind and base_url"),
                ),
            };
            let message = format!("names {model}, and {why}\n{hint}");
            return Err(Fault { span: named.span(), message });
        }
        Ok(())
    }

    /// The models of every class, with the environment over the file.
    pub(crate) fn model_table(
        &self,
        providers: &[ProviderSettings],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<ModelTable, CommandError> {
        let models = |named: &[Spanned<Model>]| -> Vec<ModelRef> {
            named.iter().map(|named| named.get_ref().0.clone()).collect()
        };
        let classes = ModelTable::CLASSES.map(|class| (class, models(self.models.of(class))));
        let first =
            |(class, models): &(ModelClass, Vec<ModelRef>)| Some((*class, models.first()?.clone()));
        let later = |(class, models): &(ModelClass, Vec<ModelRef>)| {
            models.get(1..).filter(|later| !later.is_empty()).map(|later| (*class, later.to_vec()))
        };
        let table = ModelTable {
            default: self.models.default.as_ref().map(|named| named.get_ref().0.clone()),
            classes: classes.iter().filter_map(first).collect(),
            fallback: models(&self.models.fallback),
            fallbacks: classes.iter().filter_map(later).collect(),
            providers: providers.iter().map(|it| it.name.clone()).collect(),
            offered: self.offered_models(),
            coding: self.cli.agents.keys().cloned().collect(),
        };
        let mut table = table.with_environment(&variable).map_err(|(name, error)| {
            CommandError::usage(format!("{name}: {error}"))
                .hint("write it like anthropic/claude-sonnet-4-5, or scripted")
        })?;
        let file = self.models.named().map(|named| &named.get_ref().0);
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

    /// What is wrong with a model that names an unknown coding agent, and what to do.
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

/// Whether a model can name the provider without a section of its own.
pub(super) fn is_built_in(provider: &str) -> bool {
    provider == Scripted::PROVIDER || provider == CODING_PROVIDER
}

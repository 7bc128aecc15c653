//! The models of a host, and what their prompts are made from.

use std::sync::Arc;

use callboard_agents::{
    AgentRegistry, MockAi, Model, ModelTable, Models, Observability, PriceTable, PromptLibrary,
    PromptResolver, PublishedAi, StructuredOutput, built_in_prompts,
};
use callboard_backends::LiveModel;
use callboard_core::Redactor;
use callboard_engine::{Activities, Store};

use super::limited::Limited;
use super::measured::Measured;
use super::providers::LiveProviders;
use super::{Settings, conformance, known};
use crate::exit::CommandError;

/// Whom this host can ask, and with which words.
#[derive(Debug, Clone)]
pub(super) struct ModelWiring {
    pub(super) models: Arc<dyn Model>,
    /// The same, where its calls wait.
    pub(super) limited: Arc<Limited<Measured>>,
    pub(super) table: ModelTable,
    pub(super) prices: PriceTable,
    pub(super) prompt_resolver: PromptResolver,
    pub(super) mock: Option<MockAi>,
    pub(super) providers: LiveProviders,
    /// The secrets that no run may repeat.
    pub(super) secrets: Redactor,
}

impl ModelWiring {
    pub(super) fn new(
        settings: &Settings,
        store: Arc<dyn Store>,
        agents: Arc<AgentRegistry>,
    ) -> Result<Self, CommandError> {
        let providers = settings.config.provider_settings(settings.variable)?;
        let mut table = settings.config.model_table(&providers, settings.variable)?;
        let secrets = known::secrets(settings, &providers);
        let (mut models, mut live) = (Models::default(), LiveProviders::default());
        for provider in providers {
            let name = provider.name.clone();
            let model = Arc::new(LiveModel::new(provider));
            live.0.insert(name.clone(), Arc::clone(&model));
            models = models.with(&name, model);
        }
        let mock = settings.test_seams.then(MockAi::default);
        if let Some(mock) = &mock {
            models = models.with(MockAi::PROVIDER, Arc::new(mock.clone()));
            table.providers.insert(MockAi::PROVIDER.to_owned());
        }
        let mut templates = built_in_prompts();
        // The suite reads the texts of prompts; no other prompt is logged.
        let mut observability = Observability::Hashed;
        if settings.test_seams {
            templates.extend(conformance::prompts());
            observability = Observability::Full;
        }
        let library = PromptLibrary::new(store, templates).with_packs(Arc::clone(&agents));
        let prompt_resolver = PromptResolver { library, agents, observability };
        let prices = settings.config.price_table();
        // What a call waits for is not the provider's time.
        settings.config.check_provider_limits(|name| live.0.contains_key(name))?;
        let measured = Measured::new(models);
        let limited = Arc::new(Limited::new(measured, &settings.config.provider_limits()));
        let models: Arc<dyn Model> = Arc::clone(&limited) as _;
        let providers = live;
        Ok(Self { limited, models, table, prices, prompt_resolver, mock, providers, secrets })
    }

    /// Adds the node types that ask models.
    pub(super) fn perform(&self, activities: Activities, test_seams: bool) -> Activities {
        let asks = StructuredOutput {
            models: Arc::clone(&self.models),
            table: self.table.clone(),
            prices: self.prices.clone(),
            prompt_resolver: self.prompt_resolver.clone(),
            required: Vec::new(),
        };
        let published = Arc::new(PublishedAi { asks: asks.clone() });
        let activities = PublishedAi::TYPES
            .into_iter()
            .fold(activities, |all, type_id| all.with(type_id, published.clone()))
            .with("core.ai.structuredOutput", Arc::new(asks.clone()));
        if test_seams { conformance::add_nodes(activities, &asks) } else { activities }
    }
}

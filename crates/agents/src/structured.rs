//! `core.ai.structuredOutput`: a model is asked until its answer fits a schema.

mod ask;
mod mock;
mod settings;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use callboard_core::{AgentFact, Outcome, RetryClass};
use callboard_engine::{Activity, Call, OnceError, Past, PastTask, Stumble, Superseded};
use callboard_protocol::{EnvelopeKind, Failure, ModelClass, Object};

use crate::coding::CODING_PROVIDER;
use crate::live::tale::Tale;
use crate::model::{
    Demands, Gate, Model, ModelTable, PriceTable, ResolvedModel, StopReason, Substitution, gate,
};
use crate::prompt::PromptDesk;
use crate::setup::Setup;
use crate::tool::ToolSurface;
use ask::Ask;
use settings::Settings;

pub use mock::{MockAi, MockEntry, MockText};

/// Asks models for JSON.
#[derive(Debug, Clone)]
pub struct StructuredOutput {
    pub models: Arc<dyn Model>,
    pub table: ModelTable,
    pub prices: PriceTable,
    pub desk: PromptDesk,
    /// What every node of the type demands, beside its own configuration.
    pub required: Vec<String>,
}

/// Why no answer came.
pub(super) enum Stop {
    /// Nobody listens any more.
    Superseded,
    Ended(Outcome),
}

impl From<Superseded> for Stop {
    fn from(_: Superseded) -> Self {
        Self::Superseded
    }
}

impl From<OnceError> for Stop {
    fn from(error: OnceError) -> Self {
        match error {
            OnceError::Superseded => Self::Superseded,
            OnceError::Ended(outcome) => Self::Ended(outcome),
        }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Ended(Outcome::Failed { failure, class: RetryClass::Final })
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superseded => f.write_str("Superseded"),
            Self::Ended(_) => f.write_str("Ended"),
        }
    }
}

#[async_trait]
impl Activity for StructuredOutput {
    async fn perform(&self, call: Call) -> Outcome {
        match self.answer(&call).await {
            Ok(outputs) => Outcome::Done { outputs },
            Err(Stop::Superseded) => Outcome::Done { outputs: Object::new() },
            Err(Stop::Ended(outcome)) => outcome,
        }
    }

    async fn rehearse(&self, past: Past<'_>) -> Vec<EnvelopeKind> {
        let named = Settings::read(past.config).ok().map(|settings| self.table(&settings));
        let class = ModelClass::General;
        let resolved = named.and_then(|table| table.resolve(class, past.configurable).ok());
        let Some(ResolvedModel { model, .. }) = resolved else { return Vec::new() };
        let place = MockAi::place(past.tenant, past.node);
        let kind = |stop: StopReason| match stop.is_refusal() {
            true => EnvelopeKind::Refusal,
            false => EnvelopeKind::Valid,
        };
        self.models.rehearse(&model, &place, past.turns).into_iter().map(kind).collect()
    }

    async fn prompts(&self, past: PastTask<'_>) -> Option<Vec<AgentFact>> {
        self.desk.rehearse(past, None).await
    }
}

impl StructuredOutput {
    async fn answer(&self, call: &Call) -> Result<Object, Stop> {
        let settings = Settings::read(&call.config)?;
        let mut tale = Tale::new(call);
        let ResolvedModel { model, credential_ref, .. } =
            self.model(call, &settings, &mut tale).await?;
        let setup = Setup::recorded(call).await?;
        let pinned = setup.as_ref().map(|setup| &setup.templates);
        let prepared = match self.desk.prepare(call, pinned).await {
            Ok(mut prepared) => {
                if setup.is_none() {
                    let templates = std::mem::take(&mut prepared.templates);
                    Setup::record(call, &ToolSurface::default(), templates).await?;
                }
                prepared
            }
            Err(Stumble { failure, class }) => {
                tale.tell().await?;
                return Err(Stop::Ended(Outcome::Failed { failure, class }));
            }
        };
        for fact in &prepared.facts {
            tale.note(fact.clone());
        }
        tale.tell().await?;
        let request = settings.request(call, &model, &prepared)?;
        let mut ask = Ask::new(self, call, &settings, request, &prepared.references(), tale);
        ask.credential = credential_ref.map(|name| name.as_str().into());
        let value = ask.until_it_fits().await?;
        let mut outputs = Object::new();
        outputs.insert("data".into(), value);
        outputs.insert("provider".into(), model.provider.into());
        outputs.insert("model".into(), model.model.into());
        Ok(outputs)
    }

    /// What a node names goes before what the host was told.
    fn table(&self, settings: &Settings) -> ModelTable {
        match &settings.model {
            Some(model) => ModelTable {
                default: Some(model.clone()),
                providers: self.table.providers.clone(),
                offered: self.table.offered.clone(),
                coding: self.table.coding.clone(),
                ..ModelTable::default()
            },
            None => self.table.clone(),
        }
    }

    /// The model to ask: what the run wishes, else what the node names, else the host's; or the node's own fallback.
    async fn model(
        &self,
        call: &Call,
        settings: &Settings,
        tale: &mut Tale<'_>,
    ) -> Result<ResolvedModel, Stop> {
        let resolved = self.table(settings).resolve(ModelClass::General, &call.configurable);
        let resolved =
            resolved.map_err(|error| Failure::new("no_model_available", error.to_string()))?;
        let active = resolved.model.clone();
        let mut required = self.required.clone();
        required.extend(settings.required.iter().cloned());
        let is_coder = active.provider == CODING_PROVIDER;
        if is_coder {
            // It works on tasks in a folder, and nobody could hold its answer to a schema.
            required.insert(0, "structured-output".to_owned());
        }
        let demands = Demands { required, fallback: settings.fallback.clone() };
        let can_ask = |provider: &str| {
            provider == crate::model::Scripted::PROVIDER || self.table.providers.contains(provider)
        };
        let host = Substitution { is_allowed: true, can_ask: &can_ask };
        let decided = gate(&active, &demands, host);
        if let Some(fact) = decided.fact(&active, &call.attempt.node) {
            tale.note(fact);
        }
        match decided {
            Gate::Dispatch => Ok(resolved),
            // The run's own key is for the model that it named.
            Gate::Substitute { fallback, .. } => {
                Ok(ResolvedModel { model: fallback, credential_ref: None, ..resolved })
            }
            Gate::Refuse { missing, .. } => {
                tale.tell().await?;
                let message = match is_coder {
                    true => format!(
                        "{active} is a coding agent, which cannot answer core.ai.structuredOutput; name a model in \
                         config.provider and config.model, or leave the task to a node with an agent"
                    ),
                    false => format!("{active} lacks {}", missing.join(", ")),
                };
                let details = serde_json::json!({ "capability": missing.first() });
                let failure = Failure::new("capability_not_provided", message);
                Err(failure.with_details(details.as_object().cloned().unwrap_or_default()).into())
            }
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

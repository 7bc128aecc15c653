//! Language models over HTTP, behind the port of `agents`.

mod address;
mod fault;
mod frames;
mod probe;
mod request;
mod turn;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint};
use genai::{Headers, ModelIden, ServiceTarget};
use reqwest::redirect::Policy;
use secrecy::{ExposeSecret as _, SecretString};

use callboard_agents::{DeltaSink, Fault, Model, ModelError, ModelRequest, Phase, Turn};

use frames::Frames;

pub use address::{BaseUrl, BaseUrlError};

/// Which of the providers' languages is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProviderKind {
    Anthropic,
    /// Chat completions.
    OpenAi,
    OpenAiResponses,
    /// Chat completions of another vendor.
    OpenAiCompatible,
    Gemini,
    Ollama,
}

impl ProviderKind {
    pub const ALL: [Self; 6] = [
        Self::Anthropic,
        Self::OpenAi,
        Self::OpenAiResponses,
        Self::OpenAiCompatible,
        Self::Gemini,
        Self::Ollama,
    ];

    /// As configuration writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiCompatible => "openai-compatible",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    fn adapter(self) -> AdapterKind {
        match self {
            Self::Anthropic => AdapterKind::Anthropic,
            Self::OpenAi | Self::OpenAiCompatible => AdapterKind::OpenAI,
            Self::OpenAiResponses => AdapterKind::OpenAIResp,
            Self::Gemini => AdapterKind::Gemini,
            Self::Ollama => AdapterKind::Ollama,
        }
    }
}

/// A provider as an operator set it up. Where it is does not have to be public: the operator is trusted.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// What configuration and events call it.
    pub name: String,
    pub kind: ProviderKind,
    pub base_url: BaseUrl,
    pub key: Option<SecretString>,
    pub timeouts: Timeouts,
}

/// How long a provider may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    pub first_byte: Duration,
    /// Between two frames of an answer.
    pub idle: Duration,
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            // Models that think before they write are silent for minutes.
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(1200),
        }
    }
}

/// One provider's models. Cheap to clone.
#[derive(Clone)]
pub struct LiveModel {
    settings: ProviderSettings,
    /// Created at the first call: a host that makes none needs no certificates.
    client: Arc<OnceLock<Option<reqwest::Client>>>,
}

impl LiveModel {
    pub fn new(settings: ProviderSettings) -> Self {
        Self { settings, client: Arc::default() }
    }

    /// The same provider, asked with a run's own key.
    #[must_use]
    pub(crate) fn with_key(mut self, key: SecretString) -> Self {
        self.settings.key = Some(key);
        self
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    fn client(&self) -> Result<reqwest::Client, ModelError> {
        let build = || {
            let builder = reqwest::Client::builder()
                // A redirect would send the key and the prompt to another server.
                .redirect(Policy::none())
                // A compressed stream may wait for more before it shows a word.
                .no_gzip()
                .connect_timeout(self.settings.timeouts.connect);
            // Plain HTTP is for servers close by; a proxy would read the key.
            let builder =
                if self.settings.base_url.is_encrypted() { builder } else { builder.no_proxy() };
            builder.build().ok()
        };
        let client = self.client.get_or_init(build).clone();
        client.ok_or_else(|| self.failed(Fault::Unreachable))
    }

    fn failed(&self, fault: Fault) -> ModelError {
        ModelError::new(&self.settings.name, fault)
    }

    /// Everything that grants access, and nothing of it in an address.
    fn headers(&self) -> Result<Vec<(String, String)>, ModelError> {
        let settings = &self.settings;
        let mut headers = Vec::new();
        match &settings.key {
            Some(key) => {
                let key = key.expose_secret();
                headers.push(match settings.kind {
                    ProviderKind::Anthropic => ("x-api-key".to_owned(), key.to_owned()),
                    ProviderKind::Gemini => ("x-goog-api-key".to_owned(), key.to_owned()),
                    ProviderKind::OpenAi
                    | ProviderKind::OpenAiResponses
                    | ProviderKind::OpenAiCompatible
                    | ProviderKind::Ollama => ("authorization".to_owned(), format!("Bearer {key}")),
                });
            }
            // A gateway of one's own may bring the key itself.
            None if settings.base_url.is_public_service(settings.kind) => {
                return Err(self.failed(Fault::NoKey));
            }
            None => {}
        }
        if settings.kind == ProviderKind::Anthropic {
            headers.push(("anthropic-version".to_owned(), "2023-06-01".to_owned()));
        }
        Ok(headers)
    }

    /// Address and headers are ours, to the letter; the library writes the body.
    fn target(&self, request: &ModelRequest) -> Result<ServiceTarget, ModelError> {
        let base = &self.settings.base_url;
        let mut headers = self.headers()?;
        headers.push(("idempotency-key".to_owned(), request.idempotency_key.clone()));
        Ok(ServiceTarget {
            endpoint: Endpoint::from_owned(base.as_str()),
            auth: AuthData::RequestOverride {
                url: base.turn(self.settings.kind, &request.model.model),
                headers: Headers::from(headers),
            },
            model: ModelIden::new(self.settings.kind.adapter(), request.model.model.as_str()),
        })
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError> {
        let provider = self.settings.name.as_str();
        let frames = Arc::new(Frames::new(self.settings.kind));
        let (chat, options) = request::write(self.settings.kind, request, &frames);
        let target = self.target(request)?;
        let client = genai::Client::builder().with_reqwest(self.client()?).build();
        let client = client.map_err(|error| fault::explain(provider, &error))?;
        let answer = client.exec_chat_stream(target, chat, Some(&options)).await;
        let answer = answer.map_err(|error| fault::explain(provider, &error))?;
        let reader = turn::Reader { provider, request, frames: &frames };
        reader.read(answer.stream, self.settings.timeouts, deltas).await
    }
}

#[async_trait]
impl Model for LiveModel {
    async fn turn(
        &self,
        request: &ModelRequest,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError> {
        if let Some(key) = &request.key {
            let own = self.clone().with_key(SecretString::from(key.reveal().to_owned()));
            return own.turn(&ModelRequest { key: None, ..request.clone() }, deltas).await;
        }
        let total = self.settings.timeouts.total;
        // The states of a whole exchange are large, and most of a run's time is spent elsewhere.
        match tokio::time::timeout(total, Box::pin(self.ask(request, deltas))).await {
            Ok(turn) => turn,
            Err(_) => Err(self.failed(Fault::TimedOut(Phase::End))),
        }
    }
}

impl fmt::Debug for LiveModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveModel").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

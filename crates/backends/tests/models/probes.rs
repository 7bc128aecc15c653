//! Looking at a provider without saying anything to it.

use callboard_agents::{Fault, ModelError};
use callboard_backends::{BaseUrl, LiveModel, ProviderKind, ProviderSettings, Timeouts};
use serde_json::Value;

use crate::given::{KEY, Provider, Reply, Seen};

async fn probed(kind: ProviderKind, reply: &Reply) -> (Result<(), ModelError>, Seen) {
    let provider = Provider::start().await;
    let model = provider.model(kind);
    let found = tokio::select! {
        found = model.probe() => found,
        _ = provider.answer(reply) => unreachable!(),
    };
    (found, provider.seen())
}

#[tokio::test]
async fn the_list_of_models_shows_that_the_key_is_good() {
    for (kind, line) in [
        (ProviderKind::Anthropic, "GET /v1/models"),
        (ProviderKind::OpenAi, "GET /v1/models"),
        (ProviderKind::OpenAiResponses, "GET /v1/models"),
        (ProviderKind::OpenAiCompatible, "GET /v1/models"),
        (ProviderKind::Gemini, "GET /v1beta/models"),
        (ProviderKind::Ollama, "GET /api/tags"),
    ] {
        let (found, seen) = probed(kind, &Reply::stream(["{}".to_owned()])).await;
        assert_eq!((found, seen.line.as_str()), (Ok(()), line));
        assert!(seen.head.contains(KEY), "{kind:?}");
        assert_eq!(seen.body, Value::Null, "nothing is said");
    }
}

#[tokio::test]
async fn a_key_that_is_not_accepted_is_told_apart_from_a_provider_in_trouble() {
    for (status, fault) in [(401, Fault::Forbidden), (404, Fault::NotFound), (503, Fault::Trouble)]
    {
        let (found, _) = probed(ProviderKind::OpenAi, &Reply::status(status)).await;
        assert_eq!(found.unwrap_err().fault, fault);
    }
}

#[tokio::test]
async fn a_provider_is_asked_for_a_model_where_it_can_be() {
    // A server that only lists its models says nothing against one by having no list.
    for (kind, line, gone) in [
        (ProviderKind::Anthropic, "GET /v1/models/m-1", Some(false)),
        (ProviderKind::OpenAi, "GET /v1/models/m-1", Some(false)),
        (ProviderKind::Gemini, "GET /v1beta/models/m-1", Some(false)),
        (ProviderKind::OpenAiCompatible, "GET /v1/models", None),
        (ProviderKind::Ollama, "GET /api/tags", None),
    ] {
        for (status, expected) in [(200, Some(true)), (404, gone), (401, None)] {
            let provider = Provider::start().await;
            let model = provider.model(kind);
            let reply = Reply::status(status);
            let found = tokio::select! {
                found = model.has("m-1") => found,
                _ = provider.answer(&reply) => unreachable!(),
            };
            assert_eq!((found.ok(), provider.seen().line.as_str()), (expected, line), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_public_service_is_not_asked_without_a_key() {
    let kind = ProviderKind::Anthropic;
    let base_url = BaseUrl::public_service(kind).unwrap();
    let name = "anthropic".to_owned();
    let timeouts = Timeouts::default();
    let model = LiveModel::new(ProviderSettings { name, kind, base_url, key: None, timeouts });
    assert_eq!(model.probe().await.unwrap_err().fault, Fault::NoKey);
}

//! Streams that go wrong: they stop, fall silent, go on for ever or make no sense.

use std::time::Duration;

use async_trait::async_trait;
use callboard_agents::{Delta, DeltaSink, Fault, Model as _, ModelError, Phase, RetryAdvice, Turn};
use callboard_backends::{ProviderKind, Timeouts};
use serde_json::json;

use crate::given::{End, Provider, Reply, ask, data, event, request};

/// The first words of an answer, in each language.
fn opening(kind: ProviderKind) -> Vec<String> {
    match kind {
        ProviderKind::Anthropic => vec![
            event(&json!({ "type": "message_start", "message": { "id": "m" } })),
            event(&json!({ "type": "content_block_start", "index": 0,
                "content_block": { "type": "text", "text": "" } })),
            event(&json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "text_delta", "text": "Hel" } })),
        ],
        ProviderKind::OpenAi | ProviderKind::OpenAiCompatible => {
            vec![data(&json!({ "choices": [{ "delta": { "content": "Hel" } }] }))]
        }
        ProviderKind::OpenAiResponses => {
            vec![event(&json!({ "type": "response.output_text.delta", "delta": "Hel" }))]
        }
        ProviderKind::Gemini => {
            vec![data(&json!({ "candidates": [{ "content": { "parts": [{ "text": "Hel" }] } }] }))]
        }
        ProviderKind::Ollama => {
            vec![format!("{}\n", json!({ "message": { "content": "Hel" }, "done": false }))]
        }
    }
}

fn fault(turn: Result<Turn, ModelError>) -> Fault {
    let error = turn.unwrap_err();
    assert!(!format!("{error:?}").contains("Hel"), "{error:?}");
    error.fault
}

#[tokio::test]
async fn a_stream_that_stops_is_never_an_answer() {
    for kind in ProviderKind::ALL {
        for end in [End::Whole, End::Cut] {
            let asked = ask(kind, &request(), Reply::stream(opening(kind)).ending(end)).await;
            assert_eq!(asked.deltas, [Delta::Text("Hel".into())], "{kind:?}");
            let error = asked.turn.unwrap_err();
            assert_eq!(error.fault, Fault::Broken, "{kind:?}");
            assert_eq!(error.advice(), RetryAdvice::Retry { after: None });
        }
    }
}

/// Lets time run by itself from the first word on.
struct Hurry;

#[async_trait]
impl DeltaSink for Hurry {
    async fn tell(&mut self, _: Delta) {
        tokio::time::pause();
    }
}

async fn hurried(
    kind: ProviderKind,
    timeouts: Timeouts,
    reply: &Reply,
) -> Result<Turn, ModelError> {
    let provider = Provider::start().await;
    let model = provider.model_with(kind, timeouts);
    let (request, mut hurry) = (request(), Hurry);
    tokio::select! {
        turn = model.turn(&request, &mut hurry) => turn,
        _ = provider.answer(reply) => unreachable!(),
    }
}

#[tokio::test]
async fn silence_in_the_middle_ends_the_turn() {
    let reply = Reply::stream(opening(ProviderKind::OpenAi)).ending(End::Silence);
    let turn = hurried(ProviderKind::OpenAi, Timeouts::default(), &reply).await;
    assert_eq!(fault(turn), Fault::TimedOut(Phase::NextByte));
}

#[tokio::test]
async fn a_frame_that_never_ends_is_silence() {
    let mut pieces = opening(ProviderKind::OpenAi);
    pieces.push("data: {\"choices\":[{\"delta\":{\"content\":\"".to_owned());
    let reply = Reply::stream(pieces).ending(End::Silence);
    let turn = hurried(ProviderKind::OpenAi, Timeouts::default(), &reply).await;
    assert_eq!(fault(turn), Fault::TimedOut(Phase::NextByte));
}

#[tokio::test]
async fn silence_from_the_start_ends_the_turn() {
    let reply = Reply::stream([]).ending(End::Nothing);
    let turn = hurried(ProviderKind::Gemini, Timeouts::default(), &reply).await;
    assert_eq!(fault(turn), Fault::TimedOut(Phase::FirstByte));
}

#[tokio::test]
async fn a_turn_does_not_last_longer_than_it_may() {
    let timeouts = Timeouts { total: Duration::from_secs(60), ..Timeouts::default() };
    let reply = Reply::stream(opening(ProviderKind::Anthropic)).ending(End::Silence);
    let turn = hurried(ProviderKind::Anthropic, timeouts, &reply).await;
    assert_eq!(fault(turn), Fault::TimedOut(Phase::End));
}

#[tokio::test]
async fn garbage_is_an_error_and_not_an_answer() {
    for kind in ProviderKind::ALL {
        let garbage = match kind {
            ProviderKind::Ollama => "\u{1}{{{\n".to_owned(),
            _ => "event: content_block_delta\ndata: \u{1}{{{\n\n".to_owned(),
        };
        let asked = ask(kind, &request(), Reply::stream([garbage])).await;
        let error = asked.turn.unwrap_err();
        assert!(matches!(error.fault, Fault::Malformed | Fault::Broken), "{kind:?} {error:?}");
        assert!(matches!(error.advice(), RetryAdvice::Retry { .. }), "{kind:?}");
    }
    let page = Reply::stream(["<html>captive portal</html>".to_owned()]);
    assert_eq!(fault(ask(ProviderKind::OpenAi, &request(), page).await.turn), Fault::Broken);
}

#[tokio::test]
async fn an_answer_without_measure_is_given_up() {
    let huge = data(&json!({ "choices": [{ "delta": { "content": "x".repeat(9 << 20) } }] }));
    let asked = ask(ProviderKind::OpenAi, &request(), Reply::stream([huge])).await;
    assert_eq!(asked.deltas, []);
    let error = asked.turn.unwrap_err();
    assert_eq!((error.fault, error.advice()), (Fault::TooLarge, RetryAdvice::GiveUp));
}

#[tokio::test]
async fn signs_of_life_without_words_keep_a_turn_alive() {
    let mut pieces =
        vec![": waiting\n\n".to_owned(), "event: ping\ndata: {\"type\":\"ping\"}\n\n".to_owned()];
    pieces.extend(opening(ProviderKind::Anthropic));
    pieces.push(event(&json!({ "type": "content_block_stop", "index": 0 })));
    pieces.push(event(&json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } })));
    pieces.push(event(&json!({ "type": "message_stop" })));
    let turn = ask(ProviderKind::Anthropic, &request(), Reply::stream(pieces)).await.turn.unwrap();
    assert_eq!((turn.text.as_str(), turn.usage), ("Hel", None));
}

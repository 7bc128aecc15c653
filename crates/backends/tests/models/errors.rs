//! Answers that are no success, from every kind of provider.

use std::time::Duration;

use callboard_agents::{Fault, ModelError, RetryAdvice};
use callboard_backends::ProviderKind;
use serde_json::json;

use crate::given::{KEY, PROMPT, Provider, Reply, ask, event, request};

fn is_silent(error: &ModelError) {
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(KEY) && !shown.contains(PROMPT), "{shown}");
    assert!(!shown.contains("127.0.0.1"), "where a private provider is stays private: {shown}");
}

#[tokio::test]
async fn a_status_decides_whether_to_ask_again_whoever_answers() {
    for kind in ProviderKind::ALL {
        for (status, fault) in [
            (400, Fault::Rejected),
            (401, Fault::Forbidden),
            (403, Fault::Forbidden),
            (404, Fault::NotFound),
            (429, Fault::Limited),
            (500, Fault::Trouble),
            (503, Fault::Trouble),
            (529, Fault::Trouble),
        ] {
            let asked = ask(kind, &request(), Reply::status(status)).await;
            let error = asked.turn.unwrap_err();
            assert_eq!((error.fault, error.status), (fault, Some(status)), "{kind:?}");
            assert_eq!(error.advice() == RetryAdvice::GiveUp, status < 429, "{kind:?} {status}");
            is_silent(&error);
            let reason = error.reason.as_ref().and_then(|reason| reason.shown(&request()));
            assert_eq!(reason, None, "it repeats the prompt and the key");
            assert!(!asked.seen.line.contains(KEY), "a key is never in an address");
            assert!(!asked.seen.head.contains("accept-encoding"), "words are not held back");
        }
    }
}

#[tokio::test]
async fn a_provider_says_how_long_it_wants_to_be_left_alone() {
    for kind in ProviderKind::ALL {
        let mut busy = Reply::status(429);
        busy.headers = vec![("retry-after", "7")];
        let error = ask(kind, &request(), busy).await.turn.unwrap_err();
        let after = Some(Duration::from_secs(7));
        assert_eq!(error.advice(), RetryAdvice::Retry { after }, "{kind:?}");
        let error = ask(kind, &request(), Reply::status(429)).await.turn.unwrap_err();
        assert_eq!(error.advice(), RetryAdvice::Retry { after: None }, "{kind:?}");
    }
}

#[tokio::test]
async fn a_redirect_takes_neither_key_nor_prompt_elsewhere() {
    let mut elsewhere = Reply::status(307);
    elsewhere.headers = vec![("location", "http://127.0.0.1:9/")];
    let error = ask(ProviderKind::OpenAi, &request(), elsewhere).await.turn.unwrap_err();
    assert_eq!((error.fault, error.status), (Fault::Rejected, Some(307)));
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_taken_at_its_word() {
    for (kind, fault) in
        [("overloaded_error", Fault::Trouble), ("invalid_request_error", Fault::Rejected)]
    {
        let error = json!({ "type": "error", "error": { "type": kind, "message": PROMPT } });
        let asked = ask(ProviderKind::Anthropic, &request(), Reply::stream([event(&error)])).await;
        let error = asked.turn.unwrap_err();
        assert_eq!(error.fault, fault, "{kind}");
        is_silent(&error);
    }
}

#[tokio::test]
async fn nobody_listening_is_no_connection() {
    use callboard_agents::Model as _;
    let model = Provider::start().await.model(ProviderKind::Anthropic);
    let error = model.turn(&request(), &mut ()).await.unwrap_err();
    assert_eq!(error.fault, Fault::Unreachable);
    is_silent(&error);
    assert!(!format!("{model:?}").contains("127.0.0.1"));
}

#[tokio::test]
async fn a_provider_says_why_in_its_own_words() {
    for kind in ProviderKind::ALL {
        let why = "max_tokens: 9 > 8, which is the most";
        let body = json!({ "error": { "type": "invalid_request_error", "message": why } });
        let reply = Reply { status: 400, ..Reply::stream([body.to_string()]) };
        let error = ask(kind, &request(), reply).await.turn.unwrap_err();
        let shown = error.reason.as_ref().and_then(|reason| reason.shown(&request()));
        assert_eq!((error.fault, shown.as_deref()), (Fault::Rejected, Some(why)), "{kind:?}");
    }
}

//! What well-known senders post, read into what a run is given: the name of the event, the headers that matter, the body.
//! Some posts are no events: a sender tries the address, and gets its answer.

use axum::http::{HeaderMap, header};
use callboard_core::is_too_deep;
use callboard_engine::Preset;
use callboard_protocol::{Object, WebhookContent};
use serde_json::{Value, json};

/// The text that a sender wants back, at most.
const LONGEST_CHALLENGE: usize = 512;
const FORM: &str = "application/x-www-form-urlencoded";

/// What a post to a webhook is.
pub(super) enum Posted {
    /// A trial of the address, with what its sender waits for.
    Trial(Value),
    Event(PostedEvent),
}

pub(super) struct PostedEvent {
    /// The sender's own name for it.
    pub(super) id: Option<String>,
    /// What has happened, in the sender's words.
    pub(super) event: Option<String>,
    pub(super) content: WebhookContent,
}

/// Reads a post as its preset has it.
pub(super) fn read(preset: Preset, headers: &HeaderMap, bytes: &[u8]) -> Posted {
    let named = |name: &str| {
        let value = headers.get(name)?.to_str().ok()?;
        Some(value.to_owned()).filter(|value| !value.is_empty())
    };
    let takes_forms = matches!(preset, Preset::Github | Preset::Slack | Preset::Token);
    let body = body_of(named(header::CONTENT_TYPE.as_str()), takes_forms, bytes);
    let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let (id, event) = match preset {
        Preset::StandardWebhooks => (None, None),
        Preset::Github => (named("x-github-delivery"), named("x-github-event")),
        Preset::Slack => slack(&text),
        Preset::Stripe => (text("/id"), text("/type")),
        Preset::Token => {
            let id = named("webhook-id").or_else(|| named("idempotency-key"));
            let kinds = ["x-gitlab-event", "x-event-key", "x-event-type"];
            (id, kinds.into_iter().find_map(named))
        }
    };
    let trial = match (preset, event.as_deref()) {
        (Preset::Github, Some("ping")) => Some(json!({ "outcome": "pong" })),
        (Preset::Slack, Some("url_verification")) => {
            let challenge = text("/challenge").filter(|text| text.len() <= LONGEST_CHALLENGE);
            challenge.map(|challenge| json!({ "challenge": challenge }))
        }
        _ => None,
    };
    if let Some(answer) = trial {
        return Posted::Trial(answer);
    }
    let shown = preset.headers().iter().filter_map(|name| Some(((*name).to_owned(), named(name)?)));
    let headers = shown.map(|(name, value)| (name, Value::String(value))).collect();
    let content = WebhookContent { method: "POST".to_owned(), headers, body };
    Posted::Event(PostedEvent { id, event, content })
}

/// Events have names of their own; clicks and commands are known by what triggers them.
fn slack(text: &impl Fn(&str) -> Option<String>) -> (Option<String>, Option<String>) {
    let kind = text("/type");
    if kind.as_deref() == Some("event_callback") {
        return (text("/event_id"), text("/event/type").or(kind));
    }
    let command = text("/command").map(|_| "slash_command".to_owned());
    (text("/event_id").or_else(|| text("/trigger_id")), kind.or(command))
}

/// JSON, also where it is the one field `payload` of a form; the fields of another form; or else the text.
fn body_of(kind: Option<String>, takes_forms: bool, bytes: &[u8]) -> Value {
    if takes_forms && kind.is_some_and(|kind| kind.starts_with(FORM)) {
        let pairs: Object = form_urlencoded::parse(bytes.trim_ascii())
            .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
            .collect();
        let payload = pairs.get("payload").and_then(Value::as_str);
        let payload = payload.and_then(|text| serde_json::from_str(text).ok());
        return payload.filter(|body| !is_too_deep(body)).unwrap_or(Value::Object(pairs));
    }
    let read = serde_json::from_slice(bytes).ok().filter(|body| !is_too_deep(body));
    read.unwrap_or_else(|| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(preset: Preset, pairs: &[(&'static str, &str)], body: &str) -> PostedEvent {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        match read(preset, &headers, body.as_bytes()) {
            Posted::Event(event) => event,
            Posted::Trial(answer) => panic!("{answer}"),
        }
    }

    fn named(event: &PostedEvent) -> (Option<&str>, Option<&str>) {
        (event.id.as_deref(), event.event.as_deref())
    }

    #[test]
    fn each_sender_names_its_events_in_its_own_place() {
        let github = [("x-github-delivery", "72d3"), ("x-github-event", "issues")];
        let read = event(Preset::Github, &github, r#"{"action":"opened"}"#);
        assert_eq!(named(&read), (Some("72d3"), Some("issues")));
        assert_eq!(read.content.body, json!({ "action": "opened" }));
        let form = [github[0], github[1], ("content-type", FORM)];
        let read = event(Preset::Github, &form, "payload=%7B%22action%22%3A%22closed%22%7D");
        assert_eq!(read.content.body, json!({ "action": "closed" }));
        let said = r#"{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention"}}"#;
        assert_eq!(named(&event(Preset::Slack, &[], said)), (Some("Ev1"), Some("app_mention")));
        let pressed = form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", r#"{"type":"block_actions","trigger_id":"1.2.3"}"#)
            .finish();
        let read = event(Preset::Slack, &[("content-type", FORM)], &pressed);
        assert_eq!(named(&read), (Some("1.2.3"), Some("block_actions")));
        let typed = "command=%2Fask&trigger_id=9.9&text=where+is+it";
        let read = event(Preset::Slack, &[("content-type", FORM)], typed);
        assert_eq!(named(&read), (Some("9.9"), Some("slash_command")));
        assert_eq!(read.content.body["text"], "where is it");
        let paid = r#"{"id":"evt_1","type":"invoice.paid"}"#;
        assert_eq!(named(&event(Preset::Stripe, &[], paid)), (Some("evt_1"), Some("invoice.paid")));
    }

    #[test]
    fn a_run_sees_the_headers_of_the_preset_and_no_other() {
        let sent = [
            ("x-github-event", "push"),
            ("x-hub-signature-256", "sha256=00"),
            ("authorization", "Bearer canary"),
            ("cookie", "canary"),
        ];
        let read = event(Preset::Github, &sent, "{}");
        assert_eq!(Value::Object(read.content.headers), json!({ "x-github-event": "push" }));
    }

    #[test]
    fn what_is_no_json_is_a_text_and_a_pit_of_brackets_too() {
        assert_eq!(event(Preset::Stripe, &[], "{oops").content.body, json!("{oops"));
        let deep = "[".repeat(5_000) + &"]".repeat(5_000);
        assert!(event(Preset::Stripe, &[], &deep).content.body.is_string());
    }

    #[test]
    fn trials_of_the_address_are_no_events() {
        let mut headers = HeaderMap::new();
        headers.insert("x-github-event", "ping".parse().unwrap());
        let pong = read(Preset::Github, &headers, b"{}");
        assert!(matches!(pong, Posted::Trial(answer) if answer["outcome"] == "pong"));
        let asked = |challenge: &str| {
            let body = json!({ "type": "url_verification", "challenge": challenge }).to_string();
            match read(Preset::Slack, &HeaderMap::new(), body.as_bytes()) {
                Posted::Trial(answer) => Some(answer),
                Posted::Event(_) => None,
            }
        };
        assert_eq!(asked("3eZb"), Some(json!({ "challenge": "3eZb" })));
        assert_eq!(asked(&"x".repeat(LONGEST_CHALLENGE + 1)), None);
        let elsewhere = event(Preset::Stripe, &[], r#"{"type":"url_verification"}"#);
        assert_eq!(elsewhere.event.as_deref(), Some("url_verification"));
    }
}

//! Messages to people: sent as their receivers want them, with a key that no log holds, and told as their packs say.

use callboard_backends::{Integrations, Reach};
use serde_json::{Value, json};

use crate::{Server, World, answer, node, outcome, packs, ports, schema};

const EMAIL: &str = "core.openwop.integration.email-send";
const SLACK: &str = "core.openwop.integration.slack-message";
const CHAT: &str = "core.openwop.integration.chat-message-generic";
const JSON: &str = "content-type: application/json\r\n";
const SECRET: &str = "a-key-of-the-desk";

/// Sends one message to a server that answers so; says what came of it, and what the server was sent.
async fn send(type_id: &str, config: Value, inputs: &Value, reply: String) -> (Value, String) {
    let server = Server::start(vec![reply]).await;
    let integrations = Integrations {
        email: Some("resend".to_owned()),
        resend_url: server.url.clone(),
        sendgrid_url: server.url.clone(),
        slack_url: server.url.clone(),
        github_url: server.url.clone(),
        chat: [("team".to_owned(), format!("{}/in", server.url))].into(),
    };
    let world = World { integrations, ..World::new(Reach::Anywhere) };
    world.keep("desk", SECRET, Some(server.host.clone())).await;
    let mut message = node("n", type_id, config.clone(), ports(inputs));
    message["credentialsRef"] = "desk".into();
    let log = world.run(vec![message]).await;
    assert!(!log.iter().any(|event| event.payload.contains(SECRET)), "the key is in the log");
    let outputs = outcome(&log);
    if let Some(packs) = packs().filter(|_| outputs.get("failed").is_none()) {
        for (part, value) in [("config", &config), ("input", inputs), ("output", &outputs)] {
            let schema = schema(&packs, type_id, &format!("{part}SchemaRef"));
            assert_eq!(schema.violations(value), Vec::<String>::new(), "{type_id} {part}: {value}");
        }
    }
    (outputs, server.seen().pop().unwrap_or_default())
}

fn email() -> Value {
    json!({ "to": ["ann@example.org"], "cc": ["bob@example.org"], "subject": "Hi", "text": "Hello" })
}

#[tokio::test]
async fn an_email_goes_out_once_through_resend() {
    let config = json!({ "from": "desk@example.org", "replyTo": "ann@example.org" });
    let reply = answer(200, JSON, r#"{"id":"m1"}"#);
    let (outputs, request) = send(EMAIL, config.clone(), &email(), reply).await;
    let key = outputs["idempotencyKey"].as_str().unwrap();
    assert_eq!((&outputs["sent"], &outputs["messageId"]), (&json!(true), &json!("m1")));
    assert_eq!(outputs["provider"], "resend");
    assert!(request.starts_with("POST /emails ") && request.contains(SECRET), "{request}");
    assert!(request.contains(&format!("idempotency-key: {key}")), "{request}");
    let body: Value = serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["reply_to"], "ann@example.org");
    assert_eq!(body["cc"], json!(["bob@example.org"]));

    let reply = answer(422, JSON, r#"{"message":"the sender is not verified"}"#);
    let (refused, _) = send(EMAIL, config, &email(), reply).await;
    assert_eq!(
        (&refused["sent"], &refused["messageId"], &refused["error"]),
        (&json!(false), &json!(""), &json!("the sender is not verified"))
    );
}

#[tokio::test]
async fn an_email_goes_out_through_sendgrid() {
    let config = json!({ "from": "desk@example.org", "provider": "sendgrid" });
    let reply = answer(202, "x-message-id: s1\r\n", "");
    let (outputs, request) = send(EMAIL, config.clone(), &email(), reply).await;
    assert_eq!(outputs, json!({ "sent": true, "messageId": "s1", "provider": "sendgrid" }));
    assert!(request.starts_with("POST /v3/mail/send "), "{request}");
    assert!(request.contains(r#"{"email":"bob@example.org"}"#), "{request}");
    let (busy, _) = send(EMAIL, config, &email(), answer(503, "", "")).await;
    assert_eq!(busy["failed"]["code"], "email_send_failed", "{busy}");
}

#[tokio::test]
async fn a_message_is_posted_to_slack_or_refused_in_its_words() {
    let config = json!({ "channel": "#general" });
    let inputs = json!({ "text": "done", "threadTs": "1.2", "broadcast": true });
    let reply = answer(200, JSON, r#"{"ok":true,"channel":"C1","ts":"3.4"}"#);
    let (outputs, request) = send(SLACK, config.clone(), &inputs, reply).await;
    assert_eq!(outputs, json!({ "posted": true, "ts": "3.4", "channel": "C1" }));
    assert!(request.starts_with("POST /chat.postMessage "), "{request}");
    assert!(request.contains(r#""thread_ts":"1.2""#) && request.contains("reply_broadcast"));
    let reply = answer(200, JSON, r#"{"ok":false,"error":"not_in_channel"}"#);
    let (refused, _) = send(SLACK, config, &inputs, reply.clone()).await;
    assert_eq!(
        refused,
        json!({ "posted": false, "ts": "", "channel": "#general", "error": "not_in_channel" })
    );
    let elsewhere = json!({ "channel": "C1", "workspace": "T1" });
    let (refused, request) = send(SLACK, elsewhere, &inputs, reply).await;
    assert_eq!((&refused["failed"]["code"], &*request), (&json!("validation_error"), ""));
}

#[tokio::test]
async fn a_message_is_posted_to_a_chat_that_the_operator_named() {
    let inputs = json!({ "channel": "c", "text": "hi", "conversationId": "1" });
    let reply = answer(200, JSON, r#"{"messageId":"p1"}"#);
    let (outputs, request) = send(CHAT, json!({}), &inputs, reply.clone()).await;
    assert_eq!(outputs, json!({ "success": true, "platformMessageId": "p1" }));
    assert!(request.starts_with("POST /in ") && request.contains(r#""text":"hi""#), "{request}");
    let unknown = json!({ "connectorInstanceId": "other" });
    let (refused, request) = send(CHAT, unknown, &inputs, reply).await;
    assert_eq!((&refused["failed"]["code"], &*request), (&json!("connector_not_found"), ""));
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before_anybody_is_asked() {
    let from = json!({ "from": "desk@example.org" });
    let smtp = json!({ "from": "desk@example.org", "provider": "smtp" });
    let empty = json!({ "to": "ann@example.org", "subject": "Hi" });
    for (config, inputs, code) in [
        (smtp, email(), "provider_not_configured"),
        (from.clone(), empty, "validation_error"),
        (from.clone(), json!({ "to": 7, "subject": "Hi", "text": "x" }), "validation_error"),
    ] {
        let (refused, request) = send(EMAIL, config, &inputs, answer(200, "", "")).await;
        assert_eq!((&refused["failed"]["code"], &*request), (&json!(code), ""), "{refused}");
    }
    let world = World::new(Reach::Anywhere);
    let config = json!({ "from": "desk@example.org", "provider": "resend" });
    let refused = world.one(EMAIL, config, &email()).await;
    assert_eq!(refused["failed"]["code"], "credential_required");
}

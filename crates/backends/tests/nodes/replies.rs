//! Answers where a delivery came from: sent in its thread, to places that the node allows, and refused before anybody is
//! asked where the stranger's words do not fit.

use callboard_backends::{Integrations, Reach};
use serde_json::{Value, json};

use crate::{Server, World, answer, node, outcome, ports};

const GITHUB: &str = "callboard.reply.github";
const SLACK: &str = "callboard.reply.slack";
const EMAIL: &str = "callboard.reply.email";
const JSON: &str = "content-type: application/json\r\n";
const SECRET: &str = "a-token-of-the-desk";

/// Answers at a server that says so; tells what came of it, and what the server was sent.
async fn reply(type_id: &str, config: Value, inputs: &Value, said: String) -> (Value, String) {
    let server = Server::start(vec![said]).await;
    let integrations = Integrations {
        resend_url: server.url.clone(),
        sendgrid_url: server.url.clone(),
        slack_url: server.url.clone(),
        github_url: server.url.clone(),
        ..Integrations::default()
    };
    let world = World { integrations, ..World::new(Reach::Anywhere) };
    world.keep("desk", SECRET, Some(server.host.clone())).await;
    let mut reply = node("n", type_id, config, ports(inputs));
    reply["credentialsRef"] = "desk".into();
    let log = world.run(vec![reply]).await;
    assert!(!log.iter().any(|event| event.payload.contains(SECRET)), "the token is in the log");
    (outcome(&log), server.seen().pop().unwrap_or_default())
}

fn sent(request: &str) -> Value {
    serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

#[tokio::test]
async fn an_issue_gets_a_comment() {
    let config = json!({ "repositories": ["Acme/shop"] });
    let inputs = json!({ "repository": "acme/shop", "number": 7, "body": "On its way." });
    let made = r#"{"id":9,"html_url":"https://github.com/acme/shop/issues/7#issuecomment-9"}"#;
    let (outputs, request) = reply(GITHUB, config.clone(), &inputs, answer(201, JSON, made)).await;
    assert_eq!(outputs["posted"], true);
    assert_eq!(outputs["commentId"], 9);
    assert_eq!(outputs["url"], "https://github.com/acme/shop/issues/7#issuecomment-9");
    assert!(request.starts_with("POST /repos/acme/shop/issues/7/comments "), "{request}");
    assert!(request.contains("user-agent: callboard") && request.contains(SECRET), "{request}");
    assert_eq!(sent(&request), json!({ "body": "On its way." }));
    let gone = answer(404, JSON, r#"{"message":"Not Found"}"#);
    let (refused, _) = reply(GITHUB, config.clone(), &inputs, gone).await;
    assert_eq!((&refused["posted"], &refused["error"]), (&json!(false), &json!("Not Found")));
    let (busy, _) = reply(GITHUB, config, &inputs, answer(502, "", "")).await;
    assert_eq!(busy["failed"]["code"], "github_comment_failed");
}

#[tokio::test]
async fn a_message_goes_into_its_thread() {
    let inputs = json!({ "channel": "C1", "threadTs": "1.2", "text": "On its way." });
    let made = answer(200, JSON, r#"{"ok":true,"channel":"C1","ts":"3.4"}"#);
    let (outputs, request) = reply(SLACK, json!({ "channels": ["C1"] }), &inputs, made).await;
    assert_eq!(outputs, json!({ "posted": true, "ts": "3.4", "channel": "C1" }));
    assert!(request.starts_with("POST /chat.postMessage "), "{request}");
    let body = json!({ "channel": "C1", "thread_ts": "1.2", "text": "On its way." });
    assert_eq!(sent(&request), body);
}

#[tokio::test]
async fn a_mail_is_answered_in_its_thread() {
    let config = json!({ "from": "desk@example.org", "provider": "resend" });
    let inputs = json!({ "to": "ann@example.org", "subject": "Where is it?", "text": "Here.",
        "inReplyTo": "m2@x", "references": ["<m1@x>", "m2@x"] });
    let (outputs, request) =
        reply(EMAIL, config, &inputs, answer(200, JSON, r#"{"id":"r1"}"#)).await;
    assert_eq!((&outputs["sent"], &outputs["messageId"]), (&json!(true), &json!("r1")));
    let body = sent(&request);
    assert_eq!(body["subject"], "Re: Where is it?");
    assert_eq!(body["headers"], json!({ "In-Reply-To": "<m2@x>", "References": "<m1@x> <m2@x>" }));
    let config = json!({ "from": "desk@example.org", "provider": "sendgrid" });
    let again = json!({ "to": "ann@example.org", "subject": "RE: it", "text": "Here.", "inReplyTo": "<m2@x>" });
    let (_, request) = reply(EMAIL, config, &again, answer(202, "x-message-id: s1\r\n", "")).await;
    let body = sent(&request);
    assert_eq!(
        (&body["subject"], &body["headers"]["References"]),
        (&json!("RE: it"), &json!("<m2@x>"))
    );
}

/// What a stranger wrote chooses no other place, no other header and no other path.
#[tokio::test]
async fn what_does_not_fit_is_refused_before_anybody_is_asked() {
    let mail = |more: Value| {
        let mut mail = json!({ "to": "ann@example.org", "text": "Here.", "inReplyTo": "m@x" });
        mail.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        mail
    };
    let from = json!({ "from": "desk@example.org", "provider": "resend" });
    let only = json!({ "from": "desk@example.org", "provider": "resend", "recipients": ["bob@example.org"] });
    let comment = |repository: &str| json!({ "repository": repository, "number": 7, "body": "x" });
    let shop = json!({ "repositories": ["acme/shop"] });
    for (type_id, config, inputs, code) in [
        (GITHUB, shop, comment("evil/shop"), "reply_not_allowed"),
        (GITHUB, json!({ "repositories": "acme/shop" }), comment("acme/shop"), "validation_error"),
        (GITHUB, json!({}), comment("acme"), "validation_error"),
        (GITHUB, json!({}), comment("../user"), "validation_error"),
        (GITHUB, json!({}), comment("acme/shop/../../user"), "validation_error"),
        (
            GITHUB,
            json!({}),
            json!({ "repository": "a/b", "number": "7/x", "body": "x" }),
            "validation_error",
        ),
        (
            GITHUB,
            json!({}),
            json!({ "repository": "a/b", "number": 7, "body": "x".repeat(65_537) }),
            "validation_error",
        ),
        (
            SLACK,
            json!({ "channels": ["C1"] }),
            json!({ "channel": "C2", "text": "x" }),
            "reply_not_allowed",
        ),
        (SLACK, json!({}), json!({ "channel": "C2" }), "validation_error"),
        (
            SLACK,
            json!({}),
            json!({ "channel": "C2", "text": "x", "blocks": "x" }),
            "validation_error",
        ),
        (EMAIL, only, mail(json!({})), "reply_not_allowed"),
        (EMAIL, json!({}), mail(json!({})), "validation_error"),
        (
            EMAIL,
            from.clone(),
            mail(json!({ "inReplyTo": "m@x>\r\nBcc: <eve@x" })),
            "validation_error",
        ),
        (EMAIL, from.clone(), mail(json!({ "references": ["a b"] })), "validation_error"),
        (EMAIL, from, mail(json!({ "subject": "a\r\nBcc: eve@x" })), "validation_error"),
    ] {
        let (refused, request) = reply(type_id, config, &inputs, answer(200, "", "")).await;
        assert_eq!(
            (&refused["failed"]["code"], &*request),
            (&json!(code), ""),
            "{inputs}: {refused}"
        );
    }
}

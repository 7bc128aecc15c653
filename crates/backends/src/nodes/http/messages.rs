//! `core.openwop.integration.*`: messages to people over the HTTP interfaces of those who deliver them. Each is one
//! recorded request; where the receiver cannot tell a second one from the first, a person is asked after a crash.

pub(in super::super) mod replies;

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Outcome, RetryClass, Schema, published_type};
use callboard_engine::{Activity, Call, CallFailure, Effect, OnUnknown};
use callboard_protocol::Object;

use super::super::given::{failed, invalid, outcome, outputs};
use super::request::Request;
use super::{Fetch, ended};

pub(in super::super) const EMAIL: &str = "core.openwop.integration.email-send";
pub(in super::super) const SLACK: &str = "core.openwop.integration.slack-message";
pub(in super::super) const CHAT: &str = "core.openwop.integration.chat-message-generic";
/// Tries of a request that the receiver knows again. The others are made once: silence may mean that it was done.
const TRIES: u64 = 3;
/// What a receiver says went wrong is shown up to here.
const LONGEST_REASON: usize = 500;

/// Who delivers messages, as the operator says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integrations {
    /// Who delivers emails of nodes that name nobody.
    pub email: Option<String>,
    pub resend_url: String,
    pub sendgrid_url: String,
    pub slack_url: String,
    pub github_url: String,
    /// The addresses of chats, by their `connectorInstanceId`.
    pub chat: BTreeMap<String, String>,
}

impl Default for Integrations {
    fn default() -> Self {
        Self {
            email: None,
            resend_url: "https://api.resend.com".to_owned(),
            sendgrid_url: "https://api.sendgrid.com".to_owned(),
            slack_url: "https://slack.com/api".to_owned(),
            github_url: "https://api.github.com".to_owned(),
            chat: BTreeMap::new(),
        }
    }
}

#[derive(Debug)]
pub(in super::super) struct Messages {
    pub(in super::super) fetch: Fetch,
    pub(in super::super) integrations: Integrations,
}

/// A message as the request that delivers it.
struct Message {
    url: String,
    body: Value,
    /// Those that this receiver asks for.
    headers: Value,
    needs_credential: bool,
    /// Whether the receiver knows a request that it had before by its key.
    is_known_again: bool,
    provider: &'static str,
    /// The outputs of the node for what came back.
    read: fn(&Self, &Call, &Received) -> Object,
    /// The same for what a person says of a request that nobody knows to have arrived.
    said: fn(Value) -> Value,
    /// What it is called where it goes wrong.
    failure: &'static str,
}

/// What the receiver answered.
struct Received {
    status: u64,
    headers: Value,
    body: Value,
    key: String,
}

#[async_trait]
impl Activity for Messages {
    async fn perform(&self, call: Call) -> Outcome {
        let message = match self.message(&call) {
            Ok(message) => message,
            Err(failure) => return outcome(Err(failure)),
        };
        let request = match message.request(&call) {
            Ok(request) => request,
            Err(failure) => return outcome(Err(failure)),
        };
        let asked = request.shown();
        let is_known_again = message.is_known_again;
        let on_unknown =
            if is_known_again { OnUnknown::Repeat } else { OnUnknown::Ask(message.said) };
        let provider = message.provider;
        let effect = Effect { index: 0, provider, request: &asked, on_unknown, is_recorded: false };
        let made = call.once(effect, |once| async {
            let answer = self.fetch.fetch(&call, &request, once).await?;
            message.settle(&call, answer).map(Value::Object)
        });
        ended(made.await.map(|made| made.as_object().cloned().unwrap_or_default()))
    }
}

impl Messages {
    fn message(&self, call: &Call) -> Result<Message, CallFailure> {
        let inputs = own_inputs(call)?;
        match call.type_id.as_str() {
            EMAIL => self.email(call),
            SLACK => self.slack(call),
            replies::GITHUB => self.github_reply(call),
            replies::SLACK => self.slack_reply(call),
            replies::EMAIL => self.email_reply(call),
            _ => self.chat(call, inputs),
        }
    }

    fn email(&self, call: &Call) -> Result<Message, CallFailure> {
        let named = call.config.get("provider").and_then(Value::as_str);
        let provider = named.or(self.integrations.email.as_deref());
        let unknown = |why: String| failed("provider_not_configured", why);
        let usual = Message {
            url: String::new(),
            body: Value::Null,
            headers: json!({}),
            needs_credential: true,
            is_known_again: false,
            provider: "sendgrid",
            read: sent,
            said: |id| json!({ "sent": true, "messageId": text_of(&id), "provider": "sendgrid" }),
            failure: "email_send_failed",
        };
        match provider {
            Some("resend") => Ok(Message {
                url: format!("{}/emails", self.integrations.resend_url),
                body: for_resend(call),
                is_known_again: true,
                provider: "resend",
                ..usual
            }),
            Some("sendgrid") => Ok(Message {
                url: format!("{}/v3/mail/send", self.integrations.sendgrid_url),
                body: for_sendgrid(call),
                ..usual
            }),
            Some(other) => Err(unknown(format!(
                "this host sends emails through resend and sendgrid, not through {other}"
            ))),
            None => Err(unknown(
                "config.provider must be resend or sendgrid, or the operator sets integrations.email"
                    .to_owned(),
            )),
        }
    }

    fn slack(&self, call: &Call) -> Result<Message, CallFailure> {
        for key in ["workspace", "asUser"] {
            if call.config.contains_key(key) {
                let why = format!(
                    "config.{key} has no effect here: the token decides who posts, and where"
                );
                return Err(invalid(why));
            }
        }
        let mut body = json!({ "channel": call.config.get("channel") });
        let ports = [
            ("text", "text"),
            ("blocks", "blocks"),
            ("threadTs", "thread_ts"),
            ("broadcast", "reply_broadcast"),
        ];
        copy(call, &ports, &mut body);
        Ok(Message {
            url: format!("{}/chat.postMessage", self.integrations.slack_url),
            body,
            headers: json!({}),
            needs_credential: true,
            is_known_again: false,
            provider: "slack",
            read: posted,
            said: |ts| json!({ "posted": true, "ts": text_of(&ts), "channel": "" }),
            failure: "slack_message_failed",
        })
    }

    fn chat(&self, call: &Call, inputs: Object) -> Result<Message, CallFailure> {
        let named = call.config.get("connectorInstanceId").and_then(Value::as_str);
        let chat = &self.integrations.chat;
        let found = match named {
            Some(name) => chat.get(name),
            // With one of them, there is nothing to choose.
            None => chat.values().next().filter(|_| chat.len() == 1),
        };
        let url = found.ok_or_else(|| {
            let why = "config.connectorInstanceId must name a chat of [integrations.chat]";
            failed("connector_not_found", why)
        })?;
        Ok(Message {
            url: url.clone(),
            body: Value::Object(inputs),
            headers: json!({}),
            needs_credential: false,
            is_known_again: false,
            provider: "chat",
            read: delivered,
            said: |_| json!({ "success": true }),
            failure: "chat_message_failed",
        })
    }
}

impl Message {
    fn request(&self, call: &Call) -> Result<Request, CallFailure> {
        let credential = call.config.get("credentialsRef");
        if self.needs_credential && credential.is_none() {
            return Err(failed(
                "credential_required",
                "credentialsRef must name the secret with its key",
            ));
        }
        let tries = if self.is_known_again { TRIES } else { 1 };
        let mode = if self.is_known_again { "auto" } else { "disabled" };
        let config = json!({
            "url": self.url, "method": "POST", "headers": self.headers,
            "retry": { "maxAttempts": tries }, "idempotency": { "mode": mode },
        });
        let mut config = config.as_object().cloned().unwrap_or_default();
        config.extend(credential.map(|name| ("credentialsRef".to_owned(), name.clone())));
        Request::of(&config, &Object::from_iter([("body".to_owned(), self.body.clone())]))
    }

    /// A refusal is an output; trouble of the receiver is a failure, which may pass.
    fn settle(&self, call: &Call, mut answer: Value) -> Result<Object, CallFailure> {
        if let Some(why) = answer.get("networkError").and_then(Value::as_str) {
            let doubt = if self.is_known_again { "" } else { "; it may have been delivered" };
            return Err(failed(self.failure, format!("{why}{doubt}")));
        }
        let status = answer["status"].as_u64().unwrap_or_default();
        if status == 429 || status >= 500 {
            let mut busy = failed(self.failure, format!("the receiver answered {status}"));
            busy.class = RetryClass::Retryable;
            return Err(busy);
        }
        let key = answer["idempotencyKey"].as_str().unwrap_or_default().to_owned();
        let (headers, body) = (answer["headers"].take(), answer["body"].take());
        Ok((self.read)(self, call, &Received { status, headers, body, key }))
    }
}

impl Received {
    fn is_taken(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The receiver's own reason, or its status.
    fn reason(&self) -> String {
        let said = &self.body;
        let said = [&said["message"], &said["errors"][0]["message"], &said["error"]];
        let said = said.into_iter().find_map(Value::as_str).map(str::to_owned);
        let mut said = said.unwrap_or_else(|| format!("status {}", self.status));
        said.truncate(said.floor_char_boundary(LONGEST_REASON));
        said
    }
}

/// The ports that the node's type has, checked against the schema of its pack. What else comes over an edge is nobody's.
fn own_inputs(call: &Call) -> Result<Object, CallFailure> {
    let Some(published) = published_type(call.type_id.as_str()) else { return Ok(Object::new()) };
    let mut inputs = call.inputs.clone();
    inputs.retain(|port, _| published.inputs["properties"].get(port).is_some());
    let schema = Schema::compile(published.inputs.to_string().as_bytes())
        .map_err(|why| failed("internal_error", why.to_string()))?;
    let inputs = Value::Object(inputs);
    match (schema.violations(&inputs).first(), inputs) {
        (Some(violation), _) => Err(invalid(format!("the inputs: {violation}"))),
        (None, Value::Object(inputs)) => Ok(inputs),
        (None, _) => Ok(Object::new()),
    }
}

/// The ports that are there, under the names that the receiver has for them.
fn copy(call: &Call, ports: &[(&str, &str)], body: &mut Value) {
    for (port, name) in ports {
        if let Some(value) = call.inputs.get(*port) {
            body[*name] = value.clone();
        }
    }
}

fn for_resend(call: &Call) -> Value {
    let mut body = json!({ "from": call.config.get("from") });
    let ports = [
        ("to", "to"),
        ("cc", "cc"),
        ("bcc", "bcc"),
        ("subject", "subject"),
        ("text", "text"),
        ("html", "html"),
    ];
    copy(call, &ports, &mut body);
    if let Some(address) = call.config.get("replyTo") {
        body["reply_to"] = address.clone();
    }
    body
}

fn for_sendgrid(call: &Call) -> Value {
    let people = |port: &str| -> Option<Value> {
        let given = call.inputs.get(port)?;
        let all = given.as_array().cloned().unwrap_or_else(|| vec![given.clone()]);
        Some(all.into_iter().map(|address| json!({ "email": address })).collect())
    };
    let mut to = json!({ "to": people("to") });
    for port in ["cc", "bcc"] {
        if let Some(people) = people(port).filter(|people| people != &json!([])) {
            to[port] = people;
        }
    }
    // Plain text comes first, as the receiver asks.
    let content: Vec<Value> = [("text", "text/plain"), ("html", "text/html")]
        .into_iter()
        .filter_map(|(port, kind)| Some(json!({ "type": kind, "value": call.inputs.get(port)? })))
        .collect();
    let mut body = json!({
        "personalizations": [to], "from": { "email": call.config.get("from") },
        "subject": call.inputs.get("subject"), "content": content,
    });
    if let Some(address) = call.config.get("replyTo") {
        body["reply_to"] = json!({ "email": address });
    }
    body
}

/// What a person said, where it can stand for an id.
fn text_of(said: &Value) -> &str {
    said.as_str().unwrap_or_default()
}

fn sent(message: &Message, _: &Call, received: &Received) -> Object {
    let id = received.body["id"].as_str().or(received.headers["x-message-id"].as_str());
    let id = id.filter(|_| received.is_taken()).unwrap_or_default();
    let is_sent = received.is_taken().into();
    let mut made = outputs([
        ("sent", is_sent),
        ("messageId", id.into()),
        ("provider", message.provider.into()),
    ]);
    if !received.key.is_empty() {
        made.insert("idempotencyKey".to_owned(), received.key.as_str().into());
    }
    if !received.is_taken() {
        made.insert("error".to_owned(), received.reason().into());
    }
    made
}

fn posted(_: &Message, call: &Call, received: &Received) -> Object {
    // Slack answers 200 to what it refuses, too.
    let is_posted = received.is_taken() && received.body["ok"] != json!(false);
    let text = |key: &str| received.body[key].as_str();
    let asked = call.config.get("channel").and_then(Value::as_str);
    let channel = text("channel").or(asked).unwrap_or_default();
    let stamp = text("ts").filter(|_| is_posted).unwrap_or_default();
    let mut made =
        outputs([("posted", is_posted.into()), ("ts", stamp.into()), ("channel", channel.into())]);
    if !is_posted {
        made.insert("error".to_owned(), received.reason().into());
    }
    made
}

fn delivered(_: &Message, _: &Call, received: &Received) -> Object {
    let mut made = outputs([("success", received.is_taken().into())]);
    let id = [&received.body["messageId"], &received.body["id"], &received.body["ts"]];
    let id = id.into_iter().find_map(Value::as_str).filter(|_| received.is_taken());
    made.extend(id.map(|id| ("platformMessageId".to_owned(), id.into())));
    made
}

//! Fetching a page: through the guard, with every redirect judged like the first address.

use std::collections::BTreeMap;

use async_trait::async_trait;
use reqwest::Url;
use serde_json::{Value, json};

use callboard_agents::{Tool, ToolCard, ToolDescriptor, ToolFault, ToolInvocation};
use callboard_protocol::{Object, SafetyTier, SecretName, ToolEgress, ToolTransport};

use super::text;
use crate::egress::{Answer, Egress, EgressError, Method, Outgoing, authority};

/// What a model can take in of a page, several times over.
pub(super) const MOST_BODY: usize = 1 << 20;
/// As many as browsers need for pages that move politely.
const MOST_REDIRECTS: usize = 5;
/// What an answer's reader may want to know. Cookies and the like stay out.
const SHOWN_HEADERS: [&str; 5] =
    ["content-type", "content-language", "last-modified", "etag", "retry-after"];

pub(super) static FETCH: ToolCard = ToolCard {
    id: "openwop:core.openwop.http.fetch",
    title: "Fetch a page",
    description: "Reads one address of the public internet over https. With the name of a stored credential, that goes along as a bearer token, to the hosts that it is meant for. Returns { url, status, headers, body, truncated }; JSON comes parsed, other text as text, anything else as null.",
    input: r#"{"type":"object","required":["url"],"properties":{
        "url":{"type":"string","minLength":1,"maxLength":2048},
        "method":{"type":"string","enum":["GET","HEAD"],"default":"GET"},
        "headers":{"type":"object","properties":{
            "accept":{"type":"string","maxLength":200},
            "accept-language":{"type":"string","maxLength":200},
            "if-none-match":{"type":"string","maxLength":200},
            "if-modified-since":{"type":"string","maxLength":200}
        },"additionalProperties":false},
        "credential":{"type":"string","minLength":1,"maxLength":128}
    },"additionalProperties":false}"#,
    tier: SafetyTier::Read,
    transport: ToolTransport::Http,
    egress: ToolEgress::SafeFetch,
    ..ToolCard::NATIVE
};

#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) descriptor: ToolDescriptor,
    pub(super) egress: Egress,
}

#[async_trait]
impl Tool for Fetch {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.descriptor
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        let fetched = tokio::time::timeout(call.within, self.follow(&call)).await;
        let (url, answer) =
            fetched.map_err(|_| ToolFault::Unanswered("no answer in time".to_owned()))??;
        Ok(show(&url, &answer))
    }
}

impl Fetch {
    async fn follow(&self, call: &ToolInvocation<'_>) -> Result<(String, Answer), ToolFault> {
        let method = match text(&call.arguments, "method") {
            Some("HEAD") => Method::Head,
            _ => Method::Get,
        };
        let mut url = text(&call.arguments, "url").unwrap_or_default().to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let mut headers = headers(&call.arguments);
            // Asked for at every step: where a redirect leads it may not be meant for.
            headers.extend(credential(call, &url).await?);
            let outgoing = Outgoing {
                method,
                url: url.clone(),
                headers,
                body: Vec::new(),
                within: call.within,
                most: MOST_BODY,
            };
            let answer = self.egress.send_of(call.tenant, outgoing).await;
            if let (Err(EgressError::Refused(_)), Some(held)) = (&answer, call.credentials) {
                held.blocked();
            }
            let answer = answer.map_err(explain)?;
            match redirected(&url, &answer).map_err(explain)? {
                Some(elsewhere) => url = elsewhere,
                None => return Ok((url, answer)),
            }
        }
        Err(ToolFault::refused("the address leads around in circles"))
    }
}

/// The header that carries what the caller named, if it may go where this address leads.
async fn credential(
    call: &ToolInvocation<'_>,
    url: &str,
) -> Result<Option<(String, String)>, ToolFault> {
    let Some(name) = text(&call.arguments, "credential") else { return Ok(None) };
    let held = call.credentials;
    let held = held.ok_or_else(|| ToolFault::refused("there are no credentials here"))?;
    let destination = authority(url).ok_or_else(|| ToolFault::refused("the address is no URL"))?;
    let value = held.release(&SecretName::from(name), &destination).await?;
    Ok(Some(("authorization".to_owned(), format!("Bearer {}", value.reveal()))))
}

/// Where a redirect leads, if it is one. The guard judges it when it is sent to.
pub(crate) fn redirected(url: &str, answer: &Answer) -> Result<Option<String>, EgressError> {
    if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = answer.headers.get("location") else { return Ok(None) };
    let refused = |why: &str| EgressError::Refused(why.to_owned());
    let from = Url::parse(url).map_err(|_| refused("the address is no URL"))?;
    let to = from.join(location).map_err(|_| refused("the address leads to no address"))?;
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(refused("the address leads to one without encryption"));
    }
    Ok(Some(to.into()))
}

/// The schema has let through only headers that ask for a form of the page.
fn headers(arguments: &Object) -> Vec<(String, String)> {
    let given = arguments.get("headers").and_then(Value::as_object);
    let mut headers = vec![("user-agent".to_owned(), "callboard".to_owned())];
    for (name, value) in given.into_iter().flatten() {
        headers.extend(value.as_str().map(|value| (name.clone(), value.to_owned())));
    }
    headers
}

fn show(url: &str, answer: &Answer) -> Value {
    let shown: BTreeMap<&str, &String> =
        SHOWN_HEADERS.iter().filter_map(|name| Some((*name, answer.headers.get(*name)?))).collect();
    json!({
        "url": url,
        "status": answer.status,
        "headers": shown,
        "body": body(answer),
        "truncated": answer.is_cut,
    })
}

fn body(answer: &Answer) -> Value {
    if answer.body.is_empty() {
        return Value::Null;
    }
    let kind = answer.headers.get("content-type").map_or("", String::as_str);
    if kind.contains("json")
        && !answer.is_cut
        && let Ok(parsed) = serde_json::from_slice(&answer.body)
    {
        return parsed;
    }
    match std::str::from_utf8(&answer.body) {
        Ok(text) => text.into(),
        // A cut may go through a character; the text before it is still valid.
        Err(error) if answer.is_cut && error.error_len().is_none() => {
            String::from_utf8_lossy(&answer.body[..error.valid_up_to()]).into()
        }
        Err(_) if kind.starts_with("text/") => String::from_utf8_lossy(&answer.body).into(),
        Err(_) => Value::Null,
    }
}

/// A page can be asked for again, so silence is never more than silence.
fn explain(error: EgressError) -> ToolFault {
    match error {
        EgressError::Refused(why) => ToolFault::Refused(why),
        EgressError::NoAnswer(why) => ToolFault::Unavailable(why),
    }
}

//! `core.openwop.http.fetch`, and GraphQL over it: one request through the guard, with retries of its own, as one
//! recorded call.

pub(super) mod messages;
mod openapi;
mod pages;
mod request;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{AgentFact, Fact, Outcome};
use callboard_engine::{Activity, Call, CallFailure, Effect, OnUnknown, Once, OnceError};
use callboard_protocol::{Object, SecretName};

use self::request::Request;
use super::given::{failed, outcome, outputs};
use crate::egress::{Answer, Egress, EgressError, Method, Outgoing, authority};
use crate::tools::redirected;

/// The largest answer: a quarter of what a node's outputs may weigh.
const MOST_BODY: usize = 4 << 20;
/// As many as browsers need for pages that move politely.
const MOST_REDIRECTS: usize = 5;
/// What says who somebody is stays out of the log.
const HIDDEN_HEADERS: [&str; 4] =
    ["set-cookie", "www-authenticate", "proxy-authenticate", "authentication-info"];

#[derive(Debug, Clone)]
pub(super) struct Fetch {
    pub(super) egress: Egress,
}

#[async_trait]
impl Activity for Fetch {
    async fn perform(&self, call: Call) -> Outcome {
        let type_id = call.type_id.as_str();
        if type_id.starts_with("core.openwop.http.pagination-") {
            return ended(pages::fetch_pages(self, &call).await.map_err(|stop| stop.0));
        }
        let is_operation = type_id == "core.openwop.http.openapi-call";
        let request = if is_operation { openapi::request(&call) } else { Request::read(&call) };
        let request = match request {
            Ok(request) => request,
            Err(failure) => return outcome(Err(failure)),
        };
        match self.ask(&call, 0, &request).await {
            Ok(value) if is_operation => outcome(pages::called(value, &request)),
            Ok(value) if request.is_graphql => outcome(graphql(value)),
            made => ended(made.map(|value| value.as_object().cloned().unwrap_or_default())),
        }
    }
}

/// What a node came to.
fn ended(made: Result<Object, OnceError>) -> Outcome {
    match made {
        Ok(outputs) => Outcome::Done { outputs },
        Err(OnceError::Ended(outcome)) => outcome,
        // Nobody listens to an attempt that no longer counts.
        Err(OnceError::Superseded) => Outcome::Done { outputs: Object::new() },
    }
}

impl Fetch {
    /// Makes one request as the call at `index` of its visit, unless its outcome is known.
    async fn ask(&self, call: &Call, index: u32, request: &Request) -> Result<Value, OnceError> {
        let asked = request.shown();
        let effect = Effect {
            index,
            provider: call.type_id.as_str(),
            request: &asked,
            on_unknown: if request.may_repeat() {
                OnUnknown::Repeat
            } else {
                OnUnknown::Ask(
                    |said| json!({ "status": 200, "headers": {}, "body": said, "durationMs": 0, "attempts": 1 }),
                )
            },
            is_recorded: false,
        };
        call.once(effect, |once| self.fetch(call, request, once)).await
    }

    /// Tries until there is an answer that is not the server's own trouble, or until the tries are used up.
    async fn fetch(
        &self,
        call: &Call,
        request: &Request,
        once: Once,
    ) -> Result<Value, CallFailure> {
        let began = call.now();
        let key = request.sends_key.then(|| once.id.as_str().to_owned());
        let mut attempts = 1;
        let answer = loop {
            let before = u32::try_from(attempts - 1).unwrap_or(u32::MAX);
            call.dispatch(&once, before, key.as_deref()).await?;
            let answer = self.follow(call, request, key.as_deref()).await;
            let may_pass = match &answer {
                Ok(answer) => answer.status >= 500,
                Err(EgressError::NoAnswer(_)) => true,
                Err(EgressError::Refused(why)) => {
                    return Err(failed("egress_denied", why.clone()));
                }
            };
            if !may_pass || attempts >= request.most_attempts {
                break answer;
            }
            call.pause(request.delay_after(attempts)).await;
            attempts += 1;
        };
        let elapsed = call.now().since(began).as_millis();
        let mut shown = match answer {
            Ok(answer) => show(&answer)?,
            Err(error) => {
                json!({ "status": 0, "headers": {}, "body": null, "networkError": error.to_string() })
            }
        };
        shown["durationMs"] = json!(u64::try_from(elapsed).unwrap_or(u64::MAX));
        shown["attempts"] = json!(attempts);
        if let Some(key) = key {
            shown["idempotencyKey"] = key.into();
        }
        call.redact(&mut shown);
        Ok(shown)
    }

    /// Follows redirects of requests that change nothing; the guard judges each of them.
    async fn follow(
        &self,
        call: &Call,
        request: &Request,
        key: Option<&str>,
    ) -> Result<Answer, EgressError> {
        let mut url = request.url.clone();
        let first = authority(&url);
        for place in 0..=MOST_REDIRECTS {
            let is_elsewhere = authority(&url) != first;
            let mut headers = request.headers_for(is_elsewhere);
            headers.extend(key.map(|key| ("idempotency-key".to_owned(), key.to_owned())));
            headers.extend(self.credential(call, request, &url, place).await?);
            let outgoing = Outgoing {
                method: request.method,
                url: url.clone(),
                headers,
                body: request.body.clone(),
                within: request.timeout,
                most: MOST_BODY,
            };
            // The way out limits each exchange; this limits the reading of an endless answer too.
            let sent =
                tokio::time::timeout(request.timeout, self.egress.send_of(&call.tenant, outgoing))
                    .await;
            let answer =
                sent.map_err(|_| EgressError::NoAnswer("no answer in time".to_owned()))??;
            let follows = matches!(request.method, Method::Get | Method::Head);
            match if follows { redirected(&url, &answer)? } else { None } {
                Some(elsewhere) => url = elsewhere,
                None => return Ok(answer),
            }
        }
        Err(EgressError::Refused("the address leads around in circles".to_owned()))
    }

    /// The header with the secret that the node names, if that may go where the address leads. What was decided is told.
    async fn credential(
        &self,
        call: &Call,
        request: &Request,
        url: &str,
        place: usize,
    ) -> Result<Option<(String, String)>, EgressError> {
        let Some(name) = &request.credential else { return Ok(None) };
        let refused = |why: String| EgressError::Refused(why);
        let destination =
            authority(url).ok_or_else(|| refused("the address is no URL".to_owned()))?;
        let (decided, value) =
            call.credential(&SecretName::from(name.as_str()), &destination).await;
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        // An attempt that no longer counts is told so when it hands over its outcome.
        let _ = call.record(vec![Fact::Agent { place, fact: AgentFact::Egress(decided) }]).await;
        let value = value.ok_or_else(|| {
            refused(format!("the credential {name} may not be sent to this host"))
        })?;
        Ok(Some(("authorization".to_owned(), format!("Bearer {}", value.reveal()))))
    }
}

/// What a GraphQL server answered, with its data and its errors apart.
fn graphql(mut fetched: Value) -> Result<Object, CallFailure> {
    if let Some(why) = fetched.get("networkError").and_then(Value::as_str) {
        return Err(failed("no_answer", why));
    }
    let mut take = |key: &str| fetched.get_mut(key).map(Value::take).unwrap_or_default();
    let (status, headers, body) = (take("status"), take("headers"), take("body"));
    let part = |key: &str| body.get(key).cloned().unwrap_or_default();
    let errors = Some(part("errors")).filter(Value::is_array).unwrap_or_default();
    let data = part("data");
    Ok(outputs([
        ("status", status),
        ("headers", headers),
        ("data", data),
        ("errors", errors),
        ("body", body),
    ]))
}

fn show(answer: &Answer) -> Result<Value, CallFailure> {
    if answer.is_cut {
        let why = format!("the answer is larger than {MOST_BODY} bytes");
        return Err(failed("response_too_large", why));
    }
    let mut headers = answer.headers.clone();
    headers.retain(|name, _| !HIDDEN_HEADERS.contains(&name.as_str()));
    let is_json = headers.get("content-type").is_some_and(|kind| kind.contains("json"));
    let parsed = serde_json::from_slice::<Value>(&answer.body).ok().filter(|value| {
        is_json && (value.is_object() || value.is_array()) && !callboard_core::is_too_deep(value)
    });
    let body = match parsed {
        Some(value) => value,
        None if answer.body.is_empty() => Value::Null,
        None => String::from_utf8_lossy(&answer.body).into(),
    };
    Ok(json!({ "status": answer.status, "headers": headers, "body": body }))
}

impl Request {
    /// Doubles with each try.
    fn delay_after(&self, attempts: u64) -> Duration {
        let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.first_delay.saturating_mul(factor).min(self.longest_delay)
    }
}

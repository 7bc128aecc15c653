//! Where a credential may go, as the suite asks it: a secret is stored, and an agent fetches with it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_core::{Provenance, SecretText};
use callboard_engine::HeldSecret;
use callboard_protocol::SecretName;
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped};
use serde::Deserialize;
use serde_json::{Value, json};

use super::safe_fetch::fetch_by_agent;

/// There for as long as the run takes.
const NAME: &str = "conformance-egress";
/// What must never be told.
const SENTINEL: &str = "egress-canary-e3b0c44298fc1c149afb";
/// Names under which nobody can ever be reached.
const AUDIENCE: &str = "api.callboard.invalid";
const ELSEWHERE: &str = "attacker.callboard.invalid";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Play {
    scenario: Scenario,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scenario {
    OutOfAudience,
    ProvenanceUnevaluable,
    InAudience,
    Canary,
}

pub(super) async fn decide(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(play): Shaped<Play>,
) -> Result<Answer, Problem> {
    let bound = Provenance { audiences: vec![AUDIENCE.to_owned()], expires_at: None };
    let (provenance, to) = match play.scenario {
        Scenario::OutOfAudience | Scenario::Canary => (Some(bound), ELSEWHERE),
        Scenario::ProvenanceUnevaluable => (None, AUDIENCE),
        Scenario::InAudience => (Some(bound), AUDIENCE),
    };
    let (secrets, name) = (host.app.engine.secrets(), SecretName::from(NAME));
    let held = HeldSecret { value: SecretText::new(SENTINEL.to_owned()), provenance };
    secrets.put_secret(&caller.scope, &name, held, host.now()).await?;
    let url = format!("https://{to}/");
    let arguments = json!({ "url": url, "credential": NAME });
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let fetched = fetch_by_agent(&host, &caller, &arguments).await;
    secrets.remove_secret(&caller.scope, &name).await?;
    let (run, events) = fetched?;
    let decided = events.iter().find(|event| event["type"] == "egress.decided");
    let mut shown = decided.map(|event| event["payload"].clone()).unwrap_or_default();
    shown["credentialAttached"] = (shown["decision"] == "allowed").into();
    shown["canaryLeaked"] = Value::from(events).to_string().contains(SENTINEL).into();
    shown["runId"] = json!(run);
    Ok(Answer::of(StatusCode::OK, &shown))
}

//! `…/hosts` and `…/providers`: the processes that drive runs, what they hold, and whom they can ask.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_engine::DrivingLoad;
use callboard_protocol::Timestamp;
use serde::Serialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

#[derive(Debug, Serialize)]
struct HostList {
    /// One on SQLite: this process is the only one that drives runs.
    hosts: Vec<HostLine>,
    database: Database,
    providers: Vec<ProviderLine>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HostLine {
    host_id: String,
    version: String,
    started_at: Timestamp,
    claims: Claims,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Claims {
    runs: usize,
    most_runs: usize,
    bytes: usize,
    most_bytes: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Database {
    is_ready: bool,
}

#[derive(Debug, Serialize)]
struct ProviderLine {
    name: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Probed {
    name: String,
    is_ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    took_ms: u128,
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    _: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let DrivingLoad { runs, most_runs, bytes, most_bytes } = host.app.engine.driving_load();
    let line = HostLine {
        host_id: host.app.config.host_id.clone(),
        version: host.app.config.version.clone(),
        started_at: host.started_at,
        claims: Claims { runs, most_runs, bytes, most_bytes },
    };
    let database = Database { is_ready: host.app.readiness.check().await.is_ok() };
    let names = host.app.providers.names();
    let providers = names.into_iter().map(|name| ProviderLine { name }).collect();
    Answer::json(StatusCode::OK, &HostList { hosts: vec![line], database, providers })
}

pub(super) async fn probe(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(name): Named<String>,
) -> Result<Answer, Problem> {
    let began = host.now();
    let asked = host.app.providers.probe(&name).await;
    let asked = asked.ok_or_else(|| Problem::no_such("provider"))?;
    caller.audit(&name, "provider probed");
    let took_ms = host.now().since(began).as_millis();
    let (is_ready, problem) = (asked.is_ok(), asked.err());
    Answer::json(StatusCode::OK, &Probed { name, is_ready, problem, took_ms })
}

/// Everybody's workflows and packs change with it, so that it is for the operator. Names of files are for the tenant of
/// those who start the host.
pub(super) async fn reload(
    State(host): State<Arc<Host>>,
    caller: Caller,
) -> Result<Answer, Problem> {
    let Some(reload) = &host.app.reload else {
        return Err(Problem::no_such("file that could be read again"));
    };
    match reload.reload().await {
        Ok(reloaded) => Answer::json(StatusCode::OK, &reloaded),
        Err(why) if caller.scope.tenant.as_str() == "default" => {
            Err(Problem::new(Code::ReloadRefused, why.to_string()))
        }
        Err(_) => Err(Problem::new(
            Code::ReloadRefused,
            "a file of the host is wrong; nothing was changed, and its log says more",
        )),
    }
}

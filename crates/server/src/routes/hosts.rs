//! `…/hosts` and `…/providers`: the processes that drive runs, what they hold, and whom they can ask.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_engine::{DrivingLoad, HostSeen};
use callboard_protocol::{HostId, Timestamp};
use serde::Serialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

#[derive(Debug, Serialize)]
struct HostList {
    /// One on SQLite: this process is the only one that drives runs. On PostgreSQL, every host that was seen lately.
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
    /// Where it stands among the hosts of one database.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<SeenLine>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SeenLine {
    address: String,
    at: Timestamp,
    is_gone: bool,
    /// Whether it is the one that answers.
    is_this: bool,
    is_listening: bool,
    database_latency_ms: u64,
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

impl From<DrivingLoad> for Claims {
    fn from(load: DrivingLoad) -> Self {
        let DrivingLoad { runs, most_runs, bytes, most_bytes } = load;
        Self { runs, most_runs, bytes, most_bytes }
    }
}

impl HostLine {
    fn of_this(host: &Host) -> Self {
        Self {
            host_id: host.app.config.host_id.clone(),
            version: host.app.config.version.clone(),
            started_at: host.started_at,
            claims: host.app.engine.driving_load().into(),
            seen: None,
        }
    }

    fn of(host: HostSeen, this: &HostId) -> Self {
        let seen = SeenLine {
            address: host.address,
            at: host.seen_at,
            is_gone: host.is_gone,
            is_this: host.id == *this,
            is_listening: host.is_listening,
            database_latency_ms: host.latency_ms,
        };
        Self {
            host_id: host.id.as_str().to_owned(),
            version: host.version,
            started_at: host.started_at,
            claims: host.load.into(),
            seen: Some(seen),
        }
    }
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    _: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    // While the database is away, this process is the only one that is known.
    let seen = match &host.app.elsewhere {
        Some(elsewhere) => elsewhere.hosts().await.unwrap_or_default(),
        None => Vec::new(),
    };
    let mut hosts: Vec<HostLine> =
        seen.into_iter().map(|seen| HostLine::of(seen, host.app.engine.host())).collect();
    if hosts.is_empty() {
        hosts.push(HostLine::of_this(&host));
    }
    let database = Database { is_ready: host.app.readiness.check().await.is_ok() };
    let names = host.app.providers.names();
    let providers = names.into_iter().map(|name| ProviderLine { name }).collect();
    Answer::json(StatusCode::OK, &HostList { hosts, database, providers })
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

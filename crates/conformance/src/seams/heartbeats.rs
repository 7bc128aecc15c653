//! `POST /v1/host/sample/heartbeat/tick`: something was seen, and the host's own loop makes of it what it must.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Heartbeat, NewHeartbeat, Probe};
use callboard_protocol::{HeartbeatId, Object};
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped};
use serde::Deserialize;
use serde_json::json;

/// The fixture that the suite runs everywhere.
const WORKFLOW: &str = "conformance-noop";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tick {
    heartbeat_id: HeartbeatId,
    observed_state: Object,
    #[serde(default)]
    simulate_slow_ms: u64,
    workflow_id: Option<String>,
}

/// Only what is seen, and how long that takes, comes from the suite.
pub(super) async fn heartbeat(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(tick): Shaped<Tick>,
) -> Result<Answer, Problem> {
    let clock = Arc::clone(host.app.engine.clock());
    let Tick { heartbeat_id, observed_state, simulate_slow_ms, workflow_id } = tick;
    let heartbeat = known(&host, &caller, heartbeat_id, workflow_id).await?;
    let look = async move {
        clock.sleep_until(clock.now().plus(Duration::from_millis(simulate_slow_ms))).await;
        Ok(observed_state)
    };
    let beat = host.app.heartbeats.beat(heartbeat, look).await?;
    let changed: Vec<_> = beat.changed.into_iter().collect();
    let answer = json!({
        "evaluated": [beat.evaluated],
        "stateChanged": changed,
        "enqueuedRuns": usize::from(beat.run.is_some()),
        "runIds": beat.run.into_iter().collect::<Vec<_>>(),
    });
    Ok(Answer::of(StatusCode::OK, &answer))
}

/// A heartbeat that the loop itself never looks at.
pub(super) async fn known(
    host: &Host,
    caller: &Caller,
    id: HeartbeatId,
    workflow: Option<String>,
) -> Result<Heartbeat, Problem> {
    let heartbeats = &host.app.heartbeats;
    if let Some(found) = heartbeats.find(&caller.scope, &id).await? {
        return Ok(found);
    }
    let new = NewHeartbeat {
        id,
        owner: caller.owner(),
        mode: caller.scope.mode,
        workflow: workflow.unwrap_or_else(|| WORKFLOW.to_owned()).into(),
        roster_id: None,
        probe: Probe::Http { url: "https://heartbeat.invalid/".to_owned() },
        interval_sec: 0,
        enabled: false,
    };
    heartbeats.add(new).await.map_err(|error| Problem::invalid(error.to_string()))
}

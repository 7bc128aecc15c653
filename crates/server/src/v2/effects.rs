//! `GET /runs/{runId}/effects`: the attempts of a run's outward calls, without what was said in them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{EffectState, LedgerRow};
use callboard_protocol::RunId;
use serde_json::{Value, json};

use super::id;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;

pub(crate) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
) -> Result<Answer, Problem> {
    let rows = host.app.engine.ledger(&caller.scope, &run).await?;
    let rows = rows.ok_or_else(|| Problem::no_such("run"))?;
    let tenant = caller.scope.tenant.as_str();
    let effects: Vec<Value> = rows.iter().map(|row| entry(row, tenant)).collect();
    let ledger = json!({ "runId": id::bound(tenant, run.as_str()), "effects": effects });
    Answer::json(StatusCode::OK, &ledger)
}

fn entry(row: &LedgerRow, tenant: &str) -> Value {
    let state = match row.state {
        EffectState::Claimed => "claimed",
        EffectState::Completed => "completed",
        EffectState::Released => "released",
        EffectState::Escaped => "escaped",
    };
    let mut entry = json!({
        "effectId": id::bound(tenant, row.effect.as_str()),
        "nodeId": row.node,
        "attempt": row.attempt,
        // No provider that is called here has a business key of its own.
        "keying": "activity-recipe",
        "state": state,
        "at": row.at,
    });
    if let Some(key) = &row.provider_key {
        entry["providerKey"] = key.as_str().into();
    }
    entry
}

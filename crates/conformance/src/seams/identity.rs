//! Whose a run is, and that nobody of another workspace reads it, as the suite asks for it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Order, Scope, Target};
use callboard_protocol::{Owner, RunId};

use super::stage::{idle, with_workflows};
use callboard_server::extend::{Answer, Caller, Code, Host, Problem, fresh};

/// The workspace that reads, and the one whose run it is.
const READER: &str = "callboard-sample-a";
const OWNER: &str = "callboard-sample-b";

pub(super) async fn owned_run(
    State(host): State<Arc<Host>>,
    caller: Caller,
) -> Result<Answer, Problem> {
    let run = begin(&host, &caller, caller.owner()).await?;
    let seen = host.app.engine.snapshot(&caller.scope, &run).await?;
    let seen = seen.ok_or_else(|| Problem::no_such("run"))?;
    Ok(Answer { status: StatusCode::OK, body: seen.json })
}

/// Reads as every reader does. The refusal is told apart from a door that is not there: both would be 404.
pub(super) async fn cross_workspace_read(
    State(host): State<Arc<Host>>,
    caller: Caller,
) -> Result<Answer, Problem> {
    let theirs = Owner { workspace: Some(OWNER.into()), ..caller.owner() };
    let run = begin(&host, &caller, theirs).await?;
    let reader = Scope { workspace: Some(READER.into()), ..caller.scope };
    match host.app.engine.snapshot(&reader, &run).await? {
        Some(seen) => Ok(Answer { status: StatusCode::OK, body: seen.json }),
        None => {
            Err(Problem::new(Code::RunForbidden, "the run is not one of the reader's workspace"))
        }
    }
}

async fn begin(host: &Host, caller: &Caller, owner: Owner) -> Result<RunId, Problem> {
    let id = fresh("callboard-sample-owned-");
    let order = Order::new(Target::Workflow(id.as_str().into()), owner, caller.scope.mode);
    with_workflows(host, caller, &[idle(&id)], async {
        Ok(host.app.engine.create(order, None).await?.run)
    })
    .await
}

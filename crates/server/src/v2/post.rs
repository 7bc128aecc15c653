//! What the host posts by itself, in the words of the second major: deliveries to webhooks and questions of runs.

use std::sync::Arc;

use callboard_engine::{ProjectError, Recorded, Store, StoreError, TranslatedEvent, Webhook};
use serde_json::Value;

use super::payload::bind_one;
use super::run_projection::RunProjection;
use super::{event_names, id};
use crate::problem::{Code, Problem};

/// None: the run is gone.
pub(crate) async fn event(
    store: &Arc<dyn Store>,
    webhook: &Webhook,
    event: &Recorded,
) -> Result<Option<TranslatedEvent>, ProjectError> {
    let projection = RunProjection::of(store, &webhook.scope, &event.run).await.map_err(untold)?;
    let Some(mut projection) = projection else { return Ok(None) };
    let document = projection.event(event).await.map_err(untold)?;
    Ok(Some(TranslatedEvent {
        webhook_id: id::bound(projection.tenant(), webhook.id.as_str()),
        run_id: projection.run_id(),
        kind: event_names::second(&event.kind).unwrap_or(&event.kind).to_owned(),
        event: document,
    }))
}

fn untold(problem: Problem) -> ProjectError {
    match problem.code {
        Code::EventTypeUnmapped | Code::PayloadUnprojectable => ProjectError::Unprojectable,
        _ => StoreError::Unavailable(problem.message).into(),
    }
}

/// A question on its way to the address that was left with its run.
pub(crate) fn callback(tenant: &str, body: Value) -> Value {
    let Value::Object(mut fields) = body else { return body };
    for name in ["runId", "parentRunId"] {
        bind_one(&mut fields, name, |run| id::bound(tenant, run));
    }
    bind_one(&mut fields, "interruptId", |interrupt| id::of_interrupt(tenant, interrupt));
    // A tenant is no workspace.
    if fields.get("workspaceId").is_some_and(|workspace| workspace == tenant) {
        fields.remove("workspaceId");
    }
    if let Some(Value::String(link)) =
        fields.get_mut("interrupt").and_then(|way| way.get_mut("callbackUrl"))
    {
        *link = link.replacen("/v1/", "/", 1);
    }
    fields.into()
}

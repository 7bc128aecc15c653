//! Everything that this host answers, as one table: routes, scopes, idempotency, metrics and OpenAPI read from it.

use axum::http::StatusCode;
use axum::routing::MethodFilter;

use OperationId::{
    AnnotateRun, AnswerInterrupt, BulkCancelRuns, CancelRun, CheckHealth, CheckReadiness,
    CreateKey, CreateRun, DiffRuns, FollowEvents, ForkRun, InspectInterrupt, ListAnnotations,
    ListInterrupts, ListKeys, ListRuns, ListWebhooks, ListWorkflows, PauseRun, PollEvents,
    ReadAncestry, ReadArtifact, ReadDeadLetters, ReadDebugBundle, ReadDiscovery, ReadMetrics,
    ReadOpenApi, ReadRun, ReadWorkflow, RegisterWebhook, RegisterWorkflow, RemoveWebhook,
    RemoveWorkflow, ReplaceWorkflow, ResolveApproval, ResolveInterrupt, ResumeRun, RevokeKey,
    RotateKey, RotateLinks,
};

/// The name of an operation. The router has a handler for each, or it does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationId {
    ReadDiscovery,
    ReadOpenApi,
    CheckHealth,
    CheckReadiness,
    ReadMetrics,
    ReadWorkflow,
    CreateRun,
    ReadRun,
    FollowEvents,
    PollEvents,
    CancelRun,
    BulkCancelRuns,
    PauseRun,
    ResumeRun,
    ForkRun,
    ReadAncestry,
    DiffRuns,
    ReadDebugBundle,
    ReadArtifact,
    ListAnnotations,
    AnnotateRun,
    ResolveInterrupt,
    ResolveApproval,
    InspectInterrupt,
    AnswerInterrupt,
    RegisterWebhook,
    RemoveWebhook,
    ListWebhooks,
    ReadDeadLetters,
    ListInterrupts,
    RotateLinks,
    ListRuns,
    ListWorkflows,
    RegisterWorkflow,
    ReplaceWorkflow,
    RemoveWorkflow,
    ListKeys,
    CreateKey,
    RevokeKey,
    RotateKey,
    SeamEvents,
    SeamReset,
    SeamToggle,
    SeamWorkflow,
    SeamVariables,
    SeamSpans,
    SeamBundle,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub id: OperationId,
    pub method: Method,
    /// As clients write it, verbs with their colon.
    pub path: &'static str,
    /// Method and path: the operation's name in idempotency records, metrics and logs.
    pub name: &'static str,
    pub summary: &'static str,
    pub access: Access,
    pub success: StatusCode,
    /// The schema of the body that it takes.
    pub(crate) takes: Option<&'static str>,
    /// Whether that body may be left out.
    pub(crate) body: BodyNeed,
    /// The schema of the body that it gives.
    pub(crate) gives: Gives,
    pub(crate) query: &'static [Parameter],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
}

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Needs no key and is answered by a full host too.
    Public,
    /// Needs a signed link, which stands in the path.
    Link,
    /// Needs a key with this scope.
    Scope(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyNeed {
    Required,
    Optional,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    Nothing,
    Json(&'static str),
    Text,
    /// Server-sent events, or the named schema for those who accept JSON only.
    Events(&'static str),
}

/// A query parameter; `schema` is JSON text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) schema: &'static str,
    pub(crate) summary: &'static str,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// Whether an idempotency key means anything to it.
    pub fn is_mutating(self) -> bool {
        self != Self::Get
    }

    pub(crate) fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

impl Operation {
    /// The scope that a key must have, if one is asked for.
    pub fn scope(&self) -> Option<&'static str> {
        match self.access {
            Access::Public | Access::Link => None,
            Access::Scope(scope) => Some(scope),
        }
    }

    const fn new(
        id: OperationId,
        method: Method,
        name: &'static str,
        summary: &'static str,
    ) -> Self {
        let (_, path) = name.split_at(name_split(method));
        Self {
            id,
            method,
            path,
            name,
            summary,
            access: Access::Public,
            success: StatusCode::OK,
            takes: None,
            body: BodyNeed::Required,
            gives: Gives::Nothing,
            query: &[],
        }
    }

    const fn by_link(mut self) -> Self {
        self.access = Access::Link;
        self
    }

    pub(crate) const fn needs(mut self, scope: &'static str) -> Self {
        self.access = Access::Scope(scope);
        self
    }

    pub(crate) const fn takes(mut self, schema: &'static str) -> Self {
        self.takes = Some(schema);
        self
    }

    pub(crate) const fn may_take(mut self, schema: &'static str) -> Self {
        self.body = BodyNeed::Optional;
        self.takes(schema)
    }

    pub(crate) const fn gives(mut self, success: StatusCode, gives: Gives) -> Self {
        self.success = success;
        self.gives = gives;
        self
    }

    const fn query(mut self, query: &'static [Parameter]) -> Self {
        self.query = query;
        self
    }
}

/// Where the path begins in `METHOD /path`.
const fn name_split(method: Method) -> usize {
    match method {
        Method::Get | Method::Put => 4,
        Method::Post => 5,
        Method::Delete => 7,
    }
}

pub(crate) const fn get(id: OperationId, name: &'static str, summary: &'static str) -> Operation {
    Operation::new(id, Method::Get, name, summary)
}

pub(crate) const fn post(id: OperationId, name: &'static str, summary: &'static str) -> Operation {
    Operation::new(id, Method::Post, name, summary)
}

const fn put(id: OperationId, name: &'static str, summary: &'static str) -> Operation {
    Operation::new(id, Method::Put, name, summary)
}

const fn delete(id: OperationId, name: &'static str, summary: &'static str) -> Operation {
    Operation::new(id, Method::Delete, name, summary)
}

const fn parameter(name: &'static str, schema: &'static str, summary: &'static str) -> Parameter {
    Parameter { name, schema, summary }
}

const OK: StatusCode = StatusCode::OK;
const CREATED: StatusCode = StatusCode::CREATED;
const ACCEPTED: StatusCode = StatusCode::ACCEPTED;
const NO_CONTENT: StatusCode = StatusCode::NO_CONTENT;

const STREAM_QUERY: &[Parameter] = &[
    parameter(
        "streamMode",
        r#"{"type":"string","default":"updates"}"#,
        "updates, values, messages, debug, or a mixture such as updates,messages.",
    ),
    parameter(
        "bufferMs",
        r#"{"type":"integer","minimum":0,"maximum":5000,"default":0}"#,
        "Collects events for so long into one batch frame.",
    ),
];

const POLL_QUERY: &[Parameter] = &[
    parameter(
        "lastSequence",
        r#"{"type":"integer"}"#,
        "The highest sequence seen; later events are answered. Absent or 0 is from the start.",
    ),
    parameter(
        "timeout",
        r#"{"type":"integer","minimum":1,"maximum":60,"default":30}"#,
        "Seconds to wait for a new event.",
    ),
];

const DIFF_QUERY: &[Parameter] =
    &[parameter("against", r#"{"type":"string"}"#, "The run to compare with; required.")];

const BUNDLE_QUERY: &[Parameter] = &[parameter(
    "maxEvents",
    r#"{"type":"integer","minimum":0}"#,
    "Keeps only so many events, from the first.",
)];

const LIST_QUERY: &[Parameter] = &[
    parameter("status", r#"{"type":"string"}"#, "Only runs with this status."),
    parameter("workflowId", r#"{"type":"string"}"#, "Only runs of this workflow."),
    parameter("tag", r#"{"type":"string"}"#, "Only runs with this tag."),
    parameter(
        "since",
        r#"{"type":"string","format":"date-time"}"#,
        "Only runs created then or later.",
    ),
    parameter("until", r#"{"type":"string","format":"date-time"}"#, "Only runs created before."),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

const TENANT_QUERY: &[Parameter] = &[parameter(
    "tenantId",
    r#"{"type":"string"}"#,
    "The webhook's tenant; the key's own if it is left out.",
)];

const DEAD_LETTER_QUERY: &[Parameter] = &[parameter(
    "limit",
    r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#,
    "How many.",
)];
const INBOX_QUERY: &[Parameter] = &[
    parameter("kind", r#"{"type":"string"}"#, "Only interrupts of this kind."),
    parameter("workflowId", r#"{"type":"string"}"#, "Only those of runs of this workflow."),
    parameter("runId", r#"{"type":"string"}"#, "Only those of this run."),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

/// The table.
pub static OPERATIONS: &[Operation] = &[
    get(ReadDiscovery, "GET /.well-known/openwop", "What this host offers")
        .gives(OK, Gives::Json("Capabilities")),
    get(ReadOpenApi, "GET /v1/openapi.json", "This document").gives(OK, Gives::Json("Object")),
    get(CheckHealth, "GET /healthz", "Whether the process lives").gives(OK, Gives::Json("Health")),
    get(CheckReadiness, "GET /readyz", "Whether the host can work")
        .gives(OK, Gives::Json("Health")),
    get(ReadMetrics, "GET /metrics", "Counters as Prometheus text").gives(OK, Gives::Text),
    get(ReadWorkflow, "GET /v1/workflows/{workflowId}", "Read a workflow definition")
        .needs("manifest:read")
        .gives(OK, Gives::Json("WorkflowDefinition")),
    post(CreateRun, "POST /v1/runs", "Start a run")
        .needs("runs:create")
        .takes("CreateRun")
        .gives(CREATED, Gives::Json("CreatedRun")),
    get(ReadRun, "GET /v1/runs/{runId}", "Read a run as it stands")
        .needs("runs:read")
        .gives(OK, Gives::Json("RunSnapshot")),
    get(FollowEvents, "GET /v1/runs/{runId}/events", "Follow a run's events live")
        .needs("runs:read")
        .query(STREAM_QUERY)
        .gives(OK, Gives::Events("PolledEvents")),
    get(
        PollEvents,
        "GET /v1/runs/{runId}/events/poll",
        "Read a run's events, waiting for new ones",
    )
    .needs("runs:read")
    .query(POLL_QUERY)
    .gives(OK, Gives::Json("PolledEvents")),
    post(CancelRun, "POST /v1/runs/{runId}/cancel", "Cancel a run")
        .needs("runs:cancel")
        .may_take("CancelRun")
        .gives(OK, Gives::Json("CancelledRun")),
    post(BulkCancelRuns, "POST /v1/runs:bulk-cancel", "Cancel up to 100 runs")
        .needs("runs:cancel")
        .takes("BulkCancel")
        .gives(OK, Gives::Json("BulkCancelled")),
    post(PauseRun, "POST /v1/runs/{runId}:pause", "Pause a run")
        .needs("runs:cancel")
        .may_take("PauseRun")
        .gives(ACCEPTED, Gives::Json("PausedRun")),
    post(ResumeRun, "POST /v1/runs/{runId}:resume", "Resume a paused run")
        .needs("runs:cancel")
        .may_take("ResumeRun")
        .gives(ACCEPTED, Gives::Json("ResumedRun")),
    post(ForkRun, "POST /v1/runs/{runId}:fork", "Replay a run from an event, or branch off there")
        .needs("runs:create")
        .takes("ForkRun")
        .gives(CREATED, Gives::Json("ForkedRun")),
    get(ReadAncestry, "GET /v1/runs/{runId}/ancestry", "Which run started this one")
        .needs("runs:read")
        .gives(OK, Gives::Json("RunAncestry")),
    get(DiffRuns, "GET /v1/runs/{runId}:diff", "Compare two runs")
        .needs("runs:read")
        .query(DIFF_QUERY)
        .gives(OK, Gives::Json("RunDiff")),
    get(ReadDebugBundle, "GET /v1/runs/{runId}/debug-bundle", "Export a run without its secrets")
        .needs("runs:read")
        .query(BUNDLE_QUERY)
        .gives(OK, Gives::Json("DebugBundle")),
    get(
        ReadArtifact,
        "GET /v1/runs/{runId}/artifacts/{artifactId}",
        "Read what a node left behind",
    )
    .needs("artifacts:read")
    .gives(OK, Gives::Json("Artifact")),
    get(ListAnnotations, "GET /v1/runs/{runId}/annotations", "List what was said of a run")
        .needs("runs:read")
        .gives(OK, Gives::Json("AnnotationList")),
    post(AnnotateRun, "POST /v1/runs/{runId}/annotations", "Rate, correct, label or flag a run")
        .needs("approvals:respond")
        .takes("CreateAnnotation")
        .gives(CREATED, Gives::Json("Annotation")),
    post(ResolveInterrupt, "POST /v1/runs/{runId}/interrupts/{nodeId}", "Answer what a node asks")
        .needs("approvals:respond")
        .takes("Answer")
        .gives(OK, Gives::Json("Answered")),
    post(
        ResolveApproval,
        "POST /v1/runs/{runId}/approvals/{nodeId}",
        "The same under the name that older clients know",
    )
    .needs("approvals:respond")
    .takes("Answer")
    .gives(OK, Gives::Json("Answered")),
    get(InspectInterrupt, "GET /v1/interrupts/{token}", "Look at an interrupt through a link")
        .by_link()
        .gives(OK, Gives::Json("Interrupt")),
    post(AnswerInterrupt, "POST /v1/interrupts/{token}", "Answer an interrupt through a link")
        .by_link()
        .takes("Answer")
        .gives(OK, Gives::Json("Answered")),
    post(RegisterWebhook, "POST /v1/webhooks", "Subscribe to events; the secret is shown once")
        .needs("webhooks:manage")
        .takes("RegisterWebhook")
        .gives(CREATED, Gives::Json("RegisteredWebhook")),
    delete(RemoveWebhook, "DELETE /v1/webhooks/{webhookId}", "Unsubscribe")
        .needs("webhooks:manage")
        .query(TENANT_QUERY)
        .gives(NO_CONTENT, Gives::Nothing),
    get(ListWebhooks, "GET /v1/host/callboard/webhooks", "List webhooks without their secrets")
        .needs("webhooks:manage")
        .gives(OK, Gives::Json("WebhookList")),
    get(
        ReadDeadLetters,
        "GET /v1/host/callboard/webhooks/{webhookId}/dead-letters",
        "Read what a durable webhook could not be told, newest first",
    )
    .needs("webhooks:manage")
    .query(DEAD_LETTER_QUERY)
    .gives(OK, Gives::Json("DeadLetterList")),
    get(
        ListInterrupts,
        "GET /v1/host/callboard/inbox",
        "List what runs ask, longest waiting first",
    )
    .needs("approvals:respond")
    .query(INBOX_QUERY)
    .gives(OK, Gives::Json("Inbox")),
    post(
        RotateLinks,
        "POST /v1/host/callboard/interrupt-links/rotate",
        "Sign links with a new secret; those signed with the last one work until they expire",
    )
    .needs("admin")
    .gives(OK, Gives::Json("LinkGeneration")),
    get(ListRuns, "GET /v1/host/callboard/runs", "List runs, newest first")
        .needs("runs:read")
        .query(LIST_QUERY)
        .gives(OK, Gives::Json("RunList")),
    get(
        ListWorkflows,
        "GET /v1/host/callboard/workflows",
        "List the workflows that the caller can run",
    )
    .needs("manifest:read")
    .gives(OK, Gives::Json("WorkflowList")),
    post(
        RegisterWorkflow,
        "POST /v1/host/callboard/workflows",
        "Register a workflow, or replace it (200)",
    )
    .needs("workflows:write")
    .takes("WorkflowDefinition")
    .gives(CREATED, Gives::Json("WorkflowDefinition")),
    put(
        ReplaceWorkflow,
        "PUT /v1/host/callboard/workflows/{workflowId}",
        "Register a workflow under its id, or replace it (200)",
    )
    .needs("workflows:write")
    .takes("WorkflowDefinition")
    .gives(CREATED, Gives::Json("WorkflowDefinition")),
    delete(
        RemoveWorkflow,
        "DELETE /v1/host/callboard/workflows/{workflowId}",
        "Forget a registered workflow; its runs go on",
    )
    .needs("workflows:write")
    .gives(NO_CONTENT, Gives::Nothing),
    get(ListKeys, "GET /v1/host/callboard/keys", "List API keys without their secrets")
        .needs("admin")
        .gives(OK, Gives::Json("KeyList")),
    post(CreateKey, "POST /v1/host/callboard/keys", "Make an API key; its secret is shown once")
        .needs("admin")
        .takes("NewKey")
        .gives(CREATED, Gives::Json("CreatedKey")),
    delete(
        RevokeKey,
        "DELETE /v1/host/callboard/keys/{keyId}",
        "Revoke a key, its open streams included",
    )
    .needs("admin")
    .gives(NO_CONTENT, Gives::Nothing),
    post(
        RotateKey,
        "POST /v1/host/callboard/keys/{keyId}/rotate",
        "Replace a key's secret and revoke the old one",
    )
    .needs("admin")
    .gives(CREATED, Gives::Json("CreatedKey")),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scopes::SCOPES;

    #[test]
    fn every_row_is_well_formed() {
        let mut names = BTreeSet::new();
        for operation in OPERATIONS {
            assert_eq!(operation.name, format!("{} {}", operation.method.as_str(), operation.path));
            assert!(operation.path.starts_with('/'), "{}", operation.name);
            assert!(names.insert(operation.name), "{} twice", operation.name);
            if let Access::Scope(scope) = operation.access {
                assert!(SCOPES.contains(&scope), "{}: {scope}", operation.name);
            }
            for parameter in operation.query {
                let schema = serde_json::from_str::<serde_json::Value>(parameter.schema);
                assert!(schema.is_ok_and(|schema| schema.is_object()), "{}", parameter.name);
            }
        }
    }
}

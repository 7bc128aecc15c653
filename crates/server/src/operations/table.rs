//! The rows of the table.

use axum::http::StatusCode;

use super::OperationId::{
    AddWork, AnnotateRun, AnswerInterrupt, BulkCancelRuns, CancelRun, ChangeDeployment,
    ChangeMember, CheckHealth, CheckReadiness, CreateKey, CreatePrompt, CreateRun, DiffRuns,
    DismissMember, ExportPacks, FetchPack, FireMember, FollowEvents, FollowEverything,
    ForgetMemory, ForkRun, HireMember, InspectInterrupt, InstallPack, ListAgents, ListAnnotations,
    ListDeployments, ListInstalledPacks, ListInterrupts, ListKeys, ListMemory, ListPacks,
    ListPrompts, ListRoster, ListRuns, ListSecrets, ListTools, ListWebhooks, ListWork,
    ListWorkflows, ManageRoster, MoveWork, PauseRun, PollEvents, PutSecret, ReadActivity,
    ReadAgent, ReadAncestry, ReadArtifact, ReadDeadLetters, ReadDebugBundle, ReadDiscovery,
    ReadMember, ReadMemory, ReadMemoryHistory, ReadMetrics, ReadOpenApi, ReadPrompt, ReadRun,
    ReadTool, ReadWorkflow, RegisterWebhook, RegisterWorkflow, RemovePack, RemovePrompt,
    RemoveSecret, RemoveWebhook, RemoveWorkflow, RenderPrompt, ReplaceWorkflow, ResolveApproval,
    ResolveInterrupt, RestoreMemory, ResumeRun, RevokeKey, RotateKey, RotateLinks, SayChat,
    ShowMember, UpdatePrompt, WriteChannel,
};
use super::{Gives, Operation, Parameter, delete, get, parameter, patch, post, put};

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
    parameter("rosterId", r#"{"type":"string"}"#, "Only runs of this standing member."),
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
    parameter("rosterId", r#"{"type":"string"}"#, "Only those of this standing member's runs."),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

const MEMORY_QUERY: &[Parameter] = &[
    parameter("scopeId", r#"{"type":"string"}"#, "Only entries of this scope or reference."),
    parameter("tag", r#"{"type":"string"}"#, "Only entries with this tag."),
    parameter("text", r#"{"type":"string"}"#, "Only entries in which all of these words occur."),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

const INSTALL_QUERY: &[Parameter] = &[
    parameter(
        "allowUnsigned",
        r#"{"type":"string","enum":["1"]}"#,
        "Let in a pack that nobody known has signed; needs the scope admin.",
    ),
    parameter(
        "integrity",
        r#"{"type":"string","pattern":"^sha256-[A-Za-z0-9+/]{43}=$"}"#,
        "The digest that the archive must have, as its publisher announced it.",
    ),
];

const ACTIVITY_QUERY: &[Parameter] = &[
    parameter(
        "since",
        r#"{"type":"string","format":"date-time"}"#,
        "Only what began then or later; a day ago if it is left out.",
    ),
    parameter(
        "limit",
        r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#,
        "How many runs.",
    ),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

const WORK_QUERY: &[Parameter] = &[parameter(
    "state",
    r#"{"type":"string","enum":["todo","doing","done"]}"#,
    "Only items in this state.",
)];

const TOOLS_QUERY: &[Parameter] = &[parameter(
    "source",
    r#"{"type":"string","enum":["node-pack","workflow","mcp","connector","host-extension"]}"#,
    "Only tools of this source.",
)];

const PROMPTS_QUERY: &[Parameter] = &[
    parameter(
        "kind",
        r#"{"type":"string","enum":["system","user","few-shot","schema-hint"]}"#,
        "Only prompts of this kind.",
    ),
    parameter("tag", r#"{"type":"string"}"#, "Only prompts with this tag."),
    parameter("modelClass", r#"{"type":"string"}"#, "Only prompts that hint at this class."),
    parameter(
        "source",
        r#"{"type":"string","enum":["host","pack","user"]}"#,
        "Only prompts of this origin.",
    ),
    parameter("workspaceId", r#"{"type":"string"}"#, "The key's own workspace, or none."),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

const PROMPT_QUERY: &[Parameter] = &[
    parameter("version", r#"{"type":"string"}"#, "This version; the newest if it is left out."),
    parameter("workspaceId", r#"{"type":"string"}"#, "The key's own workspace, or none."),
];

/// A promotion, a rollback and a pause are allowed one by one.
const DEPLOY: &[&str] = &["deploy:promote", "deploy:rollback", "deploy:pause"];

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
    post(
        WriteChannel,
        "POST /v1/host/callboard/runs/{runId}/channels/{channel}",
        "Write into a channel of a run that has not ended",
    )
    .needs("runs:create")
    .takes("ChannelWrite")
    .gives(OK, Gives::Json("WrittenChannel")),
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
    get(ListSecrets, "GET /v1/host/callboard/secrets", "List secrets without their values")
        .needs("admin")
        .gives(OK, Gives::Json("SecretList")),
    put(
        PutSecret,
        "PUT /v1/host/callboard/secrets/{secretName}",
        "Store a secret for the tenant's runs, or replace it (200); its value never comes back",
    )
    .needs("admin")
    .takes_secret("PutSecret")
    .gives(CREATED, Gives::Json("StoredSecret")),
    delete(
        RemoveSecret,
        "DELETE /v1/host/callboard/secrets/{secretName}",
        "Forget a secret; runs that need it fail from now on",
    )
    .needs("admin")
    .gives(NO_CONTENT, Gives::Nothing),
    get(ListMemory, "GET /v1/host/callboard/memory", "List what is remembered, newest first")
        .needs("runs:read")
        .query(MEMORY_QUERY)
        .gives(OK, Gives::Json("MemoryList")),
    get(ReadMemory, "GET /v1/host/callboard/memory/{memoryId}", "Read an entry as it stands")
        .needs("runs:read")
        .gives(OK, Gives::Json("MemoryRecord")),
    delete(
        ForgetMemory,
        "DELETE /v1/host/callboard/memory/{memoryId}",
        "Erase an entry with all of its versions",
    )
    .needs("runs:create")
    .gives(NO_CONTENT, Gives::Nothing),
    get(
        ReadMemoryHistory,
        "GET /v1/host/callboard/memory/{memoryId}/history",
        "Read every version of an entry, newest first",
    )
    .needs("runs:read")
    .gives(OK, Gives::Json("MemoryHistory")),
    post(
        RestoreMemory,
        "POST /v1/host/callboard/memory/{memoryId}/restore",
        "Write an old version's content anew",
    )
    .needs("runs:create")
    .takes("RestoreMemory")
    .gives(OK, Gives::Json("MemoryRecord")),
    get(ListAgents, "GET /v1/agents", "List the agents that the caller can dispatch")
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentInventory")),
    get(ReadAgent, "GET /v1/agents/{agentId}", "Read one agent's entry")
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentInventoryEntry")),
    get(ListPrompts, "GET /v1/prompts", "List the prompts that the caller may use")
        .needs("manifest:read")
        .query(PROMPTS_QUERY)
        .gives(OK, Gives::Json("PromptList")),
    post(CreatePrompt, "POST /v1/prompts", "Add a prompt")
        .needs("workflows:write")
        .takes("PromptTemplate")
        .gives(CREATED, Gives::Json("PromptTemplate")),
    get(ReadPrompt, "GET /v1/prompts/{templateId}", "Read a prompt")
        .needs("manifest:read")
        .query(PROMPT_QUERY)
        .gives(OK, Gives::Json("PromptTemplate")),
    put(UpdatePrompt, "PUT /v1/prompts/{templateId}", "Add a newer version of a prompt")
        .needs("workflows:write")
        .takes("PromptTemplate")
        .gives(OK, Gives::Json("PromptTemplate")),
    delete(RemovePrompt, "DELETE /v1/prompts/{templateId}", "Remove a prompt with its versions")
        .needs("workflows:write")
        .gives(NO_CONTENT, Gives::Nothing),
    post(RenderPrompt, "POST /v1/prompts:render", "Show what a prompt would say")
        .needs("manifest:read")
        .takes("RenderPrompt")
        .gives(OK, Gives::Json("RenderedPrompt")),
    get(ListTools, "GET /v1/tools", "List the tools that agents of the caller may be given")
        .needs("manifest:read")
        .query(TOOLS_QUERY)
        .gives(OK, Gives::Json("ToolCatalog")),
    get(ReadTool, "GET /v1/tools/{toolId}", "Read one tool's description")
        .needs("manifest:read")
        .gives(OK, Gives::Json("ToolDescriptor")),
    get(
        ListDeployments,
        "GET /v1/agents/{agentId}/deployments",
        "List an agent's versions with what became of them, the highest first",
    )
    .needs("manifest:read")
    .gives(OK, Gives::Json("AgentDeployments")),
    post(
        ChangeDeployment,
        "POST /v1/agents/{agentId}/deployments",
        "Promote, pause, deprecate or roll back a version, or change its share",
    )
    .needs_one_of(DEPLOY)
    .takes("AgentDeploymentTransition")
    .gives(OK, Gives::Json("AgentDeployment")),
    get(ListRoster, "GET /v1/agents/roster", "List the standing members, by id")
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentRoster")),
    get(ReadMember, "GET /v1/agents/roster/{rosterId}", "Read one standing member")
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentRosterEntry")),
    get(ManageRoster, "GET /v1/host/callboard/roster", "List the standing members, by id")
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentRoster")),
    post(HireMember, "POST /v1/host/callboard/roster", "Hire a standing member")
        .needs("roster:write")
        .takes("HireMember")
        .gives(CREATED, Gives::Json("AgentRosterEntry")),
    get(ShowMember, "GET /v1/host/callboard/roster/{rosterId}", "Read one standing member")
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentRosterEntry")),
    patch(
        ChangeMember,
        "PATCH /v1/host/callboard/roster/{rosterId}",
        "Change a standing member; what is not named stays",
    )
    .needs("roster:write")
    .takes("ChangeMember")
    .gives(OK, Gives::Json("AgentRosterEntry")),
    delete(
        DismissMember,
        "DELETE /v1/host/callboard/roster/{rosterId}",
        "Dismiss a standing member; its runs go on, and what they say stays",
    )
    .needs("roster:write")
    .gives(NO_CONTENT, Gives::Nothing),
    post(
        FireMember,
        "POST /v1/host/callboard/roster/{rosterId}/fire",
        "Run a workflow of a member's portfolio for it, now",
    )
    .needs("runs:create")
    .takes("FireMember")
    .gives(CREATED, Gives::Json("FiredRun")),
    post(
        SayChat,
        "POST /v1/host/callboard/chat",
        "Run the agent or the member that a text mentions",
    )
    .needs("runs:create")
    .takes("Chat")
    .gives(CREATED, Gives::Json("FiredRun")),
    get(
        ReadActivity,
        "GET /v1/host/callboard/roster/{rosterId}/activity",
        "What a member did, what waits for an answer, what it cost",
    )
    .needs("runs:read")
    .query(ACTIVITY_QUERY)
    .gives(OK, Gives::Json("MemberActivity")),
    get(
        ListWork,
        "GET /v1/host/callboard/roster/{rosterId}/work",
        "List a member's work, oldest first",
    )
    .needs("runs:read")
    .query(WORK_QUERY)
    .gives(OK, Gives::Json("WorkList")),
    post(
        AddWork,
        "POST /v1/host/callboard/roster/{rosterId}/work",
        "Put work before a member; it begins at once unless the member is paused",
    )
    .needs("runs:create")
    .takes("AddWork")
    .gives(CREATED, Gives::Json("WorkItem")),
    patch(
        MoveWork,
        "PATCH /v1/host/callboard/roster/{rosterId}/work/{workId}",
        "Claim an item, finish it, or move it back, which begins it again",
    )
    .needs("runs:create")
    .takes("MoveWork")
    .gives(OK, Gives::Json("WorkItem")),
    get(
        FollowEverything,
        "GET /v1/host/callboard/events",
        "Follow the events of every run that the caller may see",
    )
    .needs("runs:read")
    .gives(OK, Gives::Events("RunEvent")),
    get(ListPacks, "GET /v1/packs", "List packs in their latest version")
        .needs("manifest:read")
        .gives(OK, Gives::Json("PackCatalog")),
    get(ExportPacks, "GET /v1/packs/export", "List agents with the manifests that they came from")
        .needs("manifest:read")
        .gives(OK, Gives::Json("PackExport")),
    get(ListInstalledPacks, "GET /v1/host/callboard/packs", "List every installed version")
        .needs("manifest:read")
        .gives(OK, Gives::Json("PackList")),
    post(InstallPack, "POST /v1/host/callboard/packs", "Install a pack; the same bytes again: 200")
        .needs("packs:install")
        .takes_archive()
        .query(INSTALL_QUERY)
        .gives(CREATED, Gives::Json("InstalledPack")),
    post(
        FetchPack,
        "POST /v1/host/callboard/packs/from-registry",
        "Install a pack from a registry that the operator named",
    )
    .needs("packs:install")
    .takes("FetchPack")
    .gives(CREATED, Gives::Json("InstalledPack")),
    delete(
        RemovePack,
        "DELETE /v1/host/callboard/packs/{name}/{version}",
        "Remove an installed version; runs that began with it go on",
    )
    .needs("packs:install")
    .gives(NO_CONTENT, Gives::Nothing),
];

//! The rows of the table.

use axum::http::StatusCode;

use super::OperationId::{
    AddWork, AnnotateRun, AnswerInterrupt, BulkCancelRuns, CancelRun, ChangeDeployment,
    ChangeMember, ChangeSchedule, ChangeSubscription, CheckHealth, CheckReadiness, CreateKey,
    CreatePrompt, CreateRun, CreateSchedule, CreateSubscription, DeliverToQueue, DiffRuns,
    DismissMember, ExportPacks, FetchPack, FireMember, FollowEvents, FollowEverything,
    ForgetMemory, ForkRun, HireMember, IngestTrigger, InspectInterrupt, InstallPack, ListAgents,
    ListAnnotations, ListDeployments, ListInstalledPacks, ListInterrupts, ListKeys, ListMemory,
    ListPacks, ListPrompts, ListRoster, ListRuns, ListSchedules, ListSecrets, ListSubscriptions,
    ListTools, ListWebhooks, ListWork, ListWorkflows, ManageRoster, MoveWork, NextFires, PauseRun,
    PollEvents, PutSecret, ReadActivity, ReadAgent, ReadAncestry, ReadArtifact, ReadDeadLetters,
    ReadDebugBundle, ReadDiscovery, ReadMember, ReadMemory, ReadMemoryHistory, ReadMetrics,
    ReadOpenApi, ReadOrigin, ReadPrompt, ReadRun, ReadSchedule, ReadSubscription, ReadTool,
    ReadTriggerDeadLetters, ReadWorkflow, RegisterSubscription, RegisterWebhook, RegisterWorkflow,
    RemovePack, RemovePrompt, RemoveSchedule, RemoveSecret, RemoveWebhook, RemoveWorkflow,
    RenderPrompt, ReplaceWorkflow, ReplayDeadLetter, ResolveApproval, ResolveInterrupt,
    RestoreMemory, ResumeRun, RevokeKey, RotateKey, RotateLinks, RotateSubscription,
    RunScheduleNow, SayChat, ShowMember, UpdatePrompt, WriteChannel,
};
use super::queries::{
    ACTIVITY_QUERY, BUNDLE_QUERY, DEAD_LETTER_QUERY, DIFF_QUERY, INBOX_QUERY, INSTALL_QUERY,
    LIST_QUERY, MEMORY_QUERY, NEXT_QUERY, POLL_QUERY, PROMPT_QUERY, PROMPTS_QUERY, SCHEDULE_QUERY,
    STREAM_QUERY, TENANT_QUERY, TOOLS_QUERY, TRIGGER_DEAD_LETTER_QUERY, WORK_QUERY,
};
use super::{Gives, Operation, delete, get, patch, post, put};
use super::{files, standing};

const OK: StatusCode = StatusCode::OK;
const CREATED: StatusCode = StatusCode::CREATED;
const ACCEPTED: StatusCode = StatusCode::ACCEPTED;
const NO_CONTENT: StatusCode = StatusCode::NO_CONTENT;

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
    get(
        ReadOrigin,
        "GET /v1/host/callboard/runs/{runId}/ancestry",
        "All that a run came from: runs, delivery, item of work, member",
    )
    .needs("runs:read")
    .gives(OK, Gives::Json("RunOrigin")),
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
    files::LIST_FILES,
    files::READ_FILE,
    files::WRITE_FILE,
    files::REMOVE_FILE,
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
    standing::READ_BUDGET,
    standing::SET_BUDGET,
    standing::RESET_BUDGET,
    standing::READ_ORG_CHART,
    standing::READ_DEPARTMENT,
    standing::MANAGE_ORG_CHART,
    standing::PUT_ORG_CHART,
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
    standing::LIST_HEARTBEATS,
    standing::CREATE_HEARTBEAT,
    standing::READ_HEARTBEAT,
    standing::CHANGE_HEARTBEAT,
    standing::REMOVE_HEARTBEAT,
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
    get(ListSchedules, "GET /v1/host/callboard/schedules", "List schedules")
        .needs("runs:read")
        .query(SCHEDULE_QUERY)
        .gives(OK, Gives::Json("ScheduleList")),
    post(
        CreateSchedule,
        "POST /v1/host/callboard/schedules",
        "Start runs of a workflow by a cron pattern, or one run at a time",
    )
    .needs("triggers:write")
    .takes("NewSchedule")
    .gives(CREATED, Gives::Json("Schedule")),
    get(ReadSchedule, "GET /v1/host/callboard/schedules/{scheduleId}", "Read one schedule")
        .needs("runs:read")
        .gives(OK, Gives::Json("Schedule")),
    patch(
        ChangeSchedule,
        "PATCH /v1/host/callboard/schedules/{scheduleId}",
        "Change, pause or resume a schedule",
    )
    .needs("triggers:write")
    .takes("ScheduleChange")
    .gives(OK, Gives::Json("Schedule")),
    delete(
        RemoveSchedule,
        "DELETE /v1/host/callboard/schedules/{scheduleId}",
        "Remove a schedule; its runs go on",
    )
    .needs("triggers:write")
    .gives(NO_CONTENT, Gives::Nothing),
    get(
        NextFires,
        "GET /v1/host/callboard/schedules/{scheduleId}/next",
        "When a schedule fires next",
    )
    .needs("runs:read")
    .query(NEXT_QUERY)
    .gives(OK, Gives::Json("NextFires")),
    post(
        RunScheduleNow,
        "POST /v1/host/callboard/schedules/{scheduleId}/run-now",
        "Start a run of a schedule beside its own times",
    )
    .needs("triggers:write")
    .gives(ACCEPTED, Gives::Json("StartedRun")),
    get(ListSubscriptions, "GET /v1/trigger-subscriptions", "List trigger subscriptions")
        .needs("webhooks:manage")
        .gives(OK, Gives::Json("TriggerSubscriptionList")),
    get(
        ReadSubscription,
        "GET /v1/trigger-subscriptions/{subscriptionId}",
        "Read one trigger subscription",
    )
    .needs("webhooks:manage")
    .gives(OK, Gives::Json("TriggerSubscriptionRead")),
    post(
        RegisterSubscription,
        "POST /v1/trigger-subscriptions",
        "Let webhooks, forms or mail start a workflow; the secret is shown once",
    )
    .needs("webhooks:manage")
    .takes("RegisterTriggerSubscription")
    .gives(CREATED, Gives::Json("RegisteredTriggerSubscription")),
    post(
        IngestTrigger,
        "POST /v1/trigger-subscriptions/{subscriptionId}/ingest",
        "Take what a sender posts; it proves itself by its signature",
    )
    .by_link()
    .gives(ACCEPTED, Gives::Json("TriggerDelivery")),
    get(
        ReadTriggerDeadLetters,
        "GET /v1/trigger-subscriptions/{subscriptionId}/dead-letters",
        "Read what could not become a run, newest first",
    )
    .needs("webhooks:manage")
    .query(TRIGGER_DEAD_LETTER_QUERY)
    .gives(OK, Gives::Json("TriggerDeadLetters")),
    post(
        CreateSubscription,
        "POST /v1/host/callboard/trigger-subscriptions",
        "Let any source start a workflow, a queue of the host included",
    )
    .needs("triggers:write")
    .takes("CreateTriggerSubscription")
    .gives(CREATED, Gives::Json("RegisteredTriggerSubscription")),
    patch(
        ChangeSubscription,
        "PATCH /v1/host/callboard/trigger-subscriptions/{subscriptionId}",
        "Pause or resume a trigger subscription",
    )
    .needs("triggers:write")
    .takes("ChangeTriggerSubscription")
    .gives(OK, Gives::Json("TriggerSubscriptionRead")),
    post(
        DeliverToQueue,
        "POST /v1/host/callboard/trigger-subscriptions/{subscriptionId}/deliver",
        "Put something into a queue; the same id again: 200",
    )
    .needs("triggers:write")
    .takes("QueueDelivery")
    .gives(ACCEPTED, Gives::Json("TriggerDelivery")),
    post(
        RotateSubscription,
        "POST /v1/host/callboard/trigger-subscriptions/{subscriptionId}/rotate-secret",
        "Make a new signing secret; the last one works for another day",
    )
    .needs("triggers:write")
    .gives(OK, Gives::Json("RegisteredTriggerSubscription")),
    post(
        ReplayDeadLetter,
        "POST /v1/host/callboard/trigger-subscriptions/{subscriptionId}/dead-letters/{deliveryId}/replay",
        "Start a run of what was given up",
    )
    .needs("triggers:write")
    .gives(ACCEPTED, Gives::Json("StartedRun")),
];

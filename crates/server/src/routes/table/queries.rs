//! The query parameters that operations take.

use crate::operations::{Parameter, parameter};

pub(super) const STREAM_QUERY: &[Parameter] = &[
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

pub(super) const POLL_QUERY: &[Parameter] = &[
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
    parameter(
        "limit",
        r#"{"type":"integer","minimum":1,"maximum":256}"#,
        "Answers at most so many events, from the first; all of them if it is left out.",
    ),
];

pub(super) const SNAPSHOTS_QUERY: &[Parameter] = &[
    parameter("workflowId", r#"{"type":"string"}"#, "Only runs of this workflow."),
    parameter("status", r#"{"type":"string"}"#, "Only runs in this status."),
    parameter(
        "limit",
        r#"{"type":"integer","minimum":1,"default":50}"#,
        "How many; more than 200 counts as 200.",
    ),
    parameter("cursor", r#"{"type":"string"}"#, "Where the page before this one ended."),
];

pub(super) const SPEND_QUERY: &[Parameter] = &[parameter(
    "days",
    r#"{"type":"integer","minimum":1,"maximum":92,"default":14}"#,
    "How many days, today included. Days begin at midnight, UTC.",
)];

pub(super) const AUDIT_RANGE: &[Parameter] = &[
    parameter("fromSeq", r#"{"type":"integer","minimum":0,"default":0}"#, "The first sequence."),
    parameter(
        "toSeq",
        r#"{"type":"integer","minimum":0}"#,
        "The last one; at most 100000 entries are walked at once.",
    ),
];

pub(super) const AUDIT_QUERY: &[Parameter] = &[
    parameter(
        "order",
        r#"{"type":"string","enum":["newest","oldest"],"default":"newest"}"#,
        "Which come first.",
    ),
    parameter(
        "after",
        r#"{"type":"integer","minimum":0}"#,
        "Only those that come after this sequence in the order.",
    ),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
];

pub(super) const CALLS_QUERY: &[Parameter] = &[
    parameter(
        "from",
        r#"{"type":"integer","minimum":0}"#,
        "Only calls whose event has this sequence or a higher one.",
    ),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
];

const TENANT: Parameter = parameter(
    "tenant",
    r#"{"type":"string"}"#,
    "Another tenant than the caller's: for keys of the tenant default with the scope tenants:manage.",
);

pub(super) const KEYS_QUERY: &[Parameter] = &[TENANT];

pub(super) const REVOKE_QUERY: &[Parameter] = &[
    parameter(
        "cascade",
        r#"{"type":"string","enum":["1"]}"#,
        "Stops what the key made: keys are revoked, webhooks removed, the rest paused. Left out, all of it goes on.",
    ),
    TENANT,
];

pub(super) const ROTATE_QUERY: &[Parameter] = &[
    parameter(
        "graceSeconds",
        r#"{"type":"integer","minimum":0,"maximum":2592000,"default":0}"#,
        "How long the old key still works.",
    ),
    TENANT,
];

pub(super) const DIFF_QUERY: &[Parameter] =
    &[parameter("against", r#"{"type":"string"}"#, "The run to compare with.").required()];

pub(super) const BUNDLE_QUERY: &[Parameter] = &[parameter(
    "maxEvents",
    r#"{"type":"integer","minimum":0}"#,
    "Keeps only so many events, from the first.",
)];

pub(super) const LIST_QUERY: &[Parameter] = &[
    parameter("status", r#"{"type":"string"}"#, "Only runs with this status."),
    parameter("workflowId", r#"{"type":"string"}"#, "Only runs of this workflow."),
    parameter("agentId", r#"{"type":"string"}"#, "Only runs of this agent."),
    parameter("rosterId", r#"{"type":"string"}"#, "Only runs of this standing member."),
    parameter("tag", r#"{"type":"string"}"#, "Only runs with this tag."),
    parameter(
        "triggerSource",
        r#"{"type":"string"}"#,
        "Only runs that this source fired for a standing member: schedule, webhook, queue, email, form, callboard.heartbeat or callboard.manual.",
    ),
    parameter(
        "minCostUsd",
        r#"{"type":"number","minimum":0}"#,
        "Only runs that have cost so many dollars or more.",
    ),
    parameter(
        "text",
        r#"{"type":"string","minLength":1,"maxLength":200}"#,
        "Only runs with this text in their id, workflow, member, tags, variables or failure. With this, triggerSource or minCostUsd a page may be short, even empty: as long as there is a nextCursor, the search goes on there.",
    ),
    parameter("runId", r#"{"type":"string"}"#, "This run alone."),
    parameter(
        "since",
        r#"{"type":"string","format":"date-time"}"#,
        "Only runs created then or later.",
    ),
    parameter("until", r#"{"type":"string","format":"date-time"}"#, "Only runs created before."),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

pub(super) const TENANT_QUERY: &[Parameter] = &[parameter(
    "tenantId",
    r#"{"type":"string"}"#,
    "The webhook's tenant; the key's own if it is left out.",
)];

pub(super) const DEAD_LETTER_QUERY: &[Parameter] = &[parameter(
    "limit",
    r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#,
    "How many.",
)];
pub(super) const INBOX_QUERY: &[Parameter] = &[
    parameter("kind", r#"{"type":"string"}"#, "Only interrupts of this kind."),
    parameter("workflowId", r#"{"type":"string"}"#, "Only those of runs of this workflow."),
    parameter("runId", r#"{"type":"string"}"#, "Only those of this run."),
    parameter("rosterId", r#"{"type":"string"}"#, "Only those of this standing member's runs."),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

pub(super) const PACK_QUERY: &[Parameter] = &[parameter(
    "q",
    r#"{"type":"string"}"#,
    "Words that the name, the description or a keyword must hold; empty finds all.",
)];

pub(super) const CATALOG_QUERY: &[Parameter] = &[
    parameter(
        "limit",
        r#"{"type":"integer","minimum":1,"maximum":200,"default":200}"#,
        "How many at most.",
    ),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

pub(super) const INSTALL_QUERY: &[Parameter] = &[
    parameter(
        "allowUnsigned",
        r#"{"type":"string","enum":["1"]}"#,
        "Let in a pack whose contents nothing proves, as unverified; needs the scope admin.",
    ),
    parameter(
        "integrity",
        r#"{"type":"string","pattern":"^(sha256-[A-Za-z0-9+/]{43}=|sha512-[A-Za-z0-9+/]{86}==)$"}"#,
        "The digest that the archive must have, as its publisher announced it.",
    ),
];

pub(super) const ACTIVITY_QUERY: &[Parameter] = &[
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

pub(super) const WORK_QUERY: &[Parameter] = &[parameter(
    "state",
    r#"{"type":"string","enum":["todo","doing","done"]}"#,
    "Only items in this state.",
)];

pub(super) const TRIGGER_DEAD_LETTER_QUERY: &[Parameter] = &[
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
    parameter("cursor", r#"{"type":"string"}"#, "The cursor of the page before."),
];

pub(super) const SCHEDULE_QUERY: &[Parameter] = &[
    parameter("workflowId", r#"{"type":"string"}"#, "Only schedules of this workflow."),
    parameter("rosterId", r#"{"type":"string"}"#, "Only schedules of this member."),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

pub(super) const NEXT_QUERY: &[Parameter] = &[parameter(
    "count",
    r#"{"type":"integer","minimum":1,"maximum":1000,"default":10}"#,
    "How many.",
)];

pub(super) const MEMORY_QUERY: &[Parameter] = &[
    parameter("scopeId", r#"{"type":"string"}"#, "Only entries of this scope or reference."),
    parameter("tag", r#"{"type":"string"}"#, "Only entries with this tag."),
    parameter("text", r#"{"type":"string"}"#, "Only entries in which all of these words occur."),
    parameter("limit", r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#, "How many."),
    parameter("cursor", r#"{"type":"string"}"#, "The nextCursor of the page before."),
];

pub(super) const FILES_QUERY: &[Parameter] =
    &[parameter("prefix", r#"{"type":"string"}"#, "Only files whose path begins so.")];

pub(super) const FILE_QUERY: &[Parameter] = &[parameter(
    "version",
    r#"{"type":"integer","minimum":1}"#,
    "The file as it was at this version.",
)];

pub(super) const TOOLS_QUERY: &[Parameter] = &[parameter(
    "source",
    r#"{"type":"string","enum":["node-pack","workflow","mcp","connector","host-extension"]}"#,
    "Only tools of this source.",
)];

pub(super) const PROMPTS_QUERY: &[Parameter] = &[
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

pub(super) const PROMPT_QUERY: &[Parameter] = &[
    parameter("version", r#"{"type":"string"}"#, "This version; the newest if it is left out."),
    parameter("workspaceId", r#"{"type":"string"}"#, "The key's own workspace, or none."),
];

pub(super) const DEPARTMENT_QUERY: &[Parameter] = &[parameter(
    "recursive",
    r#"{"type":"boolean","default":true}"#,
    "Whether departments below it count too.",
)];

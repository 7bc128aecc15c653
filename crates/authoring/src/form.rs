//! The form of a workflow as people write it. Everything that the protocol's canonical form has is in it, too.

use crate::shape::{Field, Shape};

pub(crate) const TRIGGER_RULES: &[&str] =
    &["all_success", "any_success", "all_complete", "none_failed", "any_failed"];
pub(crate) const VARIABLE_TYPES: &[&str] = &["string", "number", "boolean", "object", "array"];
const TRIGGER_TYPES: &[&str] = &[
    "manual",
    "schedule",
    "webhook",
    "event",
    "artifact",
    "canvas",
    "envelope",
    "command",
    "chat-message",
    "channel-write",
];

const TEXTS: Shape = Shape::List(&Shape::Text);
const POSITION: Shape = Shape::Open(&[
    Field::new("x", Shape::Number, "from the left").required(),
    Field::new("y", Shape::Number, "from the top").required(),
]);
const CONDITION: Shape = Shape::Either(&[
    Shape::Text,
    Shape::Record(&[
        Field::new(
            "type",
            Shape::OneOf(&["expression", "equals", "notEquals", "contains", "regex"]),
            "how left and right are compared, or expression",
        ),
        Field::new("left", Shape::Text, "a path into the outputs of the node that the edge leaves"),
        Field::new("right", Shape::Any, "what is found there is compared with this"),
        Field::new("expression", Shape::Text, "an expression over the outputs of that node"),
    ]),
]);
const LINK: Shape = Shape::Either(&[
    Shape::Text,
    Shape::Record(&[
        Field::new("node", Shape::Text, "id of the other node").required(),
        Field::new("when", CONDITION, "follow the edge only if this holds"),
        Field::new("rule", Shape::OneOf(TRIGGER_RULES), "when the later node may run"),
        Field::new("output", Shape::Text, "which output of the earlier node goes along"),
        Field::new("input", Shape::Text, "which port of the later node takes it"),
        Field::new("label", Shape::Text, "for pictures"),
    ]),
]);
const LINKS: Shape = Shape::Either(&[
    Shape::Text,
    Shape::List(&LINK),
    Shape::Record(&[
        Field::new("node", Shape::Text, "id of the other node").required(),
        Field::new("when", CONDITION, "follow the edge only if this holds"),
        Field::new("rule", Shape::OneOf(TRIGGER_RULES), "when the later node may run"),
        Field::new("output", Shape::Text, "which output of the earlier node goes along"),
        Field::new("input", Shape::Text, "which port of the later node takes it"),
        Field::new("label", Shape::Text, "for pictures"),
    ]),
]);
const AGENT: Shape = Shape::Either(&[
    Shape::Text,
    Shape::Record(&[
        Field::new("agentId", Shape::Text, "id of the agent").required(),
        Field::new("name", Shape::Text, "what it is called here"),
        Field::new("modelClass", Shape::Text, "what kind of model it needs"),
        Field::new("memoryRef", Shape::Text, "where it remembers"),
        Field::new("version", Shape::Text, "an exact version"),
        Field::new("channel", Shape::Text, "a channel instead of a version"),
        Field::new("sourceManifestId", Shape::Text, "the manifest that it comes from"),
    ]),
]);

pub(crate) const NODE: &[Field] = &[
    Field::new("id", Shape::Text, "name of the node, unique in the workflow"),
    Field::new("type", Shape::Text, "what the node does; `callboard nodes list` shows all types"),
    Field::new("typeId", Shape::Text, "the same as `type`, as the protocol calls it"),
    Field::new("agent", AGENT, "the agent that does it; the type is then core.identity"),
    Field::new("name", Shape::Text, "what people see; the id, where there is none"),
    Field::new("inputs", Shape::Object, "port: value, or ${vars.x}, or ${nodes.id.output}"),
    Field::new("config", Shape::Object, "what the type is set to"),
    Field::new("after", LINKS, "the nodes that must be done before"),
    Field::new("next", LINKS, "the nodes that come after"),
    Field::new("position", POSITION, "where an editor draws it"),
    Field::new("credentialsRef", Shape::Text, "a secret of the host"),
    Field::new("settings", Shape::Object, "maxRetries and others"),
    Field::new("outputRole", Shape::OneOf(&["primary", "secondary"]), "how much it counts"),
    Field::new("disabled", Shape::Bool, "whether it is left out"),
    Field::new("notes", Shape::Text, "for those who read the workflow"),
    Field::new("groupId", Shape::Text, "the group that it is drawn in"),
    Field::new("envelopeContract", Shape::Object, "what its envelopes must be"),
    Field::new("artifactType", Shape::Text, "what it makes"),
    Field::new("cardType", Shape::Text, "how its result is shown"),
    Field::new("outputSensitivity", Shape::Map(&Shape::Bool), "outputs that are masked"),
];

pub(crate) const EDGE: &[Field] = &[
    Field::new("id", Shape::Text, "name of the edge"),
    Field::new("from", Shape::Text, "id of the node that it leaves"),
    Field::new("to", Shape::Text, "id of the node that it enters"),
    Field::new("sourceNodeId", Shape::Text, "the same as `from`"),
    Field::new("targetNodeId", Shape::Text, "the same as `to`"),
    Field::new("sourceOutput", Shape::Text, "which output goes along"),
    Field::new("targetInput", Shape::Text, "which port takes it"),
    Field::new("when", CONDITION, "follow it only if this holds"),
    Field::new("condition", CONDITION, "the same as `when`"),
    Field::new("label", Shape::Text, "for pictures"),
    Field::new("rule", Shape::OneOf(TRIGGER_RULES), "when the target may run"),
    Field::new("triggerRule", Shape::OneOf(TRIGGER_RULES), "the same as `rule`"),
];

const TRIGGER: &[Field] = &[
    Field::new("id", Shape::Text, "name of the trigger; its type, where there is none"),
    Field::new("type", Shape::OneOf(TRIGGER_TYPES), "what starts the workflow"),
    Field::new(
        "schedule",
        Shape::Either(&[Shape::Text, Shape::Object]),
        "a cron line, or {cron, timezone, overlap, inputs}: short for a trigger of type schedule",
    ),
    Field::new("name", Shape::Text, "what people see"),
    Field::new("description", Shape::Text, "what it is for"),
    Field::new("config", Shape::Object, "what the type is set to"),
    Field::new("enabled", Shape::Bool, "true, where nothing is said"),
    Field::new("nodeId", Shape::Text, "the node that it starts"),
    Field::new("eventType", Shape::Text, "the event that it waits for"),
];

pub(crate) const VARIABLE: &[Field] = &[
    Field::new("name", Shape::Text, "name of the variable"),
    Field::new("type", Shape::OneOf(VARIABLE_TYPES), "what kind of value it holds"),
    Field::new("description", Shape::Text, "what it is for"),
    Field::new("required", Shape::Bool, "whether a run must be given it"),
    Field::new("default", Shape::Any, "what it is where a run is given nothing"),
    Field::new("defaultValue", Shape::Any, "the same as `default`"),
    Field::new("sensitive", Shape::Bool, "whether it is masked"),
    Field::new("format", Shape::Text, "advice for editors"),
];

const CHANNEL: &[Field] = &[
    Field::new("reducer", Shape::Text, "how writes fold into the value").required(),
    Field::new("schema", Shape::Object, "a JSON Schema of the value"),
    Field::new("default", Shape::Any, "the value before the first write"),
    Field::new("maxSize", Shape::Whole(1), "how many entries are kept"),
    Field::new("ttlMs", Shape::Whole(1), "how long entries are kept"),
    Field::new("options", Shape::Object, "of the reducer"),
    Field::new("access", Shape::Any, "public, private, or lists of readers and writers"),
    Field::new("schemaVersion", Shape::Whole(1), "version of the schema"),
    Field::new("compatibleWith", Shape::List(&Shape::Whole(1)), "older versions that still fit"),
    Field::new("sensitive", Shape::Bool, "whether it is masked"),
];

const GROUP: &[Field] = &[
    Field::new("id", Shape::Text, "name of the group").required(),
    Field::new("name", Shape::Text, "what people see").required(),
    Field::new("nodeIds", TEXTS, "its nodes").required(),
    Field::new("position", POSITION, "where it is drawn").required(),
    Field::new("size", Shape::Object, "width and height").required(),
    Field::new("color", Shape::Text, "how it is drawn"),
    Field::new("collapsed", Shape::Bool, "whether it is drawn small"),
];

const METADATA: &[Field] = &[
    Field::new("tags", TEXTS, "what lists are filtered by"),
    Field::new(
        "complianceClass",
        Shape::OneOf(&["public", "pii", "phi", "pci", "regulated"]),
        "what kind of data it works with",
    ),
    Field::new("complianceConfig", Shape::Object, "how that data is masked"),
    Field::new("requiresAgentId", Shape::Text, "whose handoff the inputs must satisfy"),
    Field::new("memorySummary", Shape::Text, "where each completed run leaves a summary in memory"),
];

const SETTINGS: &[Field] = &[
    Field::new("timeout", Shape::Whole(0), "milliseconds that a run may take; 0 is no limit"),
    Field::new("maxRetries", Shape::Whole(0), "how often a failed node is tried again"),
    Field::new("logLevel", Shape::OneOf(&["debug", "info", "warn", "error"]), "how much is logged"),
    Field::new("maxLoopbackIterations", Shape::Whole(1), "how often a loop may go round"),
];

pub(crate) const WORKFLOW: &[Field] = &[
    Field::new("id", Shape::Text, "name of the workflow: a-z, 0-9, - and _"),
    Field::new("name", Shape::Text, "what people see; the id, where there is none"),
    Field::new(
        "version",
        Shape::Either(&[Shape::Text, Shape::Number]),
        "any text; 1.0, where there is none",
    ),
    Field::new("description", Shape::Text, "what it is for"),
    Field::new(
        "nodes",
        Shape::Either(&[Shape::Map(&Shape::Record(NODE)), Shape::List(&Shape::Record(NODE))]),
        "the steps: a map of id: node, or a list",
    )
    .required(),
    Field::new(
        "edges",
        Shape::List(&Shape::Either(&[Shape::Text, Shape::Record(EDGE)])),
        "the order of the steps: `a -> b`, or {from, to, when}",
    ),
    Field::new(
        "variables",
        Shape::Either(&[
            Shape::Map(&Shape::Either(&[Shape::OneOf(VARIABLE_TYPES), Shape::Record(VARIABLE)])),
            Shape::List(&Shape::Record(VARIABLE)),
        ]),
        "what a run is given and keeps: a map of name: type, or a list",
    ),
    Field::new(
        "triggers",
        Shape::List(&Shape::Either(&[Shape::OneOf(TRIGGER_TYPES), Shape::Record(TRIGGER)])),
        "what starts it beside people",
    ),
    Field::new("metadata", Shape::Open(METADATA), "what is known about it"),
    Field::new("settings", Shape::Open(SETTINGS), "how its runs behave"),
    Field::new("channels", Shape::Map(&Shape::Record(CHANNEL)), "values that many nodes write to"),
    Field::new("configurableSchema", Shape::Object, "a JSON Schema of `configurable`"),
    Field::new("type", Shape::Text, "what kind of workflow it is"),
    Field::new("isActive", Shape::Bool, "advice for editors"),
    Field::new(
        "status",
        Shape::OneOf(&["active", "inactive", "draft", "archived"]),
        "advice for editors",
    ),
    Field::new("tenantId", Shape::Text, "where it comes from"),
    Field::new("scopeId", Shape::Text, "where it comes from"),
    Field::new("slug", Shape::Text, "its name in addresses"),
    Field::new("groups", Shape::List(&Shape::Record(GROUP)), "for pictures"),
    Field::new(
        "defaults",
        Shape::Record(&[Field::new("promptRefs", Shape::Object, "prompts of its agents")]),
        "what its nodes use where they say nothing",
    ),
    Field::new("acceptsInheritedArtifacts", Shape::List(&Shape::Object), "of a parent"),
    Field::new("createdAt", Shape::Text, "when it was made"),
    Field::new("updatedAt", Shape::Text, "when it was changed"),
];

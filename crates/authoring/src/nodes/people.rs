//! Types that ask people, or wait for something outside.

use super::{Field, NodeType, Outputs};
use crate::shape::Shape;

const GROUP: &str = "People";

const TIMEOUT: Field =
    Field::new("timeoutMs", Shape::Whole(0), "how long it waits; without it, as long as it takes");
const RESUME: Field = Field::new("resumeSchema", Shape::Object, "a JSON Schema of the answer");

pub(super) const TYPES: &[NodeType] = &[
    NodeType {
        type_id: "core.approvalGate",
        group: GROUP,
        summary: "Asks somebody to approve and waits; accepted, the run goes on; rejected, the node fails with `approval_rejected`",
        config: &[
            Field::new("title", Shape::Text, "what is asked; the node's name, where there is none"),
            Field::new("description", Shape::Text, "more about it"),
            Field::new(
                "actions",
                Shape::List(&Shape::OneOf(&["accept", "reject", "refine", "edit-accept", "ask"])),
                "what can be answered; accept and reject, where nothing is said",
            ),
            Field::new("artifactId", Shape::Text, "what it is about; the node's id"),
            Field::new("artifactType", Shape::Text, "what kind of thing that is"),
            Field::new("artifactData", Shape::Any, "what is shown"),
            Field::new("requiredApprovals", Shape::Whole(1), "how many must accept"),
            Field::new(
                "rejectionPolicy",
                Shape::OneOf(&["single-veto", "majority"]),
                "how many must reject",
            ),
            Field::new("approversList", Shape::Any, "who is asked"),
            Field::new("approverGroupRefs", Shape::List(&Shape::Text), "which groups are asked"),
            Field::new("approverRoleRefs", Shape::List(&Shape::Text), "which roles are asked"),
            Field::new("audience", Shape::Any, "whom it is shown to"),
            Field::new(
                "profile",
                Shape::Text,
                "openwop-interrupt-auth-required: only a caller with a key may answer",
            ),
            TIMEOUT,
            RESUME,
        ],
        inputs: &[
            Field::new("artifact", Shape::Any, "what is shown, and may be edited: the draft"),
            Field::new("title", Shape::Text, "counts before the config"),
            Field::new("description", Shape::Text, "counts before the config"),
            Field::new("resumeSchema", Shape::Object, "counts before the config"),
        ],
        outputs: Outputs::Open(
            "`artifactData`, what was accepted, as it was or as it was edited; `action`, and what else the answer says",
        ),
        example: "approve:\n  type: core.approvalGate\n  config:\n    title: Send this letter?\n    actions: [accept, edit-accept, reject]\n  inputs:\n    artifact: ${nodes.write.answer}\n",
    },
    NodeType {
        type_id: "core.clarificationGate",
        group: GROUP,
        summary: "Asks somebody questions and waits for the answers",
        config: &[
            Field::new("questions", Shape::List(&Shape::Object), "each with `id` and `question`")
                .required(),
            Field::new("contextType", Shape::Text, "what they are about"),
            TIMEOUT,
            RESUME,
        ],
        inputs: &[],
        outputs: Outputs::Open("`answers`, by the ids of the questions"),
        example: "ask:\n  type: core.clarificationGate\n  config:\n    questions:\n      - id: colour\n        question: Which colour?\n",
    },
    NodeType {
        type_id: "core.interrupt",
        group: GROUP,
        summary: "Stops until somebody, or something outside, answers",
        config: &[
            Field::new(
                "kind",
                Shape::OneOf(&[
                    "approval",
                    "clarification",
                    "external-event",
                    "low-confidence",
                    "custom",
                ]),
                "what kind of answer it waits for",
            )
            .required(),
            Field::new("data", Shape::Object, "what the kind needs, and what is shown"),
            TIMEOUT,
            RESUME,
        ],
        inputs: &[],
        outputs: Outputs::Open("the answer"),
        example: "paid:\n  type: core.interrupt\n  config:\n    kind: external-event\n    data:\n      eventType: payment\n      correlation:\n        orderId: order-1\n",
    },
    NodeType {
        type_id: "core.conversationGate",
        group: GROUP,
        summary: "Talks with somebody, turn by turn",
        config: &[
            Field::new(
                "lifecycle",
                Shape::OneOf(&["open-exchange-close"]),
                "the only one there is",
            ),
            Field::new("title", Shape::Text, "what it is about; the node's name"),
            Field::new("initialPrompt", Shape::Text, "what is said first"),
            Field::new("prompts", Shape::List(&Shape::Text), "what each turn asks"),
            Field::new("turnCount", Shape::Whole(1), "how many turns, up to 100"),
            Field::new("outcomeSchema", Shape::Object, "a JSON Schema of what comes of it"),
            Field::new("agentId", Shape::Text, "the agent that speaks"),
            Field::new("channel", Shape::Text, "a channel with the reducer message for the turns"),
            Field::new("timeoutMs", Shape::Whole(0), "for the whole conversation"),
            Field::new("mockAutoResume", Shape::Bool, "for the protocol's test suite alone"),
        ],
        inputs: &[],
        outputs: Outputs::Open("what was said"),
        example: "talk:\n  type: core.conversationGate\n  config:\n    title: Plan the week\n    prompts: [What is first?, And then?]\n",
    },
];

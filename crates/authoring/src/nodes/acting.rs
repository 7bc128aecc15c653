//! Types that ask models, keep files, and let agents work together.

use super::{Field, NodeType, Outputs};
use crate::shape::Shape;

const MODELS: &str = "Models and agents";
const FILES: &str = "Files";

pub(super) const TYPES: &[NodeType] = &[
    NodeType {
        type_id: "core.ai.structuredOutput",
        group: MODELS,
        summary: "Asks a model for an answer that matches a JSON Schema; asks again where it does not",
        config: &[
            Field::new("outputSchema", Shape::Any, "what the answer must match"),
            Field::new("systemPrompt", Shape::Text, "what the model is told to be"),
            Field::new("userPrompt", Shape::Text, "what it is asked"),
            Field::new("provider", Shape::Text, "whose model; the host's, where nothing is said"),
            Field::new("model", Shape::Text, "which model"),
            Field::new("maxTokens", Shape::Whole(1), "the longest answer"),
            Field::new("maxOutputTokens", Shape::Whole(1), "the same as `maxTokens`"),
            Field::new("temperature", Shape::Number, "how freely it answers"),
            Field::new("seed", Shape::Whole(0), "for models that take one"),
            Field::new("envelopeType", Shape::Text, "what the answer is called"),
            Field::new("fallbackModel", Shape::Object, "{provider, model} where the first fails"),
            Field::new(
                "requiredModelCapabilities",
                Shape::List(&Shape::Text),
                "what the model must be able to do",
            ),
        ],
        inputs: &[
            Field::new("prompt", Shape::Text, "what it is asked, beside the prompts of the config"),
            Field::new("messages", Shape::List(&Shape::Object), "what was said: role and content"),
        ],
        outputs: Outputs::Open("the fields of the answer"),
        example: "read:\n  type: core.ai.structuredOutput\n  config:\n    systemPrompt: You sort letters.\n    outputSchema:\n      type: object\n      required: [queue]\n      properties:\n        queue: { enum: [billing, support] }\n  inputs:\n    prompt: ${vars.letter}\n",
    },
    NodeType {
        type_id: "core.ai.callPrompt",
        group: MODELS,
        summary: "Streams text of the protocol's mock provider; only test keys can ask for one (`configurable.mockProvider`)",
        config: &[
            Field::new("promptId", Shape::Text, "the prompt"),
            Field::new("expectsStreaming", Shape::Bool, "whether the text is streamed"),
        ],
        inputs: &[Field::new("any name", Shape::Any, "what the prompt needs")],
        outputs: Outputs::Open("the text"),
        example: "say:\n  type: core.ai.callPrompt\n  config:\n    promptId: brief\n",
    },
    NodeType {
        type_id: "core.orchestrator.supervisor",
        group: MODELS,
        summary: "Decides which workers go next; an agent decides, or a plan; `core.dispatch` carries it out",
        config: &[
            Field::new("agentId", Shape::Text, "the agent that decides"),
            Field::new("mockDecisions", Shape::List(&Shape::Object), "a plan instead of an agent"),
            Field::new("mockDispatchPlan", Shape::List(&Shape::Object), "the same, for a dispatch"),
            Field::new("mockPendingDecision", Shape::Object, "one decision that waits"),
            Field::new("mockConfidence", Shape::Any, "how sure the plan is"),
        ],
        inputs: &[Field::new("any name", Shape::Any, "what it knows")],
        outputs: Outputs::Open("the decision"),
        example: "lead:\n  agent: community.callboard.starter.lead\n  type: core.orchestrator.supervisor\n  next: workers\n",
    },
    NodeType {
        type_id: "core.dispatch",
        group: MODELS,
        summary: "Carries out a supervisor's decision: starts the runs of its workers and waits for them",
        config: &[
            Field::new("askUserRouting", Shape::Text, "where questions go; auto"),
            Field::new("workerDispatchModel", Shape::Text, "child-run"),
            Field::new(
                "fanOutPolicy",
                Shape::OneOf(&["sequential", "reject", "parallel"]),
                "several workers at once",
            ),
            Field::new("iterationCap", Shape::Whole(1), "how many turns"),
            Field::new(
                "inputMapping",
                Shape::Map(&Shape::Text),
                "a worker's variable: a variable of this run",
            ),
            Field::new(
                "outputMapping",
                Shape::Map(&Shape::Text),
                "a variable of this run: a worker's variable",
            ),
            Field::new("perWorkerInputMappings", Shape::Object, "the same, by worker"),
            Field::new("perWorkerOutputMappings", Shape::Object, "the same, by worker"),
            Field::new("joinPolicy", Shape::Object, "when parallel workers are done"),
            Field::new("maxConcurrency", Shape::Whole(1), "how many of them at once"),
        ],
        inputs: &[],
        outputs: Outputs::Open("what the workers came to"),
        example: "workers:\n  type: core.dispatch\n  config:\n    fanOutPolicy: parallel\n  next: lead\n",
    },
    NodeType {
        type_id: "callboard.files",
        group: FILES,
        summary: "Lists, reads and writes files of the run's workspace",
        config: &[
            Field::new("action", Shape::OneOf(&["list", "read", "write"]), "what it does")
                .required(),
            Field::new("prefix", Shape::Text, "list: how paths begin"),
            Field::new("path", Shape::Text, "read, write: the file"),
            Field::new("content", Shape::Text, "write: what is in it"),
            Field::new("contentType", Shape::Text, "write: what kind of file"),
            Field::new(
                "expectedVersion",
                Shape::Whole(0),
                "write: only over this version; 0 is none",
            ),
        ],
        inputs: &[
            Field::new("prefix", Shape::Text, "counts before the config"),
            Field::new("path", Shape::Text, "counts before the config"),
            Field::new("content", Shape::Text, "counts before the config"),
            Field::new("contentType", Shape::Text, "counts before the config"),
            Field::new("expectedVersion", Shape::Whole(0), "counts before the config"),
        ],
        outputs: Outputs::Fixed(&[
            Field::new("files", Shape::List(&Shape::Object), "list: what was found"),
            Field::new("file", Shape::Object, "read, write: the file; null, where there is none"),
        ]),
        example: "save:\n  type: callboard.files\n  config:\n    action: write\n    path: brief.md\n  inputs:\n    content: ${nodes.write.answer}\n",
    },
    NodeType {
        type_id: "callboard.tool",
        group: MODELS,
        summary: "Calls a tool of the host by its name, under the scopes of whoever made the run",
        config: &[
            Field::new("tool", Shape::Text, "the tool's name, as `callboard tools list` shows it")
                .required(),
            Field::new("timeoutMs", Shape::Whole(100), "how long it may take"),
        ],
        inputs: &[Field::new("arguments", Shape::Object, "what the tool is given")],
        outputs: Outputs::Fixed(&[
            Field::new("result", Shape::Any, "what the tool answered"),
            Field::new("isError", Shape::Bool, "whether it says that it went wrong"),
            Field::new("durationMs", Shape::Whole(0), "how long it took"),
        ]),
        example: "look:\n  type: callboard.tool\n  config:\n    tool: openwop:core.openwop.http.fetch\n  inputs:\n    arguments:\n      url: https://example.org/\n",
    },
];

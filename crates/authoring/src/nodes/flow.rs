//! Types that order other steps and hold values. Nothing outside is touched.

use super::{Field, NodeType, Outputs};
use crate::shape::Shape;

const GROUP: &str = "Order and values";

const ANY_PORTS: &[Field] =
    &[Field::new("any name", Shape::Any, "every port is passed on under its name")];

const fn passing(type_id: &'static str, summary: &'static str) -> NodeType {
    NodeType {
        type_id,
        group: GROUP,
        summary,
        config: &[],
        inputs: ANY_PORTS,
        outputs: Outputs::Ports,
        example: "",
    }
}

pub(super) const TYPES: &[NodeType] = &[
    NodeType {
        example: "begin:\n  type: core.start\n",
        ..passing("core.start", "Marks where a workflow begins; passes its inputs on")
    },
    NodeType {
        example: "end:\n  type: core.end\n  after: write\n  inputs:\n    answer: ${nodes.write.answer}\n",
        ..passing("core.end", "Marks where a workflow ends; passes its inputs on")
    },
    NodeType {
        example: "fan:\n  type: core.parallel\n  next: [one, other]\n",
        ..passing(
            "core.parallel",
            "Marks where branches begin that run at once; passes its inputs on",
        )
    },
    NodeType {
        type_id: "core.merge",
        group: GROUP,
        summary: "Joins branches: waits for all of them, or goes on with the first",
        config: &[Field::new("mode", Shape::OneOf(&["all", "any"]), "all, where nothing is said")],
        inputs: ANY_PORTS,
        outputs: Outputs::Ports,
        example: "join:\n  type: core.merge\n  after: [one, other]\n  config:\n    mode: any\n",
    },
    NodeType {
        type_id: "core.noop",
        group: GROUP,
        summary: "Does nothing",
        config: &[],
        inputs: &[],
        outputs: Outputs::Fixed(&[]),
        example: "done:\n  type: core.noop\n",
    },
    NodeType {
        type_id: "core.identity",
        group: GROUP,
        summary: "Passes its inputs on, and makes each a variable of the same name; with `agent`, the agent does the work, and its inputs are the task; with `memoryAction`, it remembers or recalls",
        config: &[
            Field::new(
                "memoryAction",
                Shape::Text,
                "write, write-then-read, list, consolidate, compact or distill",
            ),
            Field::new("memoryRef", Shape::Text, "where it remembers; the agent's, or `default`"),
            Field::new("tag", Shape::Text, "list: only entries with this tag"),
            Field::new("text", Shape::Text, "list: only entries with this word"),
            Field::new("limit", Shape::Whole(0), "list: how many"),
        ],
        inputs: ANY_PORTS,
        outputs: Outputs::Ports,
        example: "greet:\n  type: core.identity\n  inputs:\n    greeting: Hello, ${vars.name}!\n",
    },
    NodeType {
        type_id: "core.delay",
        group: GROUP,
        summary: "Waits; the run holds nothing meanwhile and survives restarts",
        config: &[
            Field::new("durationMs", Shape::Number, "milliseconds, up to a year"),
            Field::new("ms", Shape::Number, "the same"),
            Field::new("delayMs", Shape::Number, "the same"),
        ],
        inputs: &[Field::new("delayMs", Shape::Number, "milliseconds; counts before the config")],
        outputs: Outputs::Fixed(&[]),
        example: "wait:\n  type: core.delay\n  config:\n    durationMs: 60000\n",
    },
    NodeType {
        type_id: "core.fail",
        group: GROUP,
        summary: "Fails, with a code and a message of your own",
        config: &[
            Field::new("code", Shape::Text, "for programs"),
            Field::new("message", Shape::Text, "for people"),
            Field::new("retryable", Shape::Bool, "whether it is tried again"),
        ],
        inputs: &[],
        outputs: Outputs::Fixed(&[]),
        example: "stop:\n  type: core.fail\n  config:\n    code: no_stock\n    message: There is nothing left to send.\n",
    },
    NodeType {
        type_id: "core.setVariable",
        group: GROUP,
        summary: "Sets a variable of the run",
        config: &[
            Field::new("name", Shape::Text, "the variable"),
            Field::new("variableName", Shape::Text, "the same as `name`"),
            Field::new("value", Shape::Any, "its new value"),
        ],
        inputs: &[Field::new("value", Shape::Any, "its new value; counts before the config")],
        outputs: Outputs::Fixed(&[Field::new("value", Shape::Any, "what it was set to")]),
        example: "keep:\n  type: core.setVariable\n  config:\n    name: answer\n  inputs:\n    value: ${nodes.write.answer}\n",
    },
    NodeType {
        type_id: "core.getVariable",
        group: GROUP,
        summary: "Reads a variable of the run, or a channel",
        config: &[
            Field::new("name", Shape::Text, "the variable"),
            Field::new("variableName", Shape::Text, "the same as `name`"),
        ],
        inputs: &[],
        outputs: Outputs::Fixed(&[Field::new("value", Shape::Any, "null, where it is unset")]),
        example: "recall:\n  type: core.getVariable\n  config:\n    name: answer\n",
    },
    NodeType {
        type_id: "core.conditional",
        group: GROUP,
        summary: "Decides between roads: its output `result` is true or false, and the edges that leave it say which they want",
        config: &[Field::new(
            "condition",
            Shape::Any,
            "an expression, or {type, left, right} as on an edge",
        )],
        inputs: &[
            Field::new("condition", Shape::Any, "counts before the config"),
            Field::new("any name", Shape::Any, "names that the expression can use"),
        ],
        outputs: Outputs::Fixed(&[Field::new("result", Shape::Bool, "whether it holds")]),
        example: "big:\n  type: core.conditional\n  config:\n    condition: amount > 100\n  inputs:\n    amount: ${vars.amount}\n  next:\n    - node: ask\n      when: result\n    - node: pay\n      when: not result\n",
    },
    NodeType {
        type_id: "callboard.each",
        group: GROUP,
        summary: "Does the same with every item of a list: computes a body of steps at once, or runs a workflow for each, several side by side",
        config: &[
            Field::new(
                "body",
                Shape::List(&Shape::Object),
                "steps of types that only compute, each with `type`, `config` and `inputs`; `${item…}`, `${index}`, `${total}` and `${steps.ID.output}` are this item's",
            ),
            Field::new(
                "workflowId",
                Shape::Text,
                "the workflow that runs for each item, instead of a body",
            ),
            Field::new("itemAs", Shape::Text, "workflowId: the input that holds the item; item"),
            Field::new("indexAs", Shape::Text, "workflowId: the input that holds its index"),
            Field::new(
                "maxConcurrency",
                Shape::Whole(1),
                "workflowId: how many at once, up to 16; 4",
            ),
            Field::new(
                "collect",
                Shape::Text,
                "the one output that is collected; all, where none is named",
            ),
            Field::new(
                "onItemFailure",
                Shape::OneOf(&["fail", "collect"]),
                "whether one failure fails the node, or is told in `failures`",
            ),
        ],
        inputs: &[
            Field::new(
                "items",
                Shape::List(&Shape::Any),
                "the list: up to 100,000 items, 1,000 for a workflow",
            )
            .required(),
            Field::new("any name", Shape::Any, "workflowId: given to every run"),
        ],
        outputs: Outputs::Fixed(&[
            Field::new(
                "results",
                Shape::List(&Shape::Any),
                "what each item came to, in their order",
            ),
            Field::new(
                "failures",
                Shape::List(&Shape::Object),
                "index and error of those that failed",
            ),
            Field::new("count", Shape::Whole(0), "how many there were"),
        ]),
        example: "names:\n  type: callboard.each\n  inputs:\n    items: ${vars.letters}\n  config:\n    collect: text\n    body:\n      - type: core.openwop.data.string-case\n        config: { mode: upper }\n        inputs: { text: \"${item.name}\" }\n",
    },
    NodeType {
        type_id: "core.loop",
        group: GROUP,
        summary: "Goes round once for each item, or a number of times; an edge leads back to it",
        config: &[
            Field::new("items", Shape::List(&Shape::Any), "what it goes over"),
            Field::new("count", Shape::Whole(0), "how often, where there are no items"),
        ],
        inputs: &[
            Field::new("items", Shape::List(&Shape::Any), "counts before the config"),
            Field::new("count", Shape::Whole(0), "counts before the config"),
        ],
        outputs: Outputs::Fixed(&[
            Field::new("item", Shape::Any, "the item of this round"),
            Field::new("index", Shape::Whole(0), "the number of this round, from 0"),
        ]),
        example: "each:\n  type: core.loop\n  inputs:\n    items: ${vars.letters}\n  next: sort\n",
    },
    NodeType {
        type_id: "core.channelWrite",
        group: GROUP,
        summary: "Writes to a channel, whose reducer folds the write into its value",
        config: &[
            Field::new("channelName", Shape::Text, "the channel"),
            Field::new("channel", Shape::Text, "the same as `channelName`"),
            Field::new("value", Shape::Any, "what is written"),
            Field::new("reducer", Shape::Text, "where the channel is not declared; append"),
            Field::new("ttlMs", Shape::Whole(0), "where the channel is not declared"),
            Field::new("maxSize", Shape::Whole(1), "where the channel is not declared"),
        ],
        inputs: &[Field::new("value", Shape::Any, "what is written; counts before the config")],
        outputs: Outputs::Open("what was written"),
        example: "note:\n  type: core.channelWrite\n  config:\n    channelName: notes\n  inputs:\n    value: ${nodes.sort.queue}\n",
    },
    NodeType {
        type_id: "core.subWorkflow",
        group: GROUP,
        summary: "Starts a run of another workflow and waits for its end",
        config: &[
            Field::new("workflowId", Shape::Text, "the other workflow").required(),
            Field::new("waitForCompletion", Shape::Bool, "true; nothing else is supported"),
            Field::new(
                "onChildFailure",
                Shape::OneOf(&["fail-parent", "absorb"]),
                "fail-parent, where nothing is said",
            ),
            Field::new(
                "inputMapping",
                Shape::Map(&Shape::Text),
                "its variable: a variable of this run",
            ),
            Field::new(
                "outputMapping",
                Shape::Map(&Shape::Text),
                "a variable of this run: its variable",
            ),
            Field::new("propagateCancellation", Shape::Bool, "true, where nothing is said"),
            Field::new(
                "memoryScopeIsolation",
                Shape::OneOf(&["inherit", "isolated"]),
                "whose memory it has",
            ),
            Field::new("outputAttestation", Shape::Object, "how far it is trusted"),
        ],
        inputs: &[],
        outputs: Outputs::Fixed(&[
            Field::new("childRunId", Shape::Text, "the other run"),
            Field::new("childStatus", Shape::Text, "completed, failed or cancelled"),
        ]),
        example: "digest:\n  type: core.subWorkflow\n  config:\n    workflowId: review-digest\n    inputMapping:\n      text: letter\n",
    },
];

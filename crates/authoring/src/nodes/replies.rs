//! Types that answer where a delivery came from.

use super::{Field, NodeType, Outputs};
use crate::shape::Shape;

const REPLIES: &str = "Replies";

const POSTED: &[Field] = &[
    Field::new("posted", Shape::Bool, "whether it is there"),
    Field::new("error", Shape::Text, "the receiver's reason, where it is not"),
];

pub(super) const TYPES: &[NodeType] = &[
    NodeType {
        type_id: "callboard.reply.email",
        group: REPLIES,
        summary: "Answers a mail in its thread, through the provider that `core.openwop.integration.email-send` uses",
        config: &[
            Field::new("from", Shape::Text, "the address that the answer comes from").required(),
            Field::new("replyTo", Shape::Text, "where answers to the answer go"),
            Field::new("provider", Shape::OneOf(&["resend", "sendgrid"]), "who delivers it"),
            Field::new("recipients", Shape::List(&Shape::Text), "the only addresses it may go to"),
        ],
        inputs: &[
            Field::new("to", Shape::Text, "the address that is answered").required(),
            Field::new("inReplyTo", Shape::Text, "the name of the mail that is answered")
                .required(),
            Field::new("references", Shape::List(&Shape::Text), "the names of those before it"),
            Field::new("subject", Shape::Text, "its subject; `Re:` is added"),
            Field::new("text", Shape::Text, "the answer").required(),
            Field::new("html", Shape::Text, "the same as HTML"),
        ],
        outputs: Outputs::Fixed(&[
            Field::new("sent", Shape::Bool, "whether the provider took it"),
            Field::new("messageId", Shape::Text, "the provider's name for it"),
            Field::new("provider", Shape::Text, "who delivers it"),
            Field::new("error", Shape::Text, "the provider's reason, where it was not taken"),
        ]),
        example: "reply:\n  type: callboard.reply.email\n  credentialsRef: mail\n  config:\n    from: desk@example.org\n  inputs:\n    to: ${ctx.triggerData.email.from}\n    inReplyTo: ${ctx.triggerData.email.messageId}\n    subject: ${ctx.triggerData.email.subject}\n    text: ${vars.answer}\n",
    },
    NodeType {
        type_id: "callboard.reply.github",
        group: REPLIES,
        summary: "Comments on an issue or a pull request of GitHub, with the token that credentialsRef names",
        config: &[Field::new(
            "repositories",
            Shape::List(&Shape::Text),
            "the only repositories it comments in",
        )],
        inputs: &[
            Field::new("repository", Shape::Text, "owner, slash, name").required(),
            Field::new("number", Shape::Any, "of the issue or pull request").required(),
            Field::new("body", Shape::Text, "the comment").required(),
        ],
        outputs: Outputs::Fixed(&[
            POSTED[0],
            Field::new("url", Shape::Text, "where it is"),
            Field::new("commentId", Shape::Whole(0), "GitHub's name for it"),
            POSTED[1],
        ]),
        example: "reply:\n  type: callboard.reply.github\n  credentialsRef: github\n  config:\n    repositories: [acme/shop]\n  inputs:\n    repository: ${ctx.triggerData.webhook.body.repository.full_name}\n    number: ${ctx.triggerData.webhook.body.issue.number}\n    body: ${vars.answer}\n",
    },
    NodeType {
        type_id: "callboard.reply.slack",
        group: REPLIES,
        summary: "Posts a message in a thread of Slack, with the token that credentialsRef names",
        config: &[Field::new(
            "channels",
            Shape::List(&Shape::Text),
            "the only channels it posts to, by their ids",
        )],
        inputs: &[
            Field::new("channel", Shape::Text, "the channel's id").required(),
            Field::new("threadTs", Shape::Text, "the `ts` of the message that is answered"),
            Field::new("text", Shape::Text, "what is said").required(),
            Field::new("blocks", Shape::List(&Shape::Object), "the same as blocks of Slack"),
        ],
        outputs: Outputs::Fixed(&[
            POSTED[0],
            Field::new("ts", Shape::Text, "Slack's name for it"),
            Field::new("channel", Shape::Text, "where it is"),
            POSTED[1],
        ]),
        example: "reply:\n  type: callboard.reply.slack\n  credentialsRef: slack\n  inputs:\n    channel: ${ctx.triggerData.webhook.body.event.channel}\n    threadTs: ${ctx.triggerData.webhook.body.event.ts}\n    text: ${vars.answer}\n",
    },
];

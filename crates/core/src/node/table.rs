//! Every node type that this host runs, for people: what core computes and what is performed outside of it.
//! Agents, and the types that exist for conformance tests, are not among them.

/// A node type that authors may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeType {
    pub type_id: &'static str,
    /// A few words for a menu.
    pub title: &'static str,
    /// What a node of the type does, in a sentence.
    pub does: &'static str,
}

const fn node(type_id: &'static str, title: &'static str, does: &'static str) -> NodeType {
    NodeType { type_id, title, does }
}

/// Sorted by type id.
pub static NODE_TYPES: &[NodeType] = &[
    node(
        "callboard.each",
        "For each",
        "Does the same with every item of a list: computes a body of steps, or runs a workflow, several at once.",
    ),
    node(
        "callboard.files",
        "Files",
        "Lists, reads and writes the files of the run's workspace, with their versions.",
    ),
    node(
        "callboard.reply.email",
        "Answer a mail",
        "Answers a mail in its thread, with the key that credentialsRef names.",
    ),
    node(
        "callboard.reply.github",
        "Comment on GitHub",
        "Comments on an issue or a pull request, with the token that credentialsRef names.",
    ),
    node(
        "callboard.reply.slack",
        "Answer in Slack",
        "Posts a message in a thread of Slack, with the token that credentialsRef names.",
    ),
    node(
        "callboard.tool",
        "Call a tool",
        "Calls a tool of the host by its name, under the scopes of whoever made the run.",
    ),
    node(
        "core.ai.chatCompletion",
        "Chat with a model",
        "Asks a model to continue a conversation: its text, the tokens used and why it stopped.",
    ),
    node(
        "core.ai.toolCalling",
        "Let a model choose tools",
        "Asks a model that may request tools: its text and the calls that it wants; they are not made.",
    ),
    node(
        "core.approvalGate",
        "Approval",
        "Asks people to accept, edit or reject something, and waits.",
    ),
    node("core.channelWrite", "Write to a channel", "Writes a value into a channel of the run."),
    node(
        "core.clarificationGate",
        "Clarification",
        "Asks people questions, and waits for their answers.",
    ),
    node(
        "core.conditional",
        "Condition",
        "Says whether a condition holds: result, or with config.predicate the branch, as core.flow.if does.",
    ),
    node("core.conversationGate", "Conversation", "Talks with somebody, turn by turn."),
    node("core.crypto.hash", "Hash", "Digests a text: sha256, sha384 or sha512."),
    node(
        "core.crypto.hmac-sign",
        "Sign with HMAC",
        "Signs a text with a key that comes over a port, or with the secret that credentialsRef names.",
    ),
    node(
        "core.crypto.hmac-verify",
        "Verify an HMAC",
        "Says whether a signature is that of a text, compared in constant time.",
    ),
    node("core.delay", "Delay", "Waits for config.durationMs, or as core.flow.wait does."),
    node("core.dispatch", "Dispatch", "Carries out what a supervisor has decided."),
    node("core.end", "End", "Passes its inputs on as the run's outputs."),
    node("core.fail", "Fail", "Fails with the code and message of its configuration."),
    node(
        "core.files.delete",
        "Delete a file",
        "Removes a file of the run's workspace, for later runs.",
    ),
    node(
        "core.files.detect-mime",
        "Detect a media type",
        "The media type of a file, by its first bytes or its name.",
    ),
    node("core.files.from-base64", "From base64", "The text, or the hex digits, of base64."),
    node(
        "core.files.list",
        "List files",
        "The files and folders that the run sees in a folder of its workspace.",
    ),
    node("core.files.read", "Read a file", "What stands in a file of the run's workspace."),
    node(
        "core.files.stat",
        "Look at a file",
        "Whether the run sees a file, its size and when it was written.",
    ),
    node("core.files.to-base64", "To base64", "The base64 of a text."),
    node(
        "core.files.write",
        "Write a file",
        "Writes a file of the run's workspace, for those that come later.",
    ),
    node("core.flow.aggregate-array", "Collect into a list", "Passes the items on as one list."),
    node(
        "core.flow.aggregate-numeric",
        "Sum up numbers",
        "Sum, count, average, least or greatest of a number in each item.",
    ),
    node("core.flow.aggregate-table", "Make a table", "Makes rows of the columns that are named."),
    node(
        "core.flow.aggregate-text",
        "Join texts",
        "Joins a text of each item, or a template filled with it.",
    ),
    node(
        "core.flow.compare-datasets",
        "Compare two lists",
        "Says what was added, removed, changed and kept between two lists, by a key.",
    ),
    node(
        "core.flow.distinct",
        "Drop duplicates",
        "Keeps the first of the items that have the same key.",
    ),
    node(
        "core.flow.error-handler-break",
        "Fail as before",
        "Behind an edge with any_failed: fails with the error that led here.",
    ),
    node(
        "core.flow.error-handler-commit",
        "Stop",
        "Behind an edge with any_failed: there is nothing to commit here, so it fails with the error that led here.",
    ),
    node(
        "core.flow.error-handler-ignore",
        "Ignore a failure",
        "Behind an edge with any_failed: goes on.",
    ),
    node(
        "core.flow.error-handler-resume",
        "Go on with a fallback",
        "Behind an edge with any_failed: goes on with the value that is configured.",
    ),
    node(
        "core.flow.filter",
        "Filter",
        "Passes a value on if a predicate holds; passed says whether.",
    ),
    node("core.flow.if", "If", "Says then or else, by a predicate on a value."),
    node(
        "core.flow.iterator",
        "Iterator",
        "Each item of a list with its index and the total, for what follows; callboard.each computes or runs something for each.",
    ),
    node("core.flow.limit", "Limit", "The first items of a list, behind an offset."),
    node(
        "core.flow.merge",
        "Merge lists",
        "Appends lists, joins them by key or position, multiplies them, or takes the first that has items.",
    ),
    node("core.flow.noop", "Nothing", "Passes its value on."),
    node("core.flow.repeater", "Count", "Makes a list of so many numbers, from a start, in steps."),
    node("core.flow.router", "Router", "Names the branches whose predicates hold for a value."),
    node("core.flow.sort", "Sort", "Sorts a list by one or more keys."),
    node(
        "core.flow.split-in-batches",
        "Split in batches",
        "The first batch of a list, and what remains of it.",
    ),
    node(
        "core.flow.stop-and-error",
        "Stop with an error",
        "Fails with the code, message and details of its configuration.",
    ),
    node(
        "core.flow.sub-workflow-invoke",
        "Invoke a workflow",
        "Runs the workflow that the input workflowRef names as a child, and waits for its outputs.",
    ),
    node("core.flow.switch", "Switch", "Looks up the label for a value."),
    node("core.flow.wait", "Wait", "Waits for some seconds, or until a time."),
    node("core.getVariable", "Read a variable", "Reads a variable or a channel of the run."),
    node(
        "core.hitl.approval-request",
        "Request an approval",
        "Asks people to approve a prompt, as many as config.quorum says: approve or reject, with a comment.",
    ),
    node("core.hitl.ask-user", "Ask somebody", "Asks one question, and waits for the answer."),
    node(
        "core.hitl.form-request",
        "Request a form",
        "Asks somebody to fill in config.formSchema: accept with the form, decline or cancel.",
    ),
    node(
        "core.identity",
        "Identity",
        "Passes its ports on as outputs and variables; with config.memoryAction it reads or writes memory.",
    ),
    node(
        "core.interrupt",
        "Question",
        "Asks whatever its configuration says, and waits for an answer or a call from outside.",
    ),
    node(
        "core.loop",
        "Loop",
        "Gives one item or index for each round of the loop that leads back to it.",
    ),
    node("core.merge", "Join", "Waits for all paths that lead to it, or for any."),
    node("core.noop", "Nothing", "Completes at once, without outputs."),
    node("core.obs.log", "Log", "Adds a line with a level and attributes to the run's log."),
    node(
        "core.openwop.ai.classify",
        "Classify a text",
        "Asks a model which of config.labels fits a text best.",
    ),
    node(
        "core.openwop.ai.extract",
        "Extract from a text",
        "Asks a model for what config.schema describes in a text.",
    ),
    node(
        "core.openwop.ai.guardrails",
        "Check a text",
        "Asks a model whether a text violates one of config.checks, and how.",
    ),
    node(
        "core.openwop.ai.transform",
        "Transform a value",
        "Asks a model to change a value as an instruction says.",
    ),
    node("core.openwop.data.array-chunk", "Chunk a list", "Cuts a list into lists of a size."),
    node(
        "core.openwop.data.array-filter",
        "Filter a list",
        "Keeps the items whose value at a path is the one that is configured.",
    ),
    node(
        "core.openwop.data.array-flatten",
        "Flatten a list",
        "Puts the items of lists within a list into it.",
    ),
    node(
        "core.openwop.data.array-group-by",
        "Group a list",
        "One row for each key, with sums and the like of its items.",
    ),
    node("core.openwop.data.array-map", "Map a list", "Fills a template with each item of a list."),
    node(
        "core.openwop.data.array-reduce",
        "Reduce a list",
        "Sum, product, joined text or count of a list.",
    ),
    node("core.openwop.data.array-sort", "Sort a list", "Sorts a list by one or more keys."),
    node(
        "core.openwop.data.array-unique",
        "Drop duplicates",
        "Keeps the first of the items that have the same key.",
    ),
    node("core.openwop.data.array-zip", "Zip lists", "One row for each place of several lists."),
    node(
        "core.openwop.data.csv-parse",
        "Read CSV",
        "Rows of a CSV text, by the names in its first line.",
    ),
    node("core.openwop.data.csv-stringify", "Write CSV", "A CSV text of rows."),
    node(
        "core.openwop.data.datetime-add",
        "Add to a time",
        "A time so many milliseconds to weeks later.",
    ),
    node(
        "core.openwop.data.datetime-diff",
        "Difference of times",
        "How much later the time b is than a.",
    ),
    node(
        "core.openwop.data.datetime-format",
        "Write a time",
        "A time as ISO 8601, RFC 2822, seconds, milliseconds, or as people write it.",
    ),
    node("core.openwop.data.datetime-now", "Now", "The time at which the node ran."),
    node(
        "core.openwop.data.datetime-parse",
        "Read a time",
        "The time that a text stands for, if it is one.",
    ),
    node(
        "core.openwop.data.datetime-timezone",
        "Time in a zone",
        "A time as the clocks of a time zone show it.",
    ),
    node("core.openwop.data.json-parse", "Read JSON", "The value of a JSON text."),
    node(
        "core.openwop.data.json-schema-validate",
        "Check against a schema",
        "What of a value does not match a JSON Schema.",
    ),
    node("core.openwop.data.json-stringify", "Write JSON", "The JSON text of a value."),
    node(
        "core.openwop.data.jsonpath-query",
        "Query with JSONPath",
        "The values to which names, places, * and .. lead.",
    ),
    node("core.openwop.data.number-clamp", "Clamp a number", "A number kept between two others."),
    node(
        "core.openwop.data.number-format",
        "Write a number",
        "A number as people write it: decimal, percent or an amount of money.",
    ),
    node("core.openwop.data.number-round", "Round a number", "A number rounded to some places."),
    node(
        "core.openwop.data.object-get-path",
        "Read from an object",
        "The value to which a path leads.",
    ),
    node("core.openwop.data.object-merge", "Merge objects", "One object over another."),
    node("core.openwop.data.object-omit", "Omit fields", "An object without some of its fields."),
    node("core.openwop.data.object-pick", "Pick fields", "Some fields of an object."),
    node(
        "core.openwop.data.object-rename-keys",
        "Rename fields",
        "An object with other names for its fields.",
    ),
    node(
        "core.openwop.data.object-set-path",
        "Write into an object",
        "An object with a value where a path leads.",
    ),
    node(
        "core.openwop.data.string-case",
        "Change case",
        "A text in capitals, in small letters, or as a title.",
    ),
    node(
        "core.openwop.data.string-encode",
        "Encode a text",
        "A text from one of UTF-8, hex, base64, base64url and ASCII to another.",
    ),
    node(
        "core.openwop.data.string-format",
        "Fill a template",
        "A template with {{name}} filled from an object.",
    ),
    node(
        "core.openwop.data.string-regex-extract",
        "Find all matches",
        "All that a regular expression matches in a text.",
    ),
    node(
        "core.openwop.data.string-regex-match",
        "Match",
        "The first that a regular expression matches in a text.",
    ),
    node(
        "core.openwop.data.string-regex-replace",
        "Replace",
        "A text with matches of a regular expression replaced; every one with the flag g.",
    ),
    node(
        "core.openwop.data.string-split",
        "Split a text",
        "The pieces of a text between separators.",
    ),
    node(
        "core.openwop.data.uuid",
        "UUID",
        "An id that no other node has; the same one in a replay, so it is no secret.",
    ),
    node(
        "core.openwop.http.fetch",
        "HTTP request",
        "Asks an address over HTTP, with retries, an idempotency key, and the secret that credentialsRef names as a bearer token.",
    ),
    node(
        "core.openwop.http.graphql-mutation",
        "GraphQL mutation",
        "Changes something over GraphQL, with an idempotency key.",
    ),
    node(
        "core.openwop.http.graphql-query",
        "GraphQL query",
        "Asks a GraphQL server: its data and its errors.",
    ),
    node(
        "core.openwop.http.openapi-call",
        "Call an OpenAPI operation",
        "Calls config.operationId of an OpenAPI document with the given parameters.",
    ),
    node(
        "core.openwop.http.pagination-cursor",
        "Pages by cursor",
        "Fetches page after page, each with the cursor that the previous one named.",
    ),
    node(
        "core.openwop.http.pagination-link-header",
        "Pages by link",
        "Fetches page after page, as long as the Link header names a next one.",
    ),
    node(
        "core.openwop.http.pagination-offset",
        "Pages by offset",
        "Fetches page after page by offset and limit, until one has fewer items.",
    ),
    node(
        "core.openwop.integration.chat-message-generic",
        "Post to a chat",
        "Posts a message to a chat that the operator named under [integrations.chat].",
    ),
    node(
        "core.openwop.integration.email-send",
        "Send an email",
        "Sends an email through Resend or SendGrid, with the key that credentialsRef names.",
    ),
    node(
        "core.openwop.integration.slack-message",
        "Post to Slack",
        "Posts a message to a channel of Slack, with the token that credentialsRef names.",
    ),
    node(
        "core.openwop.mcp.get-prompt",
        "Get an MCP prompt",
        "A prompt of an MCP server, filled with arguments.",
    ),
    node(
        "core.openwop.mcp.invoke-tool",
        "Call an MCP tool",
        "Calls a tool of an MCP server that the operator named.",
    ),
    node(
        "core.openwop.mcp.list-tools",
        "List MCP tools",
        "The tools that an MCP server has, with their schemas.",
    ),
    node(
        "core.openwop.mcp.read-resource",
        "Read an MCP resource",
        "What an MCP server has under a URI, as text or as base64.",
    ),
    node(
        "core.orchestrator.supervisor",
        "Supervisor",
        "Decides what happens next: an agent, a workflow, a question, or the end.",
    ),
    node(
        "core.parallel",
        "Parallel",
        "Passes its inputs on to all that follow; with config.routes as core.flow.router does.",
    ),
    node("core.setVariable", "Set a variable", "Sets a variable of the run."),
    node("core.start", "Start", "Passes its inputs on."),
    node(
        "core.storage.kv-atomic-increment",
        "Count",
        "Adds to a number that is kept from run to run, exactly once.",
    ),
    node(
        "core.storage.kv-cas",
        "Compare and set",
        "Sets a kept value if it is as expected; swapped says whether.",
    ),
    node("core.storage.kv-delete", "Delete a value", "Removes a value that was kept."),
    node(
        "core.storage.kv-get",
        "Read a value",
        "A value that was kept under a key, if there is one.",
    ),
    node("core.storage.kv-list", "List keys", "The keys of a namespace that begin with a prefix."),
    node(
        "core.storage.kv-set",
        "Keep a value",
        "Keeps a value under a key from run to run, for config.ttlSeconds if given.",
    ),
    node(
        "core.subWorkflow",
        "Sub-workflow",
        "Runs another workflow as a child, and waits for its end.",
    ),
];

/// What stands in for published types that have other names here.
const STAND_INS: &[(&str, &str)] =
    &[("core.flow.error-handler-rollback", "core.flow.error-handler-break")];

/// Longer type ids are nobody's slip of the pen.
const LONGEST: usize = 128;

/// The type that comes closest to one that does not run here, if any comes close.
pub fn nearest_type(type_id: &str) -> Option<&'static str> {
    if let Some((_, instead)) = STAND_INS.iter().find(|(published, _)| *published == type_id) {
        return Some(instead);
    }
    if type_id.len() > LONGEST {
        return None;
    }
    let distance = |known: &NodeType| (slips(type_id, known.type_id), known.type_id);
    let (slips, nearest) = NODE_TYPES.iter().map(distance).min()?;
    (slips <= type_id.len() / 4).then_some(nearest)
}

/// How many letters are to be changed, added or left out to get from one text to the other.
fn slips(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (place, sign) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = place + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(sign != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::super::PureNode;
    use super::*;

    #[test]
    fn the_table_is_sorted_and_has_what_core_computes() {
        assert!(NODE_TYPES.is_sorted_by(|a, b| a.type_id < b.type_id));
        for type_id in PureNode::type_ids() {
            assert!(NODE_TYPES.iter().any(|known| known.type_id == type_id), "{type_id}");
        }
        for known in NODE_TYPES {
            assert!(known.does.ends_with('.') && !known.title.is_empty(), "{}", known.type_id);
        }
    }

    #[test]
    fn the_nearest_type_is_one_that_was_meant() {
        let cases = [
            ("core.openwop.data.string-cas", Some("core.openwop.data.string-case")),
            ("core.flow.swich", Some("core.flow.switch")),
            ("core.hitl.aproval-request", Some("core.hitl.approval-request")),
            ("vendor.acme.launch-rocket", None),
        ];
        for (type_id, nearest) in cases {
            assert_eq!(nearest_type(type_id), nearest, "{type_id}");
        }
        assert_eq!(nearest_type(&"x".repeat(1 << 20)), None);
    }
}

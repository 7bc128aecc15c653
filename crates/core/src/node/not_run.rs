//! Published types that this host does not run, each with the reason: whoever meets one learns what to do instead.

/// The beginnings of type ids, and why what begins so is not run.
const REASONS: &[(&str, &str)] = &[
    ("core.files.archive-", "files of a workspace are texts, and an archive is none"),
    ("core.files.image-", "this host reads no images; a tool of an MCP server can"),
    ("core.files.pdf-", "this host reads no PDF; a tool of an MCP server can"),
    ("core.files.ftp", "this host goes out over HTTP only"),
    ("core.files.sftp", "this host goes out over HTTP only"),
    ("core.files.ssh-run", "this host runs no commands on other machines"),
    (
        "core.flow.error-handler-rollback",
        "no step says how it is undone; put the steps that undo others behind an edge with any_failed",
    ),
    (
        "core.openwop.integration.",
        "it has no provider here; core.openwop.http.fetch can call the one that you use",
    ),
    (
        "core.openwop.mcp.",
        "this host calls tools, resources and prompts of MCP servers, and no more",
    ),
];

/// Why a published type is not run here. For a type that is run, or that nobody published, there is no answer worth having.
pub fn why_not_run(type_id: &str) -> Option<&'static str> {
    let reason = REASONS.iter().find(|(beginning, _)| type_id.starts_with(beginning));
    reason.map(|(_, why)| *why)
}

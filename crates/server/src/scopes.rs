//! What a key may be allowed to do. No scope implies another.

use std::collections::BTreeSet;

/// What a key needs to answer in the name of people, beyond what it needs to answer at all.
pub(crate) const DELEGATE: &str = "approvals:delegate";

/// What a key needs to answer questions.
pub(crate) const RESPOND: &str = "approvals:respond";

/// The protocol's scopes, then ours.
pub const SCOPES: [&str; 22] = [
    "manifest:read",
    "runs:create",
    "runs:read",
    "runs:cancel",
    "artifacts:read",
    "webhooks:manage",
    RESPOND,
    "packs:publish",
    "packs:yank",
    "packs:yank-revert",
    "audit:read",
    "workspace:read",
    "workspace:write",
    "deploy:promote",
    "deploy:rollback",
    "deploy:pause",
    "admin",
    DELEGATE,
    "workflows:write",
    "packs:install",
    "roster:write",
    "triggers:write",
];

/// Beside the list, whatever an operator asks for before a tool may be called: `tools:github`.
const OF_TOOLS: &str = "tools:";

fn is_of_a_tool(name: &str) -> bool {
    let accepted = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.:".contains(c);
    name.strip_prefix(OF_TOOLS).is_some_and(|rest| !rest.is_empty() && rest.chars().all(accepted))
}

/// Whether a key could hold this scope.
pub fn is_scope(name: &str) -> bool {
    known([name]).is_ok()
}

/// A name that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope {0:?}; known are {known}, and {OF_TOOLS}NAME", known = SCOPES.join(", "))]
pub(crate) struct UnknownScope(pub(crate) String);

/// Checks every name against the list.
pub(crate) fn known<'a>(
    names: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeSet<String>, UnknownScope> {
    let check = |name: &str| match SCOPES.contains(&name) || is_of_a_tool(name) {
        true => Ok(name.to_owned()),
        false => Err(UnknownScope(name.to_owned())),
    };
    names.into_iter().map(check).collect()
}

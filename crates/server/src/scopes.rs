//! What a key may be allowed to do. No scope implies another.

use std::collections::BTreeSet;

/// The protocol's scopes, then ours.
pub const SCOPES: [&str; 21] = [
    "manifest:read",
    "runs:create",
    "runs:read",
    "runs:cancel",
    "artifacts:read",
    "webhooks:manage",
    "approvals:respond",
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
    "workflows:write",
    "packs:install",
    "roster:write",
    "triggers:write",
];

/// A name that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope {0:?}")]
pub(crate) struct UnknownScope(pub(crate) String);

/// Checks every name against the list.
pub(crate) fn known<'a>(
    names: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeSet<String>, UnknownScope> {
    let check = |name: &str| match SCOPES.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(UnknownScope(name.to_owned())),
    };
    names.into_iter().map(check).collect()
}

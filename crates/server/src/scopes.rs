//! What a key may be allowed to do. No scope implies another.

use std::collections::BTreeSet;

/// What a key needs to answer in the name of people, beyond what it needs to answer at all.
pub(crate) const DELEGATE: &str = "approvals:delegate";

/// What a key needs to answer questions.
pub(crate) const RESPOND: &str = "approvals:respond";

/// What a key of the tenant `default` needs to make keys for other tenants.
pub(crate) const MANAGE_TENANTS: &str = "tenants:manage";

/// The protocol's scopes, then ours.
pub const SCOPES: [&str; 23] = [
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
    MANAGE_TENANTS,
];

/// The protocol's roles (RFC 0049): each stands for its scopes, all of them written out. A key that is made for a role
/// holds those scopes, and every key that holds them has the role.
pub(crate) const ROLES: [(&str, &[&str]); 5] = [
    ("viewer", &["manifest:read", "runs:read", "artifacts:read", "workspace:read"]),
    ("approver", &["manifest:read", "runs:read", "artifacts:read", "approvals:respond"]),
    (
        "operator",
        &[
            "manifest:read",
            "runs:read",
            "artifacts:read",
            "workspace:read",
            "runs:create",
            "runs:cancel",
            "workspace:write",
            "triggers:write",
            "webhooks:manage",
        ],
    ),
    (
        "author",
        &[
            "manifest:read",
            "runs:read",
            "artifacts:read",
            "workspace:read",
            "runs:create",
            "workflows:write",
            "roster:write",
        ],
    ),
    (
        "deployer",
        &[
            "manifest:read",
            "runs:read",
            "packs:install",
            "deploy:promote",
            "deploy:rollback",
            "deploy:pause",
        ],
    ),
];

/// Among the scopes of a key that is being made: `role:viewer`.
pub(crate) const OF_A_ROLE: &str = "role:";

/// What a role stands for; a role that nobody knows stands for nothing.
pub(crate) fn scopes_of(role: &str) -> Option<&'static [&'static str]> {
    ROLES.iter().find(|(name, _)| *name == role).map(|(_, scopes)| *scopes)
}

/// Beside the list, whatever an operator asks for before a tool may be called: `tools:github`.
const OF_TOOLS: &str = "tools:";

fn is_of_a_tool(name: &str) -> bool {
    let accepted = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.:".contains(c);
    name.strip_prefix(OF_TOOLS).is_some_and(|rest| !rest.is_empty() && rest.chars().all(accepted))
}

/// Whether a key could hold this scope.
pub fn is_scope(name: &str) -> bool {
    SCOPES.contains(&name) || is_of_a_tool(name)
}

/// A name that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown scope {0:?}; known are {known}, {OF_TOOLS}NAME, and {OF_A_ROLE} with {roles}",
    known = SCOPES.join(", "), roles = ROLES.map(|(name, _)| name).join(", "),
)]
pub(crate) struct UnknownScope(pub(crate) String);

/// Checks every name against the list, and puts its scopes in the place of a role.
pub(crate) fn known<'a>(
    names: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeSet<String>, UnknownScope> {
    let mut scopes = BTreeSet::new();
    for name in names {
        let unknown = || UnknownScope(name.to_owned());
        match name.strip_prefix(OF_A_ROLE) {
            Some(role) => {
                let meant = scopes_of(role).ok_or_else(unknown)?;
                scopes.extend(meant.iter().map(|scope| (*scope).to_owned()));
            }
            None if is_scope(name) => {
                scopes.insert(name.to_owned());
            }
            None => return Err(unknown()),
        }
    }
    Ok(scopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_stands_for_scopes_that_there_are() {
        for (role, scopes) in ROLES {
            let meant = known([format!("role:{role}").as_str()]).map(|meant| meant.len());
            assert_eq!(meant, Ok(scopes.len()), "{role}");
            assert!(known(scopes.iter().copied()).is_ok(), "{role}");
            assert!(!scopes.contains(&"admin") && !scopes.contains(&DELEGATE), "{role}");
        }
    }

    #[test]
    fn a_role_that_nobody_knows_is_refused_and_stands_for_nothing() {
        for role in ["role:owner", "role:", "role:admin", "role:Viewer"] {
            assert_eq!(known([role]), Err(UnknownScope(role.to_owned())));
        }
        assert_eq!(scopes_of("owner"), None);
    }
}

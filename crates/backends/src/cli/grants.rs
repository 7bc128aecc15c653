//! The permissions of a coding agent that the names of an allowlist stand for.

use std::collections::BTreeSet;

use callboard_agent_api::Grant;

/// The name of a grant in an allowlist; none for one that cannot be granted. A shell is granted to one
/// kind only.
pub(super) fn name(kind: &str, grant: Grant) -> Option<String> {
    match grant {
        Grant::ReadFiles => Some("openwop:core.files.read".to_owned()),
        Grant::WriteFiles => Some("openwop:core.files.write".to_owned()),
        Grant::FetchWeb => Some("openwop:core.openwop.http.fetch".to_owned()),
        Grant::Shell => Some(format!("cli:{kind}.shell")),
        _ => None,
    }
}

/// An allowlist, sorted out for one kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) grants: BTreeSet<Grant>,
    pub(super) tools: Vec<String>,
    pub(super) unknown: Vec<String>,
}

impl Allowed {
    /// Names match exactly.
    pub(super) fn of(kind: &str, allowlist: &[String]) -> Self {
        let names = Grant::ALL.map(|grant| (name(kind, grant), grant));
        let mut allowed = Self::default();
        for name in allowlist {
            let found = names.iter().find(|(known, _)| known.as_ref() == Some(name));
            match found.map(|(_, grant)| *grant) {
                Some(grant) => {
                    if allowed.grants.insert(grant) {
                        allowed.tools.push(name.clone());
                    }
                }
                None => allowed.unknown.push(name.clone()),
            }
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(kind: &str, names: &[&str]) -> Allowed {
        Allowed::of(kind, &names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn every_name_of_the_table_grants_its_own_and_nothing_more() {
        for (name, grant) in [
            ("openwop:core.files.read", Grant::ReadFiles),
            ("openwop:core.files.write", Grant::WriteFiles),
            ("openwop:core.openwop.http.fetch", Grant::FetchWeb),
            ("cli:codex.shell", Grant::Shell),
        ] {
            let found = allowed("codex", &[name, name]);
            assert_eq!(found.grants, [grant].into());
            assert_eq!((found.tools.as_slice(), found.unknown.len()), (&[name.to_owned()][..], 0));
        }
        assert_eq!(allowed("codex", &[]), Allowed::default());
    }

    #[test]
    fn what_is_not_in_the_table_grants_nothing() {
        let names = ["*", "openwop:core.files.*", "cli:claude-code.shell", "Bash", "mcp:a.b", ""];
        let found = allowed("codex", &names);
        assert_eq!((found.grants.len(), found.tools.len()), (0, 0));
        assert_eq!(found.unknown, names);
    }
}

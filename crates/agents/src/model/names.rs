//! Names of tools as providers accept them, with the way back to ours.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use callboard_protocol::hex;

/// The strictest provider takes letters, digits, `_` and `-`, and this many of them.
const LONGEST: usize = 64;
/// Hexadecimal digits of a digest, where a plain replacement would be ambiguous.
const MARK: usize = 8;

/// Which of our names a provider knows under which of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    outward: BTreeMap<String, String>,
    inward: BTreeMap<String, String>,
}

impl ToolNames {
    /// The same names make the same mapping, in whatever order they come.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut plain: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for name in names {
            let alike = plain.entry(replaced(name)).or_default();
            if !alike.contains(&name) {
                alike.push(name);
            }
        }
        let mut mapping = Self::default();
        for (accepted, names) in plain {
            let is_ambiguous = names.len() > 1 || accepted.len() > LONGEST;
            for name in names {
                // A name that is acceptable as it is keeps itself, whoever else looks like it.
                let is_kept = name == accepted && name.len() <= LONGEST;
                let theirs = if is_ambiguous && !is_kept {
                    marked(&accepted, name)
                } else {
                    accepted.clone()
                };
                mapping.inward.insert(theirs.clone(), name.to_owned());
                mapping.outward.insert(name.to_owned(), theirs);
            }
        }
        mapping
    }

    /// What a provider is told. A name that is not among ours may still be in the history of a conversation.
    pub fn outward(&self, ours: &str) -> String {
        self.outward.get(ours).cloned().unwrap_or_else(|| match replaced(ours) {
            accepted if accepted.len() > LONGEST => marked(&accepted, ours),
            accepted => accepted,
        })
    }

    /// Whom a provider means. A name that it made up stays as it is, for the caller to refuse.
    pub fn inward(&self, theirs: &str) -> String {
        self.inward.get(theirs).cloned().unwrap_or_else(|| theirs.to_owned())
    }
}

fn replaced(name: &str) -> String {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let accepted: String = name.chars().map(|c| if is_fine(c) { c } else { '_' }).collect();
    // Some want a letter or an underscore first.
    match accepted.chars().next() {
        Some(first) if first.is_ascii_alphabetic() || first == '_' => accepted,
        _ => format!("_{accepted}"),
    }
}

fn marked(accepted: &str, name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let digest = hex(digest);
    let kept: String = accepted.chars().take(LONGEST - MARK - 1).collect();
    format!("{kept}_{}", &digest[..MARK])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back_and_is_acceptable() {
        let long = format!("mcp:{}", "x".repeat(90));
        let names = [
            "mcp:github.create_issue",
            "mcp:github_create.issue",
            "openwop:core.files.read",
            "mcp_github_create_issue",
            "7zip",
            "größe",
            "",
            &long,
        ];
        let mapping = ToolNames::new(names);
        for name in names {
            let theirs = mapping.outward(name);
            let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            assert!(theirs.len() <= LONGEST && theirs.chars().all(is_fine), "{theirs}");
            assert!(!theirs.starts_with(|c: char| c.is_ascii_digit()), "{theirs}");
            assert_eq!(mapping.inward(&theirs), name);
        }
        let backwards = ToolNames::new(names.iter().rev().copied());
        assert_eq!(backwards, mapping, "the order does not matter");
        assert_eq!(mapping.outward("mcp_github_create_issue"), "mcp_github_create_issue");
    }

    #[test]
    fn a_name_that_the_model_made_up_is_not_mistaken_for_ours() {
        let mapping = ToolNames::new(["openwop:core.files.read"]);
        assert_eq!(mapping.outward("openwop:core.files.read"), "openwop_core_files_read");
        assert_eq!(mapping.inward("core_files_read"), "core_files_read");
    }
}

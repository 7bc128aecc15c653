//! Names of tools as every model provider accepts them: `^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use callboard_protocol::hex;

/// The shortest limit among the providers.
const LONGEST: usize = 64;
/// Letters of the digest that distinguishes two tools with the same plain name.
const DIGEST: usize = 12;

/// A name for each tool, no two alike. The same tools get the same names, in whatever order they come.
pub fn provider_names<'t>(ids: &BTreeSet<&'t str>) -> BTreeMap<String, &'t str> {
    let mut sharing: BTreeMap<String, usize> = BTreeMap::new();
    for id in ids {
        *sharing.entry(plain(id)).or_default() += 1;
    }
    let is_plain = |id: &str| {
        let name = plain(id);
        name.len() <= LONGEST && sharing.get(&name) == Some(&1)
    };
    let (short, rest): (Vec<&'t str>, Vec<&'t str>) = ids.iter().partition(|id| is_plain(id));
    let mut names: BTreeMap<String, &'t str> = short.iter().map(|id| (plain(id), *id)).collect();
    for id in rest {
        // A tool may be called what another's digest makes of it; then the next digest is taken.
        if let Some(name) =
            (0..).map(|round| digested(id, round)).find(|name| !names.contains_key(name))
        {
            names.insert(name, id);
        }
    }
    names
}

/// A name for a tool that is not offered: a model made it up, and its call stays part of the conversation.
pub fn provider_name(made_up: &str) -> String {
    let name = plain(made_up);
    if name.len() <= LONGEST { name } else { digested(made_up, 0) }
}

fn plain(id: &str) -> String {
    let is_accepted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = id.chars().map(|c| if is_accepted(c) { c } else { '_' }).collect();
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    if name.starts_with(is_first) { name } else { format!("_{name}") }
}

fn digested(id: &str, round: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(round.to_be_bytes());
    hash.update(id);
    let mut name = plain(id);
    name.truncate(LONGEST - DIGEST - 1);
    name.push('_');
    name.push_str(&hex(hash.finalize())[..DIGEST]);
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names<'t>(ids: &[&'t str]) -> BTreeMap<String, &'t str> {
        provider_names(&ids.iter().copied().collect())
    }

    #[test]
    fn a_name_stays_readable() {
        assert_eq!(
            names(&["openwop:core.files.read", "mcp:github.create_issue"])
                .into_keys()
                .collect::<Vec<_>>(),
            ["mcp_github_create_issue", "openwop_core_files_read"]
        );
    }

    #[test]
    fn names_that_would_be_one_are_told_apart() {
        let found = names(&["mcp:a.b_c", "mcp:a.b.c", "mcp:other.x"]);
        assert_eq!(found.len(), 3);
        assert_eq!(found.get("mcp_other_x"), Some(&"mcp:other.x"));
        assert!(!found.contains_key("mcp_a_b_c"), "{found:?}");
    }

    #[test]
    fn a_tool_cannot_take_the_name_of_another_by_guessing_its_digest() {
        let pair = ["mcp:a.b_c", "mcp:a.b.c"];
        let guessed = digested("mcp:a.b.c", 0);
        let found = names(&[pair[0], pair[1], &guessed]);
        assert_eq!(found.len(), 3);
        assert_eq!(found.get(&guessed), Some(&guessed.as_str()));
    }

    proptest! {
        #[test]
        fn every_name_is_accepted_and_leads_back(
            ids in proptest::collection::btree_set("[a-z0-9:._é-]{0,90}", 0..12)
        ) {
            let ids: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
            let names = provider_names(&ids);
            let back: BTreeSet<&str> = names.values().copied().collect();
            prop_assert_eq!(&back, &ids);
            prop_assert_eq!(names.len(), ids.len());
            let made_up: Vec<String> = ids.iter().map(|id| provider_name(id)).collect();
            for name in names.keys().chain(&made_up) {
                prop_assert!((1..=64).contains(&name.len()), "{}", name);
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
                prop_assert!(name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
                prop_assert_eq!(&provider_name(name), name);
            }
        }
    }
}

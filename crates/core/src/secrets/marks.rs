//! Marks that other redactors leave behind, in the one spelling that the protocol knows today.

use std::sync::LazyLock;

use regex::Regex;

use super::REDACTED;

/// An older spelling of the mark, and a placeholder that may hold the very key that it stands for.
const OTHER_MARKS: &str = r"<REDACTED:(?<name>[^<>\[\]\s]+)>|<REDACTED>|\[BYOK:[^\]]*\]";
/// What stands for a placeholder: its name is not to be trusted.
const PLACEHOLDER: &str = "[REDACTED:byok]";

static OTHERS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(OTHER_MARKS).ok());

/// Spells every mark as the protocol does.
pub fn respell_marks(text: &str) -> String {
    let Some(others) = OTHERS.as_ref() else { return REDACTED.to_owned() };
    let respelled =
        others.replace_all(text, |found: &regex::Captures<'_>| match found.name("name") {
            Some(name) => format!("[REDACTED:{}]", name.as_str()),
            None if found[0].starts_with('<') => REDACTED.to_owned(),
            None => PLACEHOLDER.to_owned(),
        });
    respelled.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_has_the_protocols_spelling() {
        for (before, after) in [
            ("User confirmed: [BYOK:hk_live_canary_42].", "User confirmed: [REDACTED:byok]."),
            (
                "Resolved <REDACTED:db-prod-creds> outage.",
                "Resolved [REDACTED:db-prod-creds] outage.",
            ),
            ("<REDACTED>", "[REDACTED]"),
            ("[REDACTED:db] a < b > c [BYOB: wine]", "[REDACTED:db] a < b > c [BYOB: wine]"),
        ] {
            assert_eq!(respell_marks(before), after);
            assert_eq!(respell_marks(after), after);
        }
    }
}

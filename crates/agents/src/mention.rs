//! The member or agent that a text mentions: `@Sally` somewhere in it.

/// A mention, and the rest of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention<W> {
    pub whom: W,
    pub said: String,
}

/// The first mention of a name in a text. A name counts as one word: `@Sally` is not a mention of Sal, and a
/// mail address is not a mention. Of several names at one place the longest wins, then the first in the list.
pub fn mentioned<W: Clone>(text: &str, names: &[(&str, W)]) -> Option<Mention<W>> {
    let is_address = |before: &str| before.ends_with(|last: char| last.is_ascii_alphanumeric());
    let mut places = text.match_indices('@').filter(|(place, _)| !is_address(&text[..*place]));
    places.find_map(|(place, mark)| {
        let rest = &text[place + mark.len()..];
        let named = names.iter().filter_map(|(name, whom)| Some((after(rest, name)?, whom)));
        // The longest name leaves the least.
        let (after, whom) = named.min_by_key(|(after, _)| after.len())?;
        Some(Mention { whom: whom.clone(), said: joined(&text[..place], after) })
    })
}

/// What follows a word that a text begins with.
fn after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let mut rest = text.chars();
    let is_named = !word.is_empty()
        && word.chars().all(|letter| {
            rest.next().is_some_and(|found| found.to_lowercase().eq(letter.to_lowercase()))
        });
    (is_named && !goes_on(rest.as_str())).then_some(rest.as_str())
}

/// Whether a word has not ended yet. Dots and hyphens are within one where more of it follows, as in ids.
fn goes_on(rest: &str) -> bool {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let rest = rest.strip_prefix(['.', '-']).unwrap_or(rest);
    rest.starts_with(is_of_word)
}

fn joined(before: &str, after: &str) -> String {
    let before = before.trim_end_matches(' ');
    // The comma or the colon after a mention belongs to it.
    let after = after.trim_start_matches([',', ':']);
    format!("{before}{after}").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [(&str, u8); 7] = [
        ("Sal", 1),
        ("Sally", 2),
        ("Sally Jones", 3),
        ("sally", 4),
        ("Ömer", 5),
        ("vendor.acme.desk", 6),
        ("host:sally-1a2b", 7),
    ];

    #[test]
    fn a_name_is_matched_as_one_word() {
        for (text, who) in [
            ("@Sally, the report please", Some(2)),
            ("please @sally", Some(2)),
            ("@Sal: now", Some(1)),
            ("@Sally Jones and @Sal", Some(3)),
            ("mail@example.com, then @ömer", Some(5)),
            ("ask @vendor.acme.desk.", Some(6)),
            ("@host:sally-1a2b now", Some(7)),
            ("@vendor.acme.desk.writer", None),
            ("mail to bob@sally", None),
            ("@Sallyanne", None),
            ("@Sally-Anne", None),
            ("@Sal_2", None),
            ("Sally", None),
            ("@", None),
            ("", None),
        ] {
            let found = mentioned(text, &NAMES).map(|mention| mention.whom);
            assert_eq!(found, who, "{text:?}");
        }
    }

    #[test]
    fn the_task_is_the_text_without_the_mention() {
        for (text, said) in [
            ("@Sally, the report please", "the report please"),
            ("  @Sally: now", "now"),
            ("ask @Sally to help", "ask to help"),
            ("please, @Sally: now", "please, now"),
            ("Good day.\n@ÖMER look at @Sal", "Good day.\n look at @Sal"),
            ("help @Sally Jones", "help"),
            ("@Sally", ""),
        ] {
            let found = mentioned(text, &NAMES).map(|mention| mention.said);
            assert_eq!(found.as_deref(), Some(said), "{text:?}");
        }
    }
}

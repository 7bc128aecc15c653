//! Text as PostgreSQL can hold it. It knows no U+0000, which SQLite keeps and which JSON may bring.
//!
//! U+0000 becomes U+0001 U+0001, and U+0001 becomes U+0001 U+0002: no two texts become one, and their order stays. JSON
//! that we wrote needs none of this, since it spells such characters out.

use std::borrow::Cow;

const MARK: char = '\u{1}';

/// Text as it is stored.
pub(super) fn stored(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte <= 1) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 2);
    for character in text.chars() {
        match character {
            '\0' => escaped.extend([MARK, '\u{1}']),
            MARK => escaped.extend([MARK, '\u{2}']),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// Text as it was given.
pub(super) fn given(stored: String) -> String {
    if !stored.contains(MARK) {
        return stored;
    }
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        match character {
            MARK if characters.next() == Some('\u{1}') => text.push('\0'),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_has_no_zero_and_comes_back() {
        let texts =
            ["", "plain", "a\0b", "\0", "\u{1}", "\0\u{1}\0", "\u{1}\u{1}", "\u{1}\u{2}", "\u{2}"];
        for text in texts {
            let kept = stored(text).into_owned();
            assert!(!kept.contains('\0'), "{text:?}");
            assert_eq!(given(kept), text);
        }
    }

    #[test]
    fn the_order_of_texts_stays() {
        let mut texts =
            vec!["a\0", "a\0b", "a\u{1}", "a\u{1}b", "a\u{2}", "a", "b", "a\0\0", "a/", "a0"];
        texts.sort_unstable();
        assert!(texts.is_sorted_by_key(|text| stored(text).into_owned()), "{texts:?}");
    }
}

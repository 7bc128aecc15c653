//! Limits of the length of an event's fields.

use serde_json::{Value, json};

/// Bytes of a channel's name; a longer one is left out.
pub const CHANNEL_BYTES: usize = 128;
/// Bytes of one event's text; a longer one becomes several events.
pub const TEXT_BYTES: usize = 65_536;
/// Bytes of a message; a longer one is cut.
pub const MESSAGE_BYTES: usize = 4_096;
/// Bytes of `data` as compact JSON; a larger one is dropped.
pub const DATA_BYTES: usize = 65_536;
/// Bytes of a completion's final text; a longer one is cut.
pub const FINAL_TEXT_BYTES: usize = 65_536;
/// Bytes of a session's id; a longer one counts as unknown, for half an id names another session.
pub const SESSION_ID_BYTES: usize = 1_024;
/// What stands at the end of whatever was cut.
pub const TRUNCATED: &str = "…(truncated)";

/// Cuts at a character so that the result with its mark fits into `bytes`.
#[must_use]
pub fn cut(text: String, bytes: usize) -> String {
    if text.len() <= bytes {
        return text;
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(TRUNCATED.len()));
    format!("{}{TRUNCATED}", &text[..end])
}

/// Pieces of at most [`TEXT_BYTES`] whose concatenation is the text.
#[must_use]
pub fn split_text(text: String) -> Vec<String> {
    split(text, TEXT_BYTES)
}

/// Pieces of at most `bytes`, of which there must be room for a character.
pub(crate) fn split(text: String, bytes: usize) -> Vec<String> {
    if text.len() <= bytes {
        return vec![text];
    }
    let mut pieces = Vec::new();
    let mut rest = text.as_str();
    while rest.len() > bytes {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(bytes));
        pieces.push(piece.to_owned());
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest.to_owned());
    }
    pieces
}

#[must_use]
pub fn bound_channel(channel: Option<String>) -> Option<String> {
    channel.filter(|name| name.len() <= CHANNEL_BYTES)
}

#[must_use]
pub fn bound_data(data: Value) -> Value {
    let fits = serde_json::to_vec(&data).is_ok_and(|bytes| bytes.len() <= DATA_BYTES);
    if fits { data } else { json!({ "dropped": { "reason": "oversize" } }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    // T21
    #[test]
    fn text_splits_at_a_character_and_joins_to_itself() {
        assert_eq!(split_text("a".repeat(TEXT_BYTES)).len(), 1);
        assert_eq!(split_text("a".repeat(TEXT_BYTES + 1)).len(), 2);
        // The three bytes of € lie across the boundary.
        let text = format!("{}€{}", "a".repeat(TEXT_BYTES - 1), "b".repeat(10));
        let pieces = split_text(text.clone());
        assert_eq!(pieces[0].len(), TEXT_BYTES - 1);
        assert!(pieces[1].starts_with('€'));
        assert_eq!(pieces.concat(), text);
    }

    // T22
    #[test]
    fn a_message_is_cut_to_the_byte() {
        assert_eq!(TRUNCATED.len(), 14);
        let whole = "m".repeat(MESSAGE_BYTES);
        assert_eq!(cut(whole.clone(), MESSAGE_BYTES), whole);
        let cut_one = cut("m".repeat(MESSAGE_BYTES + 1), MESSAGE_BYTES);
        assert_eq!(cut_one.len(), MESSAGE_BYTES);
        assert!(cut_one.ends_with(TRUNCATED));
        let multibyte = cut("€".repeat(2_000), MESSAGE_BYTES);
        assert!(multibyte.len() <= MESSAGE_BYTES && multibyte.ends_with("€…(truncated)"));
    }

    // T22
    #[test]
    fn a_channel_or_data_beyond_its_bound_is_left_out() {
        assert!(bound_channel(Some("c".repeat(128))).is_some());
        assert_eq!(bound_channel(Some("c".repeat(129))), None);
        // Two quotation marks are part of the JSON.
        let fits = json!("d".repeat(DATA_BYTES - 2));
        assert_eq!(bound_data(fits.clone()), fits);
        let dropped = bound_data(json!("d".repeat(DATA_BYTES - 1)));
        assert_eq!(dropped, json!({ "dropped": { "reason": "oversize" } }));
    }

    proptest! {
        #[test]
        fn any_text_survives_splitting(seed in ".{0,40}", times in 0_usize..6_000) {
            let text = seed.repeat(times);
            let pieces = split_text(text.clone());
            prop_assert!(pieces.iter().all(|piece| piece.len() <= TEXT_BYTES));
            prop_assert_eq!(pieces.concat(), text);
        }

        #[test]
        fn whatever_is_cut_fits(seed in ".{0,40}", times in 0_usize..400, bytes in 14_usize..5_000) {
            prop_assert!(cut(seed.repeat(times), bytes).len() <= bytes);
        }
    }
}

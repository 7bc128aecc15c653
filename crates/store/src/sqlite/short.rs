//! Short forms of the JSON that every run keeps: its birth record, the fold that it ended with, its plainest events. What
//! they all say in the same words becomes a sign for each word; ids, digests and times become fewer digits.
//!
//! A short form is text that begins with a sign which JSON never holds, so what was stored whole is told apart from it and
//! read as it is. Old readers of new data: the schema's number keeps them out. What SQL looks into is stored whole.

use std::borrow::Cow;
use std::sync::LazyLock;

use callboard_protocol::Timestamp;

/// Begins a short form.
const SHORT: char = '\u{1}';
/// Before eight digits: a time in milliseconds.
const TIME: u8 = 2;
/// Before twenty-two digits: a run's id.
const RUN: u8 = 3;
/// The run's id that came last.
const SAME_RUN: u8 = 4;
/// Before forty-four digits: a digest of 32 bytes.
const DIGEST: u8 = 5;
/// Before a sign that names a word.
const WORD: u8 = 6;
/// Signs that are a word by themselves. Those that JSON may hold between its values are left out.
const WORDS_OF_ONE_SIGN: [u8; 20] =
    [8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30];
/// The first of the signs that name a word.
const FIRST_NAME: u8 = b'!';

/// The words. A place is stored, so a word keeps it for ever; new ones come at the end.
const WORDS: [&str; 58] = [
    r#"{"runId":""#,
    r#"","workflowId":""#,
    r#"","status":"completed","owner":{"tenant":""#,
    r#"","principal":""#,
    r#""},"createdAt":""#,
    r#"","startedAt":""#,
    r#"","completedAt":""#,
    r#"","variables":{},"nodeStates":{""#,
    r#"":{"status":"completed","visit":0,"attempts":1,"startedAt":""#,
    r#"","endedAt":""#,
    r#""}},"eventLogSchemaVersion":2,"lastSequence":"#,
    r#"","definition":""#,
    r#"","owner":{"tenant":""#,
    r#""},"test":false,"inputs":{},"configurable":{},"tags":[],"createdAt":""#,
    r#"","engineVersion":1,"limits":{"nodeExecutions":"#,
    r#","durationMs":31536000000,"loopIterations":"#,
    r#","confidenceFloor":0.5,"executionModel":5,"transcriptWindow":1000},"memory":{"family":""#,
    r#"},"stamp":{"era":3,"dialect":"v1","subject":{"basis":"api-key","principal":""#,
    r#"{"nodeId":""#,
    r#"","outputs":{},"durationMs":"#,
    r#"{"workflowId":""#,
    r#"","inputs":{},"transport":"rest","engineVersion":"1","owner":{"tenant":""#,
    r#"{"outputs":{},"durationMs":"#,
    r#"","typeId":"core."#,
    r#"","attempt":0}"#,
    r#"","asOf":"#,
    r#""},"test":false,"inputs":"#,
    r#""},"test":true,"inputs":"#,
    r#","configurable":{},"tags":[],"createdAt":""#,
    r#","configurable":"#,
    r#","tags":"#,
    r#","createdAt":""#,
    r#"","engineVersion":"#,
    r#","limits":{"nodeExecutions":"#,
    r#","durationMs":"#,
    r#","loopIterations":"#,
    r#","confidenceFloor":"#,
    r#","executionModel":"#,
    r#","transcriptWindow":"#,
    r#"},"memory":{"family":""#,
    r#","stamp":{"era":"#,
    r#","dialect":""#,
    r#"","subject":{"basis":""#,
    r#"","workspace":""#,
    r#"","variables":{"#,
    r#"},"nodeStates":{""#,
    r#""},""#,
    r#"":{"status":"completed","visit":"#,
    r#"":{"status":""#,
    r#"","visit":0,"attempts":1,"startedAt":""#,
    r#","visit":"#,
    r#","attempts":"#,
    r#"}},"eventLogSchemaVersion":"#,
    r#","lastSequence":"#,
    r#","attempt":"#,
    r#","outputs":{"#,
    r#","inputs":{"#,
    r#"","status":""#,
];

/// Words by their third sign, longer ones first: few of them share it.
static BY_THIRD: LazyLock<Vec<Vec<(&str, usize)>>> = LazyLock::new(|| {
    let mut all = vec![Vec::new(); 256];
    for (place, word) in WORDS.into_iter().enumerate() {
        all[usize::from(word.as_bytes()[2])].push((word, place));
    }
    all.iter_mut().for_each(|words| words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len())));
    all
});

/// A stored text that is no short form and no JSON.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a short form breaks off or holds an unknown sign")]
pub(super) struct Malformed;

/// The text as it is stored: itself where a short form would not be shorter.
pub(super) fn shorten(json: &str) -> Cow<'_, str> {
    let is_ours = |byte: u8| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    if json.bytes().any(is_ours) {
        // No JSON: it stays as it is and is found damaged by whoever reads it.
        return Cow::Borrowed(json);
    }
    let mut short = String::with_capacity(json.len() / 2);
    short.push(SHORT);
    let (mut place, mut copied, mut last_run) = (0, 0, "");
    while place < json.len() {
        let before = short.len();
        let unsaid = &json[copied..place];
        let Some(length) = sign_at(json, place, &mut last_run, unsaid, &mut short) else {
            debug_assert_eq!(before, short.len());
            place += 1;
            while !json.is_char_boundary(place) {
                place += 1;
            }
            continue;
        };
        place += length;
        copied = place;
    }
    short.push_str(&json[copied..]);
    if short.len() < json.len() { Cow::Owned(short) } else { Cow::Borrowed(json) }
}

/// Writes what has not been said yet and the sign for what begins here, if there is one; answers how much that covers.
fn sign_at<'a>(
    json: &'a str,
    place: usize,
    last_run: &mut &'a str,
    unsaid: &str,
    short: &mut String,
) -> Option<usize> {
    let bytes = json.as_bytes();
    let mut say = |sign: u8| {
        short.push_str(unsaid);
        short.push(char::from(sign));
    };
    match bytes[place] {
        b'"' | b',' | b'{' | b'}' => {
            let words = &BY_THIRD[usize::from(*bytes.get(place + 2)?)];
            let (word, number) = words.iter().find(|(word, _)| json[place..].starts_with(word))?;
            match WORDS_OF_ONE_SIGN.get(*number) {
                Some(sign) => say(*sign),
                None => {
                    let name = u8::try_from(number - WORDS_OF_ONE_SIGN.len()).ok()?;
                    say(WORD);
                    short.push(char::from(FIRST_NAME + name));
                }
            }
            Some(word.len())
        }
        b'r' => {
            let id = json.get(place..place + 36)?;
            let digits = id.strip_prefix("run_").filter(|digits| is_hex(digits))?;
            if id == *last_run {
                say(SAME_RUN);
            } else {
                say(RUN);
                push_hex(short, digits);
                *last_run = id;
            }
            Some(id.len())
        }
        b'0'..=b'9' | b'a'..=b'f' if place > 0 && bytes[place - 1] == b'"' => {
            if bytes.get(place + 23) == Some(&b'Z') && bytes[place + 4] == b'-' {
                let text = json.get(place..place + 24)?;
                let time: Timestamp = text.parse().ok()?;
                let millis = u64::try_from(time.as_millis()).ok().filter(|it| *it < 1 << 48)?;
                if time.to_string() != text {
                    return None;
                }
                say(TIME);
                push_number(short, millis, 8);
                return Some(text.len());
            }
            let digits = json.get(place..place + 64).filter(|digits| is_hex(digits))?;
            say(DIGEST);
            push_hex(short, digits);
            Some(digits.len())
        }
        _ => None,
    }
}

/// The JSON that was stored.
pub(super) fn whole(stored: &str) -> Result<Cow<'_, str>, Malformed> {
    let Some(short) = stored.strip_prefix(SHORT) else { return Ok(Cow::Borrowed(stored)) };
    let mut json = String::with_capacity(short.len() * 4);
    let (mut rest, mut last_run) = (short, 0..0);
    loop {
        let is_sign = |sign: char| sign < ' ' && !matches!(sign, '\t' | '\n' | '\r');
        let Some(place) = rest.find(is_sign) else { break };
        json.push_str(&rest[..place]);
        let sign = rest.as_bytes()[place];
        rest = &rest[place + 1..];
        let mut take = |count: usize| -> Result<&str, Malformed> {
            let taken = rest.get(..count).ok_or(Malformed)?;
            rest = &rest[count..];
            Ok(taken)
        };
        match sign {
            TIME => {
                let millis = i64::try_from(number(take(8)?)?).map_err(|_| Malformed)?;
                Timestamp::from_millis(millis).push_to(&mut json);
            }
            RUN => {
                let begins = json.len();
                json.push_str("run_");
                pull_hex(&mut json, take(22)?, 32)?;
                last_run = begins..json.len();
            }
            SAME_RUN if !last_run.is_empty() => json.extend_from_within(last_run.clone()),
            DIGEST => pull_hex(&mut json, take(44)?, 64)?,
            WORD => {
                let name = take(1)?.as_bytes()[0].checked_sub(FIRST_NAME).ok_or(Malformed)?;
                let number = usize::from(name) + WORDS_OF_ONE_SIGN.len();
                json.push_str(WORDS.get(number).ok_or(Malformed)?);
            }
            sign => {
                let number = WORDS_OF_ONE_SIGN.iter().position(|known| *known == sign);
                json.push_str(WORDS.get(number.ok_or(Malformed)?).ok_or(Malformed)?);
            }
        }
    }
    json.push_str(rest);
    Ok(Cow::Owned(json))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// So many digits of six bits, the highest first.
fn push_number(text: &mut String, number: u64, digits: u32) {
    for place in (0..digits).rev() {
        text.push(char::from(DIGITS[(number >> (6 * place)) as usize & 63]));
    }
}

fn number(digits: &str) -> Result<u64, Malformed> {
    digits.bytes().try_fold(0, |number, digit| {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return Err(Malformed),
        };
        Ok(number << 6 | u64::from(value))
    })
}

/// Three digits of four bits become two of six.
fn push_hex(text: &mut String, hex: &str) {
    for three in hex.as_bytes().chunks(3) {
        let digit = |place: usize| three.get(place).map_or(0, |digit| hex_value(*digit));
        push_number(text, digit(0) << 8 | digit(1) << 4 | digit(2), 2);
    }
}

fn hex_value(digit: u8) -> u64 {
    u64::from(if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 })
}

fn pull_hex(text: &mut String, digits: &str, count: usize) -> Result<(), Malformed> {
    let end = text.len() + count;
    // A digit of more than one byte is none of ours.
    if !digits.is_ascii() {
        return Err(Malformed);
    }
    for place in (0..digits.len()).step_by(2) {
        let value = number(digits.get(place..place + 2).ok_or(Malformed)?)?;
        for shift in [8, 4, 0] {
            let digit = u32::try_from(value >> shift & 15).map_err(|_| Malformed)?;
            text.push(char::from_digit(digit, 16).ok_or(Malformed)?);
        }
    }
    text.truncate(end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    const BIRTH: &str = r#"{"runId":"run_01a1f05c420571e2ac7349160feb2f1f","workflowId":"noop","definition":"4c4eec47dcf3bafbf96fa3156c98b62440f8e4d07e72e9f79e323cad5d0cb79c","owner":{"tenant":"default","principal":"key:static-f8973e51"},"test":false,"inputs":{},"configurable":{},"tags":[],"createdAt":"2026-11-18T20:32:20.486Z","engineVersion":1,"limits":{"nodeExecutions":100,"durationMs":31536000000,"loopIterations":100,"confidenceFloor":0.5,"executionModel":5,"transcriptWindow":1000},"memory":{"family":"run_01a1f05c420571e2ac7349160feb2f1f","asOf":0},"stamp":{"era":3,"dialect":"v1","subject":{"basis":"api-key","principal":"key:static-f8973e51"}}}"#;
    const FOLD: &str = r#"{"runId":"run_01a1f05c420571e2ac7349160feb2f1f","workflowId":"noop","status":"completed","owner":{"tenant":"default","principal":"key:static-f8973e51"},"createdAt":"2026-11-18T20:32:20.486Z","startedAt":"2026-11-18T20:32:20.513Z","completedAt":"2026-11-18T20:32:20.513Z","variables":{},"nodeStates":{"one":{"status":"completed","visit":0,"attempts":1,"startedAt":"2026-11-18T20:32:20.513Z","endedAt":"2026-11-18T20:32:20.513Z"}},"eventLogSchemaVersion":2,"lastSequence":3}"#;
    const STARTED: &str = r#"{"workflowId":"noop","inputs":{},"transport":"rest","engineVersion":"1","owner":{"tenant":"default","principal":"key:static-f8973e51"}}"#;
    const ODD: &str = "{\"run_\":\"run_01a1f05c420571e2ac7349160feb2f1\u{fc}\",\"a\":\"2026-02-30T20:32:20.486Z\",\n\t\"b\":\"1969-12-31T23:59:59.999Z\",\"c\":\"2026-11-18T20:32:20.486z\",\"run_01a1f05c420571e2ac7349160feb2f1f\":\"run_ffffffffffffffffffffffffffffffff\"}";

    fn back(json: &str) -> String {
        whole(&shorten(json)).map(Cow::into_owned).unwrap_or_default()
    }

    #[test]
    fn a_short_form_is_read_as_what_it_was() {
        for json in [BIRTH, FOLD, STARTED, ODD, "{}", "", "null", "\"\u{1f980}\""] {
            assert_eq!(back(json), json);
        }
        assert!(WORDS.iter().all(|word| back(word) == *word));
    }

    /// Every beginning, every end and every join of what there is.
    #[test]
    fn whatever_is_cut_or_joined_is_read_as_it_was() {
        for json in [BIRTH, FOLD, STARTED, ODD] {
            for (place, _) in json.char_indices() {
                let (begin, end) = json.split_at(place);
                assert_eq!(back(begin), begin);
                assert_eq!(back(end), end);
                let joined = format!("{end}\u{e4}{begin}{STARTED}");
                assert_eq!(back(&joined), joined);
            }
        }
    }

    #[test]
    fn what_every_run_keeps_takes_less_than_a_third() {
        for json in [BIRTH, FOLD] {
            let short = shorten(json).len();
            assert!(short * 3 < json.len(), "{short} of {}", json.len());
        }
        assert!(shorten(STARTED).len() * 2 < STARTED.len());
    }

    #[test]
    fn what_was_stored_whole_is_read_as_it_is() {
        for json in [BIRTH, "{}", "{ \"a\": [1, 2] }"] {
            assert_eq!(whole(json), Ok(Cow::Borrowed(json)));
        }
    }

    #[test]
    fn what_is_damaged_is_refused_or_read_and_nothing_breaks() {
        for short in [
            "\u{1}\u{2}AAA",
            "\u{1}\u{3}A",
            "\u{1}\u{4}",
            "\u{1}\u{5}",
            "\u{1}\u{6}",
            "\u{1}\u{6}~",
            "\u{1}\u{7}",
            "\u{1}\u{1f}",
            "\u{1}\u{2}AAAAAAA\u{e4}",
        ] {
            assert_eq!(whole(short), Err(Malformed), "{short:?}");
        }
        let short = shorten(BIRTH).into_owned();
        for (place, _) in short.char_indices() {
            let _read = whole(&short[..place]);
            let damaged = format!("{}\u{fc}{}", &short[..place], &short[place..]);
            let _read = whole(&damaged);
        }
    }

    /// Their places are stored: a change here makes every database unreadable that was written before.
    #[test]
    fn words_keep_their_places() {
        assert!(WORDS.iter().all(|word| word.len() > 3 && word.is_ascii()));
        let known = WORDS[..58].join("\n");
        let digest = callboard_protocol::hex(&Sha256::digest(known)[..8]);
        assert_eq!(digest, "82222e07481b6451");
    }
}

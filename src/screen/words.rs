//! Durations, times and values as people read and write them.

use std::time::Duration;

use comfy_table::{Cell, Color};
use serde::Serialize;
use serde_json::Value;

use callboard_agents::Scripted;
use callboard_engine::{Clock, SystemClock};
use callboard_protocol::{RunCost, RunStatus, RunTokens, Timestamp};

use crate::screen::output;

/// Longer values are cut, so that most lines fit into eighty columns; `--json` shows them whole.
const PREVIEW_CHARS: usize = 40;

pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.2} s", duration.as_secs_f64()),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// How long ago, or how long until then, for a person; the exact time for a pipe.
pub(crate) fn moment(at: Timestamp) -> String {
    if output::is_terminal() { seen_from(SystemClock.now(), at) } else { at.to_string() }
}

fn seen_from(now: Timestamp, at: Timestamp) -> String {
    if at > now {
        format!("in {}", duration(at.since(now)))
    } else {
        format!("{} ago", duration(now.since(at)))
    }
}

/// A time to come.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| format!("{text:?} is no time like 2026-01-31T08:00:00Z"))
}

/// A moment as people give it: RFC 3339, or how long ago (`90s`, `15m`, `2h`, `7d`).
pub(crate) fn parse_moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let wrong = || {
        format!(
            "{text:?} is neither a time like 2026-01-31T08:00:00Z nor an age like 90s, 15m, 2h or 7d"
        )
    };
    let age = span(text).ok_or_else(wrong)?;
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Ok(Timestamp::from_millis(SystemClock.now().as_millis().saturating_sub(age)))
}

/// A length of time as people give it: `90s`, `15m`, `2h`, `7d`.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    span(text).ok_or_else(|| format!("{text:?} is no length of time like 90s, 15m, 2h or 7d"))
}

fn span(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86400,
        _ => return None,
    };
    Some(Duration::from_secs(count.saturating_mul(seconds)))
}

/// Compact JSON, cut where it gets long.
pub(crate) fn preview(value: &Value) -> String {
    let text = compact(value);
    match text.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// JSON on one line.
pub(crate) fn compact<T: Serialize>(value: &T) -> String {
    escape(&serde_json::to_string(value).unwrap_or_default())
}

/// JSON, indented for people.
pub(crate) fn pretty<T: Serialize>(value: &T) -> String {
    escape(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// The same JSON without the control characters that JSON lets stand, which drive a terminal like those that it
/// does not.
fn escape(json: &str) -> String {
    let unseen = |c: char| c.is_control() && c != '\n';
    if !json.contains(unseen) {
        return json.to_owned();
    }
    let written = |c: char| if unseen(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    json.chars().map(written).collect()
}

/// Text from outside without what would move the cursor or change the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Dollars, to three digits that count however small the sum is.
pub(crate) fn dollars(usd: f64) -> String {
    if usd <= 0.0 || !usd.is_finite() {
        return "$0.00".to_owned();
    }
    // Smaller amounts than this are not paid.
    let places = (2.0 - usd.log10().floor()).clamp(2.0, 12.0) as usize;
    let text = format!("{usd:.places$}");
    let (whole, cents) = text.split_once('.').unwrap_or((&text, "00"));
    let told = cents.trim_end_matches('0');
    format!("${whole}.{told:0<2}")
}

/// What models were paid, if any were asked.
pub(crate) fn cost(cost: &RunCost) -> String {
    let RunTokens { input, output } = cost.tokens;
    let usd = match cost.usd {
        Some(0.0) => "free".to_owned(),
        Some(usd) => format!("about {}", dollars(usd)),
        None => "unknown".to_owned(),
    };
    let by = match cost.provider.as_deref() {
        Some(Scripted::PROVIDER) => " of the scripted stand-in: no model was asked",
        Some(_) | None => "",
    };
    format!("{usd}, {input} tokens in, {output} out{by}")
}

pub(crate) fn status_cell(status: RunStatus) -> Cell {
    let cell = Cell::new(status.as_str());
    match status {
        RunStatus::Completed => cell.fg(Color::Green),
        RunStatus::Failed => cell.fg(Color::Red),
        RunStatus::Running | RunStatus::Pending => cell.fg(Color::Cyan),
        RunStatus::Paused
        | RunStatus::WaitingApproval
        | RunStatus::WaitingInput
        | RunStatus::WaitingExternal
        | RunStatus::Cancelling
        | RunStatus::Cancelled => cell.fg(Color::Yellow),
    }
}

/// Whether all of a pack is proven to be its publisher's.
pub(crate) fn verified_cell(is_verified: bool) -> Cell {
    match is_verified {
        true => Cell::new("yes").fg(Color::Green),
        false => Cell::new("no").fg(Color::Yellow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_two_units() {
        let seen =
            [7, 1_240, 61_000, 3_720_000, 90_000_000].map(|ms| duration(Duration::from_millis(ms)));
        assert_eq!(seen, ["7 ms", "1.24 s", "1m 01s", "1h 02m", "1d 01h"]);
    }

    #[test]
    fn no_sum_is_too_small_to_be_told() {
        let sums = [0.0, 1e-13, 0.000_004_567, 0.001, 0.0123, 0.5, 0.999, 1.0, 12.345, 1234.5];
        assert_eq!(
            sums.map(dollars),
            [
                "$0.00",
                "$0.00",
                "$0.00000457",
                "$0.001",
                "$0.0123",
                "$0.50",
                "$0.999",
                "$1.00",
                "$12.35",
                "$1234.50"
            ]
        );
    }

    #[test]
    fn moments_are_times_or_ages() {
        assert_eq!(
            parse_moment("2026-01-31T08:00:00Z").map(|at| at.as_millis()),
            Ok(1_769_846_400_000)
        );
        assert!(parse_moment("2h").is_ok_and(|at| at < SystemClock.now()));
        for wrong in ["", "h", "2w", "yesterday", "-5m"] {
            assert!(parse_moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments_lie_behind_or_ahead() {
        let seen = |at| seen_from(Timestamp::from_millis(100_000), Timestamp::from_millis(at));
        assert_eq!([40_000, 100_000, 165_000].map(seen), ["1m 00s ago", "0 ms ago", "in 1m 05s"]);
    }

    #[test]
    fn foreign_text_cannot_drive_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{9b}0m\nc"), "a[2Jb0m\nc");
    }

    #[test]
    fn json_says_the_same_without_what_drives_a_terminal() {
        let value = serde_json::json!({ "a": "\u{1b}\u{7f}\u{9b}2J\n" });
        for text in [compact(&value), pretty(&value), preview(&value)] {
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
            assert_eq!(serde_json::from_str::<Value>(&text).ok().as_ref(), Some(&value));
        }
    }
}

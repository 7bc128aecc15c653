//! Durations, times and values as people read and write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use comfy_table::{Cell, Color};
use serde_json::Value;

use callboard_protocol::{RunStatus, Timestamp};

use crate::output;

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

pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// How long ago for a person; the exact time for a pipe.
pub(crate) fn moment(at: Timestamp) -> String {
    if output::is_terminal() {
        format!("{} ago", duration(now().since(at)))
    } else {
        at.to_string()
    }
}

/// How long it is until then for a person; the exact time for a pipe.
pub(crate) fn until(at: Timestamp) -> String {
    if output::is_terminal() { format!("in {}", duration(at.since(now()))) } else { at.to_string() }
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
    let unit = text.chars().last().ok_or_else(wrong)?;
    let count: u64 =
        text.strip_suffix(unit).and_then(|count| count.parse().ok()).ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86400,
        _ => return Err(wrong()),
    };
    let age = i64::try_from(count.saturating_mul(seconds).saturating_mul(1000)).unwrap_or(i64::MAX);
    Ok(Timestamp::from_millis(now().as_millis().saturating_sub(age)))
}

/// Compact JSON, cut where it gets long.
pub(crate) fn preview(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Text from outside without what would move the cursor or change the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
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
    fn moments_are_times_or_ages() {
        assert_eq!(
            parse_moment("2026-01-31T08:00:00Z").map(|at| at.as_millis()),
            Ok(1_769_846_400_000)
        );
        assert!(parse_moment("2h").is_ok_and(|at| at < now()));
        for wrong in ["", "h", "2w", "yesterday", "-5m"] {
            assert!(parse_moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn foreign_text_cannot_drive_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a[2Jb\nc");
    }
}

//! Times, amounts and states as people read them.

use std::time::Duration;

use callboard_protocol::Timestamp;
use maud::{Markup, html};

/// A length of time in at most two units.
pub(crate) fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 => format!("{} ms", length.as_millis()),
        1..=59 => format!("{:.1} s", length.as_secs_f64()),
        60..=3599 => two(seconds / 60, "m", seconds % 60, "s"),
        3600..=86_399 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

fn two(large: u64, unit: &str, small: u64, smaller: &str) -> String {
    if small == 0 { format!("{large} {unit}") } else { format!("{large} {unit} {small} {smaller}") }
}

/// A distance in time, without saying in which direction.
fn about(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} m", seconds / 60),
        3600..=86_399 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A point in time from here, with the exact one behind it.
pub(crate) fn when(now: Timestamp, at: Option<Timestamp>) -> Markup {
    let Some(at) = at else { return html! { span.muted { "–" } } };
    let text = if at > now {
        format!("in {}", about(at.since(now)))
    } else {
        format!("{} ago", about(now.since(at)))
    };
    html! { time datetime=(at) title=(exact(at)) { (text) } }
}

/// `2026-01-31 07:00:00 UTC`
pub(crate) fn exact(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} {} UTC", text.get(..10).unwrap_or_default(), text.get(11..19).unwrap_or_default())
}

pub(crate) fn money(usd: f64) -> String {
    match usd {
        0.0 => "$0".to_owned(),
        usd if usd.abs() < 0.01 => format!("${usd:.4}"),
        usd => format!("${usd:.2}"),
    }
}

/// With thin groups of three digits up to a million, then in round numbers.
pub(crate) fn count(number: u64) -> String {
    match number {
        0..=9_999 => number.to_string(),
        10_000..=999_999 => format!("{:.1}k", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// How a state is shown: its sign and its family of colour.
pub(crate) fn look(status: &str) -> (&'static str, &'static str) {
    match status {
        "completed" | "done" | "active" | "delivered" | "fired" | "ok" => ("✓", "good"),
        "failed" | "dead-lettered" | "error" | "revoked" | "timeout" => ("✕", "bad"),
        "running" | "doing" | "cancelling" => ("▸", "busy"),
        "cancelled" | "skipped" | "deprecated" | "rolled-back" | "expired" => ("■", "quiet"),
        "paused" | "resting" => ("‖", "wait"),
        status if status.starts_with("waiting") || status == "suspended" => ("◔", "wait"),
        _ => ("○", "quiet"),
    }
}

/// A state by shape, colour and word.
pub(crate) fn status(status: &str) -> Markup {
    let (sign, family) = look(status);
    html! { span class={ "status " (family) } { span.sign aria-hidden="true" { (sign) } (status) } }
}

/// What is in `text` of an id that a person tells apart by: long random parts are cut in the middle.
pub(crate) fn short(id: &str) -> String {
    let signs: Vec<char> = id.chars().collect();
    if signs.len() <= 22 {
        return id.to_owned();
    }
    // A name with a publisher in front, such as that of an agent: people know its end.
    let mut parts = id.rsplit('.');
    if let (Some(last), Some(pack), Some(_)) = (parts.next(), parts.next(), parts.next()) {
        return format!("{pack}.{last}");
    }
    let (head, tail) = (&signs[..8], &signs[signs.len() - 8..]);
    format!("{}…{}", head.iter().collect::<String>(), tail.iter().collect::<String>())
}

/// An id that can be copied with a click.
pub(crate) fn id(text: &str) -> Markup {
    html! { code.id data-copy=(text) title=(text) { (short(text)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_read_in_two_units() {
        let read = |millis| duration(Duration::from_millis(millis));
        assert_eq!(
            [12, 1_410, 60_000, 200_000, 7_260_000, 90_000_000].map(read),
            ["12 ms", "1.4 s", "1 m", "3 m 20 s", "2 h 1 m", "1 d 1 h"]
        );
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!([0.0, 0.0004, 0.5, 12.345].map(money), ["$0", "$0.0004", "$0.50", "$12.35"]);
        assert_eq!([7, 9_999, 12_345, 3_400_000].map(count), ["7", "9999", "12.3k", "3.4M"]);
        assert_eq!(short("run_01a1ec86510f72f4a49dd632f1abf7e5"), "run_01a1…f1abf7e5");
        assert_eq!(short("community.callboard.starter.triager"), "starter.triager");
    }
}

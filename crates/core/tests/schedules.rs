//! Schedules as arithmetic: patterns, zones, clocks that are put forward and back.
#![cfg(test)]

use callboard_core::{Cron, HORIZON, ScheduleError, within_horizon};
use callboard_protocol::Timestamp;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The first fires after an instant, written without their milliseconds.
fn fires(pattern: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::read(pattern, zone).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    let fires = cron.fires(at(after)).take(count);
    fires.map(|fire| fire.to_string().replace(".000Z", "Z")).collect()
}

fn refusal(pattern: &str, zone: &str) -> ScheduleError {
    Cron::read(pattern, zone).expect_err(pattern)
}

#[test]
fn a_pattern_fires_at_the_wall_clock_of_its_zone() {
    assert_eq!(
        fires("0 9 * * MON", "UTC", "2026-11-16T09:00:00Z", 2),
        ["2026-11-23T09:00:00Z", "2026-11-30T09:00:00Z"]
    );
    assert_eq!(
        fires("30 9 * * MON-FRI", "America/New_York", "2026-11-13T14:30:00Z", 2),
        ["2026-11-16T14:30:00Z", "2026-11-17T14:30:00Z"]
    );
    assert_eq!(
        fires("0 0 1 JAN *", "Asia/Kolkata", "2026-01-01T00:00:00Z", 1),
        ["2026-12-31T18:30:00Z"]
    );
}

#[test]
fn six_fields_begin_with_seconds() {
    assert_eq!(
        fires("*/20 * * * * *", "UTC", "2026-11-16T08:59:39.999Z", 3),
        ["2026-11-16T08:59:40Z", "2026-11-16T09:00:00Z", "2026-11-16T09:00:20Z"]
    );
    assert_eq!(fires("* * * * * *", "UTC", "2026-11-16T09:00:00Z", 1), ["2026-11-16T09:00:01Z"]);
}

#[test]
fn seven_is_sunday_and_days_of_month_and_week_are_alternatives() {
    let sunday = ["2026-11-22T00:00:00Z"];
    assert_eq!(fires("0 0 * * 7", "UTC", "2026-11-16T00:00:00Z", 1), sunday);
    assert_eq!(fires("0 0 * * 0", "UTC", "2026-11-16T00:00:00Z", 1), sunday);
    assert_eq!(
        fires("0 0 20 * MON", "UTC", "2026-11-16T00:00:00Z", 2),
        ["2026-11-20T00:00:00Z", "2026-11-23T00:00:00Z"]
    );
}

/// In Berlin, 29 March 2026 has no hour from two to three.
#[test]
fn a_missing_time_fires_once_at_the_first_valid_minute() {
    let first_valid = "2026-03-29T01:00:00Z";
    let fired = |pattern| fires(pattern, "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
    assert_eq!(fired("30 2 * * *"), [first_valid, "2026-03-30T00:30:00Z"]);
    assert_eq!(fired("*/15 2 * * *"), [first_valid, "2026-03-30T00:00:00Z"]);
    assert_eq!(fired("30 2,3 * * *"), [first_valid, "2026-03-29T01:30:00Z"]);
    assert_eq!(fired("15 30 2 * * *"), [first_valid, "2026-03-30T00:30:15Z"]);
}

/// In Berlin, 25 October 2026 has the hour from two to three twice.
#[test]
fn a_repeated_time_fires_at_its_first_occurrence() {
    let fired = |pattern| fires(pattern, "Europe/Berlin", "2026-10-24T12:00:00Z", 3);
    assert_eq!(
        fired("30 2 * * *"),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z", "2026-10-27T01:30:00Z"]
    );
    assert_eq!(
        fired("0,30 2 * * *"),
        ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z"]
    );
    // Asked in the middle of the second time round.
    assert_eq!(
        fires("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1),
        ["2026-10-26T01:30:00Z"]
    );
}

#[test]
fn a_wildcard_hour_keeps_its_pace() {
    assert_eq!(
        fires("30 * * * *", "Europe/Berlin", "2026-03-28T23:31:00Z", 3),
        ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"]
    );
    assert_eq!(
        fires("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 5),
        [
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:30:00Z",
            "2026-10-25T02:00:00Z"
        ]
    );
}

#[test]
fn what_is_no_pattern_is_refused() {
    for pattern in [
        "0 9 MON-FRI",
        "@daily   ",
        "0 9 * * * * *",
        "61 * * * *",
        "*/0.5 * * * *",
        "0 25 * * *",
        "0 9 * * FUNDAY",
        "0 9 * * *; rm",
        "9-5 * * * *",
        "",
        "* * * *",
        &format!("{} 9 * * *", "1,".repeat(130)),
    ] {
        assert!(matches!(refusal(pattern, "UTC"), ScheduleError::Pattern(_)), "{pattern}");
    }
    for zone in ["Mars/Olympus", "", "../etc/passwd", "CET+1"] {
        let refused = refusal("0 9 * * *", zone);
        assert_eq!(refused, ScheduleError::TimeZone(zone.to_owned()));
    }
}

#[test]
fn a_day_that_never_comes_and_one_that_comes_too_late_are_refused() {
    let now = at("2026-11-16T00:00:00Z");
    let never = Cron::read("0 0 30 2 *", "UTC").unwrap().next_after(now);
    assert_eq!(within_horizon(never, now), Err(ScheduleError::Never));
    let leap = Cron::read("0 0 29 2 *", "UTC").unwrap().next_after(now);
    assert_eq!(within_horizon(leap, now), Ok(at("2028-02-29T00:00:00Z")));
    let late = now.plus(HORIZON).plus_millis(1);
    assert_eq!(within_horizon(Some(late), now), Err(ScheduleError::BeyondHorizon));
}

#[test]
fn catching_up_finds_the_last_slot_and_the_next() {
    let hourly = Cron::read("0 * * * *", "UTC").unwrap();
    let slot = at("2026-11-16T09:00:00Z");
    let (last, next) = hourly.catch_up(slot, at("2026-11-16T09:00:00.200Z"));
    assert_eq!((last, next), (slot, Some(at("2026-11-16T10:00:00Z"))));
    let (last, next) = hourly.catch_up(slot, at("2026-11-18T11:59:00Z"));
    assert_eq!((last, next), (at("2026-11-18T11:00:00Z"), Some(at("2026-11-18T12:00:00Z"))));
    let yearly = Cron::read("0 0 1 1 *", "UTC").unwrap();
    let (last, _) = yearly.catch_up(at("2022-01-01T00:00:00Z"), at("2026-11-16T00:00:00Z"));
    assert_eq!(last, at("2026-01-01T00:00:00Z"));
    let seconds = Cron::read("* * * * * *", "UTC").unwrap();
    let (last, _) = seconds.catch_up(at("2020-01-01T00:00:00Z"), at("2026-11-16T00:00:00.9Z"));
    assert_eq!(last, at("2026-11-16T00:00:00Z"));
}

#[test]
fn a_pattern_is_told_in_plain_words() {
    let cron = Cron::read("0 9 * * MON-FRI", "Europe/Berlin").unwrap();
    assert_eq!(cron.describe(), "At 09:00, Monday to Friday (Europe/Berlin)");
    let other = |text| Cron::read(text, "UTC").unwrap().describe();
    assert_eq!(other("*/2 * * * *"), "Every 2 minutes (UTC)");
    assert_eq!(other("30 7 * * MON"), "At 07:30, on Monday (UTC)");
    assert_eq!(cron.text(), "0 9 * * MON-FRI");
}

//! `core.openwop.data.datetime-*`. A time is RFC 3339, RFC 2822, a date, or milliseconds since 1970; one without a
//! zone is meant in UTC.

use callboard_protocol::{Failure, Object, Timestamp};
use jiff::Zoned;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::given::{Given, invalid};
use super::meter::Meter;
use super::number::number;
use super::outputs;

/// No time is written with more.
const LONGEST: usize = 100;

pub(super) fn now(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let zone = given.configured_text("timezone")?.unwrap_or("UTC");
    time_zone(zone)?;
    let millis = given.at.as_millis();
    Ok(outputs([
        ("iso", iso(millis)?.into()),
        ("epochMs", millis.into()),
        ("epochSec", millis.div_euclid(1_000).into()),
        ("timezone", zone.into()),
    ]))
}

pub(super) fn parse(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let found = read_text(given.text("text")?);
    Ok(match found {
        None => outputs([("valid", false.into()), ("iso", Value::Null), ("epochMs", Value::Null)]),
        Some(millis) => outputs([
            ("valid", true.into()),
            ("iso", iso(millis)?.into()),
            ("epochMs", millis.into()),
        ]),
    })
}

pub(super) fn format(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let formats = ["iso", "rfc2822", "epoch-ms", "epoch-s", "locale"];
    let format = given.choice("format", formats, Some("iso"))?;
    let millis = time(given, "timestamp")?;
    let zone = given.configured_text("timezone")?.unwrap_or("UTC");
    let zoned = stamp(millis)?.to_zoned(time_zone(zone)?);
    let text = match format {
        "iso" => iso(millis)?,
        "rfc2822" => stamp(millis)?.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
        "epoch-ms" => millis.to_string(),
        "epoch-s" => millis.div_euclid(1_000).to_string(),
        _ => local(&zoned, given.configured_text("locale")?.unwrap_or("en-US"))?,
    };
    Ok(outputs([("text", text.into())]))
}

fn local(time: &Zoned, locale: &str) -> Result<String, Failure> {
    let pattern = match locale {
        "en" | "en-US" => "%b %-d, %Y, %-I:%M:%S %p",
        "en-GB" => "%-d %b %Y, %H:%M:%S",
        "de" | "de-DE" | "de-AT" => "%d.%m.%Y, %H:%M:%S",
        _ => return Err(invalid("config.locale must be en-US, en-GB or de-DE")),
    };
    Ok(time.strftime(pattern).to_string())
}

pub(super) fn add(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let amount = given.configured_number("amount")?;
    let amount = amount.ok_or_else(|| invalid("config.amount is missing"))?;
    let unit = unit_millis(unit(given, None)?);
    let added = amount * f64::from(unit);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and what is too far is refused"
    )]
    let millis = time(given, "timestamp")?.saturating_add(added as i64);
    Ok(outputs([("iso", iso(millis)?.into()), ("epochMs", millis.into())]))
}

/// How much later `b` is than `a`.
pub(super) fn difference(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let unit = unit(given, Some("s"))?;
    let millis = time(given, "b")? - time(given, "a")?;
    #[expect(clippy::cast_precision_loss, reason = "times of the calendar are within 2^53")]
    let diff = number(millis as f64 / f64::from(unit_millis(unit)))?;
    Ok(outputs([("diff", diff), ("diffMs", millis.into()), ("unit", unit.into())]))
}

/// With the zone's own offset, so that the text is a time as well.
pub(super) fn in_timezone(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let zone = given.required_text("timezone")?;
    let zoned = stamp(time(given, "timestamp")?)?.to_zoned(time_zone(zone)?);
    let text = zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    Ok(outputs([("text", text.into()), ("timezone", zone.into())]))
}

/// The milliseconds that a value stands for.
pub(crate) fn read_time(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => read_text(text),
        Value::Number(number) => {
            let millis = number.as_f64()?.trunc();
            #[expect(clippy::cast_possible_truncation, reason = "saturates, and is checked below")]
            Some(millis as i64).filter(|millis| stamp(*millis).is_ok())
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn time(given: &Given<'_>, key: &str) -> Result<i64, Failure> {
    read_time(given.input(key)?).ok_or_else(|| {
        invalid(format!(
            "the input {key} must be a time, as RFC 3339 writes it or in milliseconds since 1970"
        ))
    })
}

fn read_text(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.len() > LONGEST {
        return None;
    }
    let in_utc = |time: DateTime| time.to_zoned(TimeZone::UTC).ok().map(|it| it.timestamp());
    let found = text
        .parse::<jiff::Timestamp>()
        .ok()
        .or_else(|| jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp()))
        .or_else(|| text.parse::<DateTime>().ok().and_then(in_utc))
        .or_else(|| text.parse::<Date>().ok().and_then(|date| in_utc(date.into())))?;
    Some(found.as_millisecond())
}

fn stamp(millis: i64) -> Result<jiff::Timestamp, Failure> {
    jiff::Timestamp::from_millisecond(millis)
        .map_err(|_| invalid("the time is beyond the calendar"))
}

fn iso(millis: i64) -> Result<String, Failure> {
    stamp(millis)?;
    Ok(Timestamp::from_millis(millis).to_string())
}

fn time_zone(name: &str) -> Result<TimeZone, Failure> {
    TimeZone::get(name)
        .map_err(|_| invalid("config.timezone must be a name such as Europe/Berlin or UTC"))
}

fn unit(given: &Given<'_>, default: Option<&'static str>) -> Result<&'static str, Failure> {
    given.choice("unit", ["ms", "s", "m", "h", "d", "w"], default)
}

fn unit_millis(unit: &str) -> u32 {
    match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 604_800_000,
    }
}

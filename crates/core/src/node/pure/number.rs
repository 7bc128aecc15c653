//! `core.openwop.data.number-*`, and `core.openwop.data.uuid`.

use callboard_protocol::{Failure, Object};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::given::{Given, invalid};
use super::meter::{EACH, Meter};
use super::outputs;

/// As many digits as formatters elsewhere take.
const MOST_DIGITS: usize = 100;
/// Whole numbers up to here are exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

pub(super) fn clamp(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let least = given.configured_number("min")?.unwrap_or(f64::NEG_INFINITY);
    let most = given.configured_number("max")?.unwrap_or(f64::INFINITY);
    let value = number(given.number("value")?.max(least).min(most))?;
    Ok(outputs([("value", value)]))
}

pub(super) fn round(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let mode = given.choice("mode", ["half-up", "floor", "ceil", "trunc"], Some("half-up"))?;
    let places = given.configured_number("places")?.unwrap_or(0.0);
    if places.fract() != 0.0 || places.abs() > 300.0 {
        return Err(invalid("config.places must be a whole number from -300 to 300"));
    }
    let factor = 10_f64.powf(places.abs());
    let value = given.number("value")?;
    let scaled = if places < 0.0 { value / factor } else { value * factor };
    let rounded = match mode {
        "floor" => scaled.floor(),
        "ceil" => scaled.ceil(),
        "trunc" => scaled.trunc(),
        _ => (scaled + 0.5).floor(),
    };
    let value = number(if places < 0.0 { rounded * factor } else { rounded / factor })?;
    Ok(outputs([("value", value)]))
}

pub(super) fn format(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let style =
        given.choice("style", ["decimal", "currency", "percent", "unit"], Some("decimal"))?;
    let marks = Marks::of(given.configured_text("locale")?.unwrap_or("en-US"))?;
    let currency = given.configured_text("currency")?;
    let value = given.number("value")?;
    let (least, most) = match style {
        "currency" if matches!(currency, Some("JPY" | "KRW")) => (0, 0),
        "currency" => (2, 2),
        "percent" => (0, 0),
        "unit" => return Err(invalid("config.style unit names no unit; use decimal")),
        _ => (0, 3),
    };
    let asked_least = given.configured_whole("minimumFractionDigits", 0)?;
    let asked_most = given.configured_whole("maximumFractionDigits", 0)?;
    let least_digits = asked_least.unwrap_or_else(|| asked_most.map_or(least, |it| it.min(least)));
    let most_digits = asked_most.unwrap_or_else(|| most.max(least_digits));
    if most_digits > MOST_DIGITS || least_digits > most_digits {
        return Err(invalid(format!(
            "the fraction digits must be at most {MOST_DIGITS}, the fewest not above the most"
        )));
    }
    // The longest number has 309 digits before its point.
    meter.make(EACH + 512)?;
    let scaled = if style == "percent" { value * 100.0 } else { value };
    let digits = marks.write(scaled.abs(), least_digits, most_digits);
    let text = match style {
        "percent" => marks.with_sign(&digits, "%"),
        "currency" => {
            let currency = currency.ok_or_else(|| invalid("config.currency is missing"))?;
            marks.with_currency(&digits, currency)
        }
        _ => digits.clone(),
    };
    let is_negative = scaled < 0.0 && digits.contains(|sign| ('1'..='9').contains(&sign));
    let text = if is_negative { format!("-{text}") } else { text };
    Ok(outputs([("text", text.into())]))
}

/// How a language writes numbers.
struct Marks {
    group: char,
    point: char,
    /// Whether signs stand behind the number, with a space.
    behind: bool,
}

impl Marks {
    fn of(locale: &str) -> Result<Self, Failure> {
        let language = locale.split(['-', '_']).next().unwrap_or_default();
        let (group, point, behind) = match language {
            "en" => (',', '.', false),
            "de" | "es" | "it" | "nl" | "pt" => ('.', ',', true),
            "fr" => ('\u{202f}', ',', true),
            _ => {
                return Err(invalid(
                    "config.locale must be of the languages de, en, es, fr, it, nl or pt",
                ));
            }
        };
        Ok(Self { group, point, behind })
    }

    fn write(&self, value: f64, least: usize, most: usize) -> String {
        let text = format!("{value:.most$}");
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let mut written = String::new();
        for (place, digit) in whole.chars().enumerate() {
            if place > 0 && (whole.len() - place).is_multiple_of(3) {
                written.push(self.group);
            }
            written.push(digit);
        }
        let needed = fraction.trim_end_matches('0').len().max(least);
        if needed > 0 {
            written.push(self.point);
            written.push_str(&fraction[..needed]);
        }
        written
    }

    fn with_sign(&self, digits: &str, sign: &str) -> String {
        if self.behind { format!("{digits}\u{a0}{sign}") } else { format!("{digits}{sign}") }
    }

    fn with_currency(&self, digits: &str, currency: &str) -> String {
        let symbol = match currency {
            "USD" => "$",
            "EUR" => "€",
            "GBP" => "£",
            "JPY" => "¥",
            other => other,
        };
        if self.behind {
            return self.with_sign(digits, symbol);
        }
        let space = if symbol == currency { "\u{a0}" } else { "" };
        format!("{symbol}{space}{digits}")
    }
}

/// Made from the run, the node and its attempt, so that a replay has the same one.
pub(super) fn uuid(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let digest = Sha256::digest((given.name)());
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&digest[..16]);
    // Version 8 of RFC 9562: bits of one's own choice.
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex = callboard_protocol::hex(bytes);
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(outputs([("uuid", parts.join("-").into())]))
}

/// A JSON number; whole ones without a point.
pub(super) fn number(value: f64) -> Result<Value, Failure> {
    if value.fract() == 0.0 && value.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within 2^53")]
        return Ok(Value::from(value as i64));
    }
    serde_json::Number::from_f64(value)
        .map(Value::Number)
        .ok_or_else(|| invalid("the result is no finite number"))
}

/// A number, or a text or truth value that stands for one.
pub(super) fn to_number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

//! Points in time as the log keeps them: whole milliseconds since 1970, RFC 3339 on the wire.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last instant that RFC 3339 can write; later ones saturate to it.
    const MAX: i64 = 253_402_200_000_000;
    /// Midnight of year 1: earlier ones saturate to it.
    const MIN: i64 = -62_135_596_800_000;

    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(Self::MIN, Self::MAX))
    }

    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// The time that has passed since `earlier`; zero when a clock went backwards.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }

    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        self.plus(Duration::from_millis(millis))
    }

    /// Behind the text that is there.
    pub fn push_to(self, text: &mut String) {
        self.with_text(|at| text.push_str(at));
    }

    /// Every answer holds a dozen of these, so they are written without the formatting machinery.
    fn with_text<T>(self, write: impl FnOnce(&str) -> T) -> T {
        // Both bounds are within what jiff knows.
        let at = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        let at = jiff::tz::Offset::UTC.to_datetime(at);
        let [y1, y2, y3, y4] = digits(at.year());
        let [m1, m2] = digits(at.month().into());
        let [d1, d2] = digits(at.day().into());
        let [h1, h2] = digits(at.hour().into());
        let [n1, n2] = digits(at.minute().into());
        let [s1, s2] = digits(at.second().into());
        let [f1, f2, f3] = digits(at.millisecond());
        let text = [
            y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2,
            b'.', f1, f2, f3, b'Z',
        ];
        write(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// The last digits of a number that is not negative.
fn digits<const N: usize>(mut number: i16) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
    digits
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(text))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl std::str::FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::from_millis(text.parse::<jiff::Timestamp>()?.as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_reads_rfc_3339_with_milliseconds() {
        let at = Timestamp::from_millis(1_763_251_200_007);
        assert_eq!(at.to_string(), "2025-11-16T00:00:00.007Z");
        assert_eq!(at.to_string().parse::<Timestamp>().ok(), Some(at));
        let bounds = [i64::MIN, -1, 951_827_696_789, i64::MAX].map(Timestamp::from_millis);
        assert_eq!(
            bounds.map(|at| at.to_string()),
            [
                "0001-01-01T00:00:00.000Z",
                "1969-12-31T23:59:59.999Z",
                "2000-02-29T12:34:56.789Z",
                "9999-12-30T20:00:00.000Z",
            ]
        );
    }

    #[test]
    fn absurd_values_saturate_instead_of_failing() {
        for millis in [i64::MIN, i64::MAX] {
            let text = Timestamp::from_millis(millis).to_string();
            assert!(text.parse::<Timestamp>().is_ok(), "{text}");
        }
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), Duration::ZERO);
    }
}

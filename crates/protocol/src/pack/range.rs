//! Ranges of versions, as manifests write them: `>=1.1.0 <2.0.0`, `^1.1`, `1.x || 2.0.0`.

use std::str::FromStr;

type Numbers = [u64; 3];

/// Which releases of something are fine. Prereleases count as the release that they lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange {
    /// One of these must hold, and of it every part.
    alternatives: Vec<Vec<Span>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} must be a range of versions, as in >=1.1.0 <2.0.0")]
pub struct RangeTextError(String);

/// From one release up to another that is no longer part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: Numbers,
    until: Option<Numbers>,
}

impl VersionRange {
    /// Whether a release is part of the range; one that is written short, as in 1.1, is its first.
    pub fn includes(&self, release: &str) -> bool {
        let Some(release) = Partial::read(release).map(|release| release.first()) else {
            return false;
        };
        let holds =
            |span: &Span| span.from <= release && span.until.is_none_or(|until| release < until);
        self.alternatives.iter().any(|spans| spans.iter().all(holds))
    }
}

impl FromStr for VersionRange {
    type Err = RangeTextError;

    fn from_str(text: &str) -> Result<Self, RangeTextError> {
        let alternatives: Option<_> = text.split("||").map(spans).collect();
        alternatives
            .map(|alternatives| Self { alternatives })
            .ok_or_else(|| RangeTextError(text.to_owned()))
    }
}

fn spans(text: &str) -> Option<Vec<Span>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if let [from, "-", until] = words[..] {
        return Some(vec![span(">=", from)?, span("<=", until)?]);
    }
    let mut spans = Vec::new();
    // An operator may stand apart from its version.
    let mut operator = "";
    for word in words {
        let version = word.trim_start_matches(['<', '>', '=', '^', '~']);
        let own = &word[..word.len() - version.len()];
        match (own.is_empty(), version.is_empty(), operator.is_empty()) {
            (false, true, true) => operator = own,
            (false, false, true) => spans.push(span(own, version)?),
            (true, false, _) => spans.push(span(std::mem::take(&mut operator), version)?),
            (false, _, false) | (true, true, _) => return None,
        }
    }
    operator.is_empty().then_some(spans)
}

fn span(operator: &str, version: &str) -> Option<Span> {
    let version = Partial::read(version)?;
    let (first, next) = (version.first(), version.next());
    Some(match operator {
        "" | "=" => Span { from: first, until: next },
        ">=" => Span { from: first, until: None },
        "<" => Span { from: [0; 3], until: Some(first) },
        "<=" => Span { from: [0; 3], until: next },
        // What comes after everything is nothing.
        ">" => Span { from: next.unwrap_or([u64::MAX; 3]), until: None },
        "~" => Span { from: first, until: version.after(version.given.min(2)) },
        "^" => Span { from: first, until: version.after(version.fixed()) },
        _ => return None,
    })
}

/// A version with its last numbers left open.
struct Partial {
    numbers: Numbers,
    /// How many of them were given.
    given: usize,
}

impl Partial {
    fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let release = text.split(['-', '+']).next()?;
        let mut partial = Self { numbers: [0; 3], given: 0 };
        let (mut is_open, mut count) = (false, 0);
        for part in release.split('.') {
            is_open = is_open || matches!(part, "x" | "X" | "*");
            if !is_open {
                let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
                let number = part.parse().ok().filter(|_| is_number)?;
                *partial.numbers.get_mut(count)? = number;
                partial.given += 1;
            } else if !matches!(part, "x" | "X" | "*") {
                return None;
            }
            count += 1;
        }
        (count <= 3).then_some(partial)
    }

    fn first(&self) -> Numbers {
        self.numbers
    }

    /// The first release that this no longer describes; none if it describes all.
    fn next(&self) -> Option<Numbers> {
        self.after(self.given)
    }

    /// The first release that differs within so many numbers.
    fn after(&self, kept: usize) -> Option<Numbers> {
        let place = kept.checked_sub(1)?;
        let mut numbers = [0; 3];
        numbers[..=place].copy_from_slice(&self.numbers[..=place]);
        numbers[place] = numbers[place].checked_add(1)?;
        Some(numbers)
    }

    /// How many numbers a caret holds on to: up to the first that is not zero.
    fn fixed(&self) -> usize {
        let given = &self.numbers[..self.given];
        given.iter().position(|number| *number > 0).map_or(self.given, |place| place + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_includes_what_its_text_says() {
        for (range, inside, outside) in [
            (">=1.1.0 <2.0.0", &["1.1", "1.1.0", "1.9.9"][..], &["1.0", "2.0.0"][..]),
            (">= 1.1.0 < 2", &["1.1", "1.99"], &["1.0.9", "2.0"]),
            ("^1.1", &["1.1", "1.2"], &["1.0", "2.0"]),
            ("^0.2.3", &["0.2.3", "0.2.9"], &["0.2.2", "0.3.0", "1.0.0"]),
            ("^0.0.3", &["0.0.3"], &["0.0.4", "0.1"]),
            ("~1.0", &["1.0", "1.0.7"], &["1.1"]),
            ("~1", &["1.0", "1.9"], &["2.0"]),
            ("1.x", &["1.0", "1.1.3"], &["0.9", "2.0"]),
            ("1.1", &["1.1.0", "1.1.9"], &["1.0", "1.2"]),
            ("=1.1.0", &["1.1"], &["1.1.1"]),
            (">1.0", &["1.1"], &["1.0.9"]),
            ("<=1.1", &["1.0", "1.1.9"], &["1.2"]),
            ("1.0 - 1.1", &["1.0", "1.1.5"], &["1.2"]),
            ("0.9.0 || >=2", &["0.9", "2.1"], &["1.1"]),
            ("*", &["0.0.1", "9.9"], &[]),
            ("", &["1.1"], &[]),
            (">*", &[], &["1.1"]),
            (">=1.1.0-rc.1 <2.0.0-0", &["1.1"], &["2.0"]),
        ] {
            let read: VersionRange = range.parse().unwrap();
            for release in inside {
                assert!(read.includes(release), "{release} is in {range}");
            }
            for release in outside {
                assert!(!read.includes(release), "{release} is not in {range}");
            }
        }
    }

    #[test]
    fn what_is_no_range_is_not_read() {
        for text in ["one", "1.1.1.1", "1.-", ">=", "=> 1", ">= >= 1", "1..2", "1.x.2", "^^1", "+1"]
        {
            assert!(text.parse::<VersionRange>().is_err(), "{text}");
        }
    }
}

//! Versions of packs, in the order that Semantic Versioning 2.0.0 gives them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A version, well-formed wherever it appears. Of two that differ in build metadata alone the order is
/// by text, so that equal means equal.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PackVersion {
    text: String,
    numbers: [u64; 3],
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} must be a semantic version, as in 1.2.3 or 1.2.3-beta.1")]
pub struct VersionTextError(String);

impl PackVersion {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is a pre-release, which is used only where it is named.
    pub fn is_prerelease(&self) -> bool {
        !self.prerelease().is_empty()
    }

    fn prerelease(&self) -> &str {
        let (before, _) = self.text.split_once('+').unwrap_or((&self.text, ""));
        before.split_once('-').map_or("", |(_, prerelease)| prerelease)
    }
}

impl FromStr for PackVersion {
    type Err = VersionTextError;

    fn from_str(text: &str) -> Result<Self, VersionTextError> {
        let numbers = numbers(text).ok_or_else(|| VersionTextError(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), numbers })
    }
}

/// The longest version that lockfiles admit.
const LONGEST: usize = 64;

fn numbers(text: &str) -> Option<[u64; 3]> {
    let (before, build) = text.split_once('+').map_or((text, None), |(a, b)| (a, Some(b)));
    let (core, prerelease) = before.split_once('-').map_or((before, None), |(a, b)| (a, Some(b)));
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
    };
    let labelled = [prerelease, build].into_iter().flatten().all(is_label);
    if !labelled || text.len() > LONGEST {
        return None;
    }
    let mut parts = core.split('.').map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    });
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

impl Ord for PackVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| compare_prereleases(self.prerelease(), other.prerelease()))
            .then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for PackVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A release is later than its prereleases; numbers are earlier than words, and fewer parts than more.
fn compare_prereleases(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let key = |part: &str| match part.parse::<u64>() {
        Ok(number) => (0, number, String::new()),
        Err(_) => (1, 0, part.to_owned()),
    };
    a.split('.').map(key).cmp(b.split('.').map(key))
}

impl TryFrom<String> for PackVersion {
    type Error = VersionTextError;

    fn try_from(text: String) -> Result<Self, VersionTextError> {
        text.parse()
    }
}

impl From<PackVersion> for String {
    fn from(version: PackVersion) -> Self {
        version.text
    }
}

impl fmt::Display for PackVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PackVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_stand_in_their_semantic_order() {
        let ordered = [
            "0.9.10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.0+build",
            "1.0.2",
            "1.0.10",
            "2.0.0",
        ];
        let versions: Vec<PackVersion> = ordered.iter().map(|text| text.parse().unwrap()).collect();
        let mut shuffled = versions.clone();
        shuffled.reverse();
        shuffled.sort();
        assert_eq!(shuffled, versions);
        assert!(versions[1].is_prerelease() && !versions[8].is_prerelease());
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for bad in ["", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.x", "1.0.0-", "1.0.0+", "1.0.0/.."] {
            assert_eq!(bad.parse::<PackVersion>(), Err(VersionTextError(bad.to_owned())));
        }
        assert!("99999999999999999999.0.0".parse::<PackVersion>().is_err());
    }
}

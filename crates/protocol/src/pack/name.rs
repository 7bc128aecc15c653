//! Names of packs, dotted below a scope that says who may publish there.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The scopes that packs are published under.
const SCOPES: [&str; 4] = ["core", "vendor", "community", "private"];
/// The longest name that the schema admits.
const LONGEST: usize = 256;

/// A pack's name, well-formed wherever it appears: it goes into paths and addresses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PackName(Arc<str>);

/// Text that names no pack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("{0:?} must begin with one of core., vendor., community. and private.")]
    Scope(String),
    #[error(
        "{0:?} must be dotted names of letters, digits, '_' and '-', each beginning with a lower-case letter, as in vendor.acme.desk"
    )]
    Shape(String),
}

impl PackName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PackName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let scope = text.split('.').next().unwrap_or_default();
        if !SCOPES.contains(&scope) {
            return Err(NameError::Scope(text.to_owned()));
        }
        if !is_scoped_name(text, &SCOPES) {
            return Err(NameError::Shape(text.to_owned()));
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for PackName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<PackName> for String {
    fn from(name: PackName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for PackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// Whether the text is a scope and at least two names below it.
pub(crate) fn is_scoped_name(text: &str, scopes: &[&str]) -> bool {
    let mut parts = text.split('.');
    let scope = parts.next().unwrap_or_default();
    let parts: Vec<&str> = parts.collect();
    let is_name = |index: usize, part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part.chars().all(|c| {
                let letter = c.is_ascii_lowercase() || (index > 0 && c.is_ascii_uppercase());
                letter || c.is_ascii_digit() || matches!(c, '_' | '-')
            })
    };
    scopes.contains(&scope)
        && text.len() <= LONGEST
        && parts.len() >= 2
        && parts.iter().enumerate().all(|(index, part)| is_name(index, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_dotted_and_below_a_known_scope() {
        for good in ["core.openwop.agents", "vendor.acme.deskTools", "private.h0.a_b-c.d"] {
            assert_eq!(good.parse::<PackName>().map(String::from), Ok(good.to_owned()));
        }
        for bad in ["local.acme.desk", "feature.a.b", "acme", ""] {
            assert!(matches!(bad.parse::<PackName>(), Err(NameError::Scope(_))), "{bad}");
        }
        for bad in [
            "vendor.acme",
            "vendor.Acme.desk",
            "vendor.acme.Desk",
            "vendor.acme.",
            "vendor..desk",
            "vendor.acme.a/b",
            "vendor.acme.a b",
            &format!("vendor.acme.{}", "a".repeat(250)),
        ] {
            assert!(matches!(bad.parse::<PackName>(), Err(NameError::Shape(_))), "{bad}");
        }
    }
}

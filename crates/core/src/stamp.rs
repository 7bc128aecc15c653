//! What a run's birth says for readers of the protocol's second major: the era of its log, through which major it was
//! made, and as whose run it is shown.

use callboard_protocol::{Dialect, ERA, LEGACY_ERA, Owner, Principal};
use serde::{Deserialize, Serialize};

use crate::birth::Birth;

/// Written once, with the birth record; a record from before there was one has none.
///
/// An old reader does not know it and loses nothing by that; a new reader takes its absence for the era before; nobody
/// writes it later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamp {
    /// `eventLogSchemaVersion` of the run.
    pub era: u32,
    /// What is posted for the run speaks this one.
    #[serde(default)]
    pub dialect: Dialect,
    pub subject: ShownSubject,
}

/// As whose run it is shown. It grants nothing: what the run may do is its owner's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownSubject {
    pub basis: SubjectBasis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
}

/// How it is known who that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectBasis {
    /// The holder of a key.
    ApiKey,
    /// The host itself, for upkeep.
    Host,
    /// A name in a record from before subjects were recorded.
    Legacy,
}

/// The part of a birth record that readers of the second major need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Born {
    pub owner: Owner,
    #[serde(default)]
    pub stamp: Option<Stamp>,
}

impl Stamp {
    /// Of a run that somebody makes now.
    pub fn of_owner(owner: &Owner, dialect: Dialect) -> Self {
        let basis = match owner.principal {
            Some(_) => SubjectBasis::ApiKey,
            None => SubjectBasis::Host,
        };
        let subject = ShownSubject { basis, principal: owner.principal.clone() };
        Self { era: ERA, dialect, subject }
    }

    /// Of a run that a node of this one starts.
    pub fn below(above: &Birth) -> Self {
        Self::of_owner(&above.owner, above.born().dialect())
    }

    /// Of a fork: it is shown as its source's, whoever made it.
    pub fn of_fork(source: &Birth, dialect: Dialect) -> Self {
        Self { era: ERA, dialect, subject: source.born().subject() }
    }
}

impl Born {
    pub fn era(&self) -> u32 {
        self.stamp.as_ref().map_or(LEGACY_ERA, |stamp| stamp.era)
    }

    pub fn dialect(&self) -> Dialect {
        self.stamp.as_ref().map(|stamp| stamp.dialect).unwrap_or_default()
    }

    pub fn subject(&self) -> ShownSubject {
        let principal = self.owner.principal.clone();
        let legacy = || ShownSubject { basis: SubjectBasis::Legacy, principal };
        self.stamp.as_ref().map_or_else(legacy, |stamp| stamp.subject.clone())
    }
}

impl Birth {
    pub fn born(&self) -> Born {
        Born { owner: self.owner.clone(), stamp: self.stamp.clone() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn owner() -> Owner {
        Owner { tenant: "acme".into(), workspace: None, principal: Some("key:1".into()) }
    }

    /// V-27, V-13.
    #[test]
    fn a_record_without_a_stamp_is_of_the_era_before() {
        let old: Born = from_value(json!({ "owner": owner() })).unwrap_or_else(|_| unreachable!());
        assert_eq!((old.era(), old.dialect()), (LEGACY_ERA, Dialect::V1));
        assert_eq!(old.subject().basis, SubjectBasis::Legacy);
        assert_eq!(old.subject().principal, owner().principal);
        let new = Born { stamp: Some(Stamp::of_owner(&owner(), Dialect::V2)), ..old };
        assert_eq!((new.era(), new.dialect()), (ERA, Dialect::V2));
        assert_eq!(new.subject().basis, SubjectBasis::ApiKey);
        let nobody = Owner { principal: None, ..owner() };
        let kept = Stamp::of_owner(&nobody, Dialect::V1);
        assert_eq!(kept.subject, ShownSubject { basis: SubjectBasis::Host, principal: None });
        assert_eq!(
            json!(Stamp::of_owner(&owner(), Dialect::V2)),
            json!({ "era": 3, "dialect": "v2", "subject": { "basis": "api-key", "principal": "key:1" } })
        );
    }
}

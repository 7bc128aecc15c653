//! In whose name an approval is answered.

use serde_json::Value;

use super::{Resolution, Via};
use crate::run::Refusal;

/// What begins the names that only the host gives: those of keys, those of links.
const GIVEN_BY_THE_HOST: [&str; 2] = ["key:", "link:"];

/// Whose answer it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Approver {
    /// In whose name it counts.
    pub(crate) name: String,
    /// Who said it for them.
    pub(crate) delegate: Option<String>,
    /// The role that the host knows them to have, among those that the question names.
    role: Option<String>,
}

impl Approver {
    /// The caller itself, unless it names somebody and may.
    pub(crate) fn of(resolution: &Resolution, voter: Option<&str>) -> Result<Self, Refusal> {
        let by = resolution.by.as_ref();
        let caller = by.map_or_else(|| "anonymous".to_owned(), ToString::to_string);
        let Some(named) = voter.filter(|named| *named != caller) else {
            let role = match &resolution.via {
                Via::Holder { role } => Some(role.clone()),
                Via::Key | Via::Delegate | Via::Token { .. } => None,
            };
            return Ok(Self { name: caller, delegate: None, role });
        };
        let node = resolution.node.clone();
        if resolution.via != Via::Delegate {
            return Err(Refusal::NotADelegate { node });
        }
        if GIVEN_BY_THE_HOST.iter().any(|beginning| named.starts_with(beginning)) {
            let why = "voter: names of keys and links are those of their holders".into();
            return Err(Refusal::InvalidAnswer { node, why });
        }
        Ok(Self { name: named.to_owned(), delegate: Some(caller), role: None })
    }

    /// Whether their answer counts.
    pub(crate) fn may_decide(&self, data: &Value) -> bool {
        may_decide(data, &self.name, |role| self.role.as_deref() == Some(role))
    }

    /// What the log calls them. Nobody can be mistaken for somebody whom the host knows itself.
    pub(crate) fn told(&self) -> String {
        match &self.delegate {
            Some(delegate) => format!("{delegate}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Whether this person is among those who may decide, by name or by a role; where no one is named, everyone may.
pub(crate) fn may_decide(data: &Value, voter: &str, holds: impl Fn(&str) -> bool) -> bool {
    let listed = |name: &str| data.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut roles = listed("approverRoleRefs");
    let is_open = listed("approversList").chain(roles.clone()).next().is_none();
    is_open || is_named(data, voter) || roles.any(|role| role.as_str().is_some_and(&holds))
}

/// Whether the list of those who may decide has this name.
pub(crate) fn is_named(data: &Value, voter: &str) -> bool {
    let mut approvers = data.get("approversList").and_then(Value::as_array).into_iter().flatten();
    approvers.any(|listed| listed.as_str() == Some(voter))
}

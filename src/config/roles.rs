//! `[roles.NAME]`: names for sets of scopes, the same for every tenant.

use std::collections::BTreeSet;

use serde::Deserialize;

use callboard_server::{FileRoles, check_role};

use super::Config;
use super::values::Named;

/// What a role stands for.
#[derive(Debug, Clone)]
pub(crate) struct RoleScopes(BTreeSet<String>);

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Section {
    scopes: Vec<String>,
}

impl Named for RoleScopes {
    type Section = Section;

    fn new(name: &str, section: Section) -> Result<Self, String> {
        check_role(name, section.scopes.iter().map(String::as_str))
            .map(Self)
            .map_err(|error| error.to_string())
    }
}

impl Config {
    pub(crate) fn file_roles(&self) -> FileRoles {
        self.roles.iter().map(|(name, role)| (name.clone(), role.0.clone())).collect()
    }
}

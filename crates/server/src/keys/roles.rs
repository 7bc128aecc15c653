//! What roles stand for: the protocol's own, those of the host's file, and those that a tenant has made.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use callboard_engine::{Realm, Role};

use crate::scopes;

/// Stands for every scope, also those that later builds know. Only whoever has every scope can give it.
pub const EVERY_SCOPE: &str = "*";

/// Roles as the host's file names them, for every tenant.
pub type FileRoles = BTreeMap<String, BTreeSet<String>>;

/// A role that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    #[error(
        "must have a name of 1 to 64 small letters, digits and . _ - that begins with a letter"
    )]
    Name,
    #[error("is a role of the protocol and stands for what the protocol says")]
    BuiltIn,
    #[error("must name at least one scope")]
    Empty,
    #[error("names the unknown scope {0:?}")]
    Scope(String),
}

/// Whether a role can have this name and stand for these.
pub fn check_role<'s>(
    name: &str,
    scopes: impl IntoIterator<Item = &'s str>,
) -> Result<BTreeSet<String>, RoleError> {
    let is_sign =
        |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || "._-".contains(sign);
    let begins = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !begins || name.len() > 64 || !name.chars().all(is_sign) {
        return Err(RoleError::Name);
    }
    if scopes::scopes_of(name).is_some() {
        return Err(RoleError::BuiltIn);
    }
    let mut meant = BTreeSet::new();
    for scope in scopes {
        if scope != EVERY_SCOPE && !scopes::is_scope(scope) {
            return Err(RoleError::Scope(scope.to_owned()));
        }
        meant.insert(scope.to_owned());
    }
    if meant.is_empty() { Err(RoleError::Empty) } else { Ok(meant) }
}

/// What somebody may do in the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    /// None is every scope.
    pub(crate) scopes: Option<BTreeSet<String>>,
    /// Those that stand for something now.
    pub(crate) roles: BTreeSet<String>,
}

impl Grant {
    pub(crate) fn is_nothing(&self) -> bool {
        self.scopes.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Whether everything that was granted before still is.
    pub(super) fn keeps(&self, before: &Self) -> bool {
        let keeps_scopes = match (&self.scopes, &before.scopes) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(now), Some(before)) => now.is_superset(before),
        };
        keeps_scopes && self.roles.is_superset(&before.roles)
    }
}

/// Where a role comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoleOrigin {
    Protocol,
    Configured,
    Stored,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct RoleTable {
    pub(super) file: FileRoles,
    stored: HashMap<Realm, BTreeMap<String, Role>>,
}

impl RoleTable {
    pub(super) fn new(file: FileRoles, stored: Vec<(Realm, Role)>) -> Self {
        let mut table = Self { file, stored: HashMap::new() };
        for (realm, role) in stored {
            table.stored.entry(realm).or_default().insert(role.name.clone(), role);
        }
        table
    }

    /// What the role stands for in a tenant. What the operator wrote stands before what the tenant made.
    pub(crate) fn find(&self, realm: &Realm, name: &str) -> Option<(RoleOrigin, BTreeSet<String>)> {
        if let Some(scopes) = scopes::scopes_of(name) {
            let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            return Some((RoleOrigin::Protocol, scopes));
        }
        if let Some(scopes) = self.file.get(name) {
            return Some((RoleOrigin::Configured, scopes.clone()));
        }
        let role = self.stored.get(realm)?.get(name)?;
        Some((RoleOrigin::Stored, role.scopes.clone()))
    }

    /// The names of all roles that a tenant has.
    pub(crate) fn names(&self, realm: &Realm) -> BTreeSet<String> {
        let stored = self.stored.get(realm).into_iter().flat_map(BTreeMap::keys);
        let protocol = scopes::ROLES.iter().map(|(name, _)| (*name).to_owned());
        protocol.chain(self.file.keys().cloned()).chain(stored.cloned()).collect()
    }

    /// What a tenant wrote beside its role.
    pub(crate) fn stored(&self, realm: &Realm, name: &str) -> Option<&Role> {
        self.stored.get(realm)?.get(name)
    }

    /// What somebody with these scopes of its own and these roles may do. A role that nobody knows grants nothing.
    pub(crate) fn grant(
        &self,
        realm: &Realm,
        own: Option<&BTreeSet<String>>,
        roles: &BTreeSet<String>,
    ) -> Grant {
        let mut scopes = own.cloned();
        let mut known = BTreeSet::new();
        for name in roles {
            let Some((_, meant)) = self.find(realm, name) else { continue };
            known.insert(name.clone());
            match &mut scopes {
                Some(_) if meant.contains(EVERY_SCOPE) => scopes = None,
                Some(scopes) => scopes.extend(meant),
                None => {}
            }
        }
        Grant { scopes, roles: known }
    }
}

#[cfg(test)]
mod tests {
    use callboard_engine::KeyMode;
    use callboard_protocol::Timestamp;

    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn realm(tenant: &str) -> Realm {
        Realm { tenant: tenant.into(), mode: KeyMode::Live }
    }

    #[test]
    fn a_role_is_its_tenants_own_and_the_files_stands_before_it() {
        let (name, updated_at) = ("desk".to_owned(), Timestamp::default());
        let role = Role { name, description: None, scopes: set(&["runs:read"]), updated_at };
        let stored = vec![(realm("acme"), role.clone())];
        let table = RoleTable::new(FileRoles::new(), stored.clone());
        let of = |table: &RoleTable, tenant| {
            table.grant(&realm(tenant), Some(&set(&[])), &set(&["desk", "nobody"]))
        };
        let desk = Grant { scopes: Some(set(&["runs:read"])), roles: set(&["desk"]) };
        assert_eq!(of(&table, "acme"), desk);
        assert!(of(&table, "rival").is_nothing());
        let file = FileRoles::from([("desk".to_owned(), set(&[EVERY_SCOPE]))]);
        let table = RoleTable::new(file, stored);
        assert_eq!(of(&table, "acme"), Grant { scopes: None, roles: set(&["desk"]) });
        assert!(of(&table, "acme").keeps(&desk) && !desk.keeps(&of(&table, "acme")));
    }

    #[test]
    fn a_role_that_cannot_be_is_refused() {
        assert_eq!(check_role("desk", ["runs:read", "*"]), Ok(set(&["*", "runs:read"])));
        for name in ["", "Desk", "1st", "a b", "a/b", &"x".repeat(65)] {
            assert_eq!(check_role(name, ["runs:read"]), Err(RoleError::Name), "{name}");
        }
        assert_eq!(check_role("viewer", ["runs:read"]), Err(RoleError::BuiltIn));
        assert_eq!(check_role("desk", []), Err(RoleError::Empty));
        assert!(matches!(check_role("desk", ["runs:reed"]), Err(RoleError::Scope(_))));
    }
}

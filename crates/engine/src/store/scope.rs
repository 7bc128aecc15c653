//! Whose things are: the tenant, the workspace and the kind of key that every read and every record names.

use callboard_core::Birth;
use callboard_protocol::{Owner, Tenant, Workspace};

/// What a caller may see: nothing outside its tenant, its workspace and its kind of key. Every read asks for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    pub tenant: Tenant,
    /// None sees all workspaces of the tenant.
    pub workspace: Option<Workspace>,
    pub mode: KeyMode,
}

/// What is one tenant's and of one kind of key, and the same in all its workspaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Realm {
    pub tenant: Tenant,
    pub mode: KeyMode,
}

/// Test keys and live keys live in separate worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyMode {
    Live,
    Test,
}

impl KeyMode {
    pub const fn of(test: bool) -> Self {
        if test { Self::Test } else { Self::Live }
    }

    /// As names that are kept are made of it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Test => "test",
        }
    }
}

impl Scope {
    /// Where a run with this birth record belongs.
    pub fn of(birth: &Birth) -> Self {
        Self::of_owner(&birth.owner, KeyMode::of(birth.test))
    }

    /// Where what this owner has with such keys belongs.
    pub fn of_owner(owner: &Owner, mode: KeyMode) -> Self {
        Self { tenant: owner.tenant.clone(), workspace: owner.workspace.clone(), mode }
    }

    /// Where the host's own things are, which are no tenant's.
    pub(crate) fn of_host() -> Self {
        Self { tenant: "".into(), workspace: None, mode: KeyMode::Live }
    }

    pub fn realm(&self) -> Realm {
        Realm { tenant: self.tenant.clone(), mode: self.mode }
    }

    /// Where a caller of this scope finds what it names, the nearest first: in its own place, then in the one of
    /// the whole tenant. It changes only what is in its own.
    pub fn shelves(&self) -> Vec<Self> {
        let mut shelves = vec![self.clone()];
        if self.workspace.is_some() {
            shelves.push(Self { workspace: None, ..self.clone() });
        }
        shelves
    }

    /// Whether a run with this birth record is visible here.
    pub fn sees(&self, birth: &Birth) -> bool {
        self.includes(&Self::of(birth))
    }

    /// Whether what belongs there is visible here.
    pub fn includes(&self, place: &Self) -> bool {
        self.tenant == place.tenant
            && self.mode == place.mode
            && (self.workspace.is_none() || self.workspace == place.workspace)
    }
}

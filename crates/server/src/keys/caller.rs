//! Who is asking, as far as a key or a token says.

use std::collections::BTreeSet;
use std::fmt;

use callboard_engine::{Clock, Realm, Scope};
use callboard_protocol::{KeyId, Owner, Principal, Timestamp};
use tokio_util::sync::CancellationToken;

use super::DEFAULT_TENANT;
use crate::problem::{Code, Problem};
use crate::scopes::{MANAGE_TENANTS, OF_A_ROLE, scopes_of};

/// Who is asking.
#[derive(Debug, Clone)]
pub struct Caller {
    pub key_id: KeyId,
    /// Opaque: it names the key or what an issuer knows somebody by, not a person.
    pub principal: Principal,
    pub scope: Scope,
    /// None is every scope.
    pub scopes: Option<BTreeSet<String>>,
    /// Without those that its roles stand for.
    pub own_scopes: Option<BTreeSet<String>>,
    pub roles: BTreeSet<String>,
    pub expires_at: Option<Timestamp>,
    pub revoked: CancellationToken,
    /// In whose name it votes, where that is not its own.
    pub votes_as: Option<Principal>,
}

impl Caller {
    pub fn may(&self, scope: &str) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contains(scope))
    }

    /// Whether the caller has a role; `role:approver` and `approver` are the same. Whoever holds all that a role of the
    /// protocol stands for has it; any other role must have been given.
    pub(crate) fn has_role(&self, name: &str) -> bool {
        let name = name.strip_prefix(OF_A_ROLE).unwrap_or(name);
        match scopes_of(name) {
            Some(scopes) => scopes.iter().all(|scope| self.may(scope)),
            None => self.roles.contains(name),
        }
    }

    /// Whether it is the operator's, who makes keys for every tenant.
    pub(crate) fn is_operator(&self) -> bool {
        let place = (self.scope.tenant.as_str(), &self.scope.workspace);
        place == (DEFAULT_TENANT, &None) && self.may(MANAGE_TENANTS)
    }

    /// Whether the key that let the caller in counts no more.
    pub(crate) fn is_over(&self, at: Timestamp) -> bool {
        self.revoked.is_cancelled() || self.expires_at.is_some_and(|expires_at| expires_at <= at)
    }

    /// For whose runs a change of what all workspaces share is. A key of one workspace decides nothing for the others.
    pub(crate) fn whole_realm(&self) -> Result<Realm, Problem> {
        match self.scope.workspace {
            None => Ok(self.scope.realm()),
            Some(_) => Err(Problem::new(
                Code::Forbidden,
                "this is the same for all workspaces of the tenant; use a key that has no workspace",
            )),
        }
    }

    /// The answer to a waiting request whose key is no longer valid.
    pub(crate) fn check(&self, at: Timestamp) -> Result<(), Problem> {
        match (self.revoked.is_cancelled(), self.is_over(at)) {
            (true, _) => Err(Problem::new(Code::KeyRevoked, "this key was revoked")),
            (false, true) => Err(Problem::new(Code::KeyExpired, "this key has expired")),
            (false, false) => Ok(()),
        }
    }

    /// Waits until the key counts no more.
    pub(crate) async fn over(&self, clock: &dyn Clock) {
        let expiry = async {
            match self.expires_at {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        // Losing either wait is fine: both are begun again from what the key says.
        tokio::select! {
            () = self.revoked.cancelled() => {}
            () = expiry => {}
        }
    }

    pub fn principal(&self) -> Principal {
        self.principal.clone()
    }

    /// In whose name it decides where votes are counted: a key that a key made votes as its maker.
    pub(crate) fn voter(&self) -> Principal {
        self.votes_as.clone().unwrap_or_else(|| self.principal())
    }

    /// One line of the audit log: who did what.
    pub(crate) fn audit(&self, subject: impl fmt::Display, what: &'static str) {
        tracing::info!(
            target: "audit",
            principal = %self.principal(),
            openwop.tenant_id = %self.scope.tenant,
            %subject,
            "{what}"
        );
    }

    pub fn owner(&self) -> Owner {
        Owner {
            tenant: self.scope.tenant.clone(),
            workspace: self.scope.workspace.clone(),
            principal: Some(self.principal()),
        }
    }
}

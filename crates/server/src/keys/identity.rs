//! Those whom an issuer vouches for: who they are here, noted so that they can be listed and revoked, and so that what
//! they began can go on.

use std::collections::BTreeSet;
use std::time::Duration;

use callboard_engine::{KeyMode, Realm, StoredKey};
use callboard_protocol::{KeyId, Timestamp};

use super::roles::Grant;
use super::table::{KeyOrigin, Known};
use super::{Caller, KeyRing, TestKeys};
use crate::oidc::Vouched;
use crate::problem::{Code, Problem};

/// Each is in memory, as keys are. Those beyond it come in all the same and are not listed.
const MOST_IDENTITIES: usize = 20_000;
/// Tokens of one holder may differ in what they grant, and must not make the host write at every request.
const NOTED_EVERY: Duration = Duration::from_secs(10 * 60);

impl KeyRing {
    /// A caller with a token, for as long as that counts. What it may is what this token says.
    pub(crate) async fn vouched(&self, who: &Vouched, at: Timestamp) -> Result<Caller, Problem> {
        let grant = self.grant_to(who)?;
        let before = self.by_id(&who.id);
        let is_news = match &before {
            Some(known) => known.key.roles != who.roles && known.used.may_note(at, NOTED_EVERY),
            None => self.has_room(),
        };
        if is_news {
            self.note_vouched(who, at).await?;
        }
        let known = self.by_id(&who.id);
        if let Some(known) = &known {
            known.is_used(at);
        }
        Ok(Caller {
            key_id: who.id.clone(),
            principal: who.principal.clone(),
            scope: self.scope_of(&identity(who, at)),
            scopes: grant.scopes,
            own_scopes: Some(BTreeSet::new()),
            roles: grant.roles,
            expires_at: Some(who.until),
            revoked: known.map(|known| known.revoked).unwrap_or_default(),
            votes_as: None,
        })
    }

    /// Lets somebody in who signed in at its issuer: from now on it acts as a key with this id would, for as long as its
    /// roles grant something.
    pub async fn sign_in(&self, who: &Vouched, at: Timestamp) -> Result<KeyId, Problem> {
        self.grant_to(who)?;
        if self.by_id(&who.id).is_none() && !self.has_room() {
            return Err(Problem::new(Code::Forbidden, "too many people have signed in here"));
        }
        self.note_vouched(who, at).await?;
        Ok(who.id.clone())
    }

    async fn note_vouched(&self, who: &Vouched, at: Timestamp) -> Result<(), Problem> {
        self.inner.stored.note_identity(&identity(who, at)).await?;
        self.reload().await?;
        if let Some(known) = self.by_id(&who.id) {
            known.used.note(at);
        }
        Ok(())
    }

    /// Refuses whom somebody here has revoked, by whichever way it came in before, and who may do nothing.
    fn grant_to(&self, who: &Vouched) -> Result<Grant, Problem> {
        let is_revoked = |known: &Known| {
            let key = &known.key;
            let is_same = key.tenant == who.tenant && key.votes_as.as_ref() == Some(&who.principal);
            known.origin == KeyOrigin::Issuer && is_same && key.revoked_at.is_some()
        };
        if self.table().identities().any(is_revoked) {
            return Err(Problem::new(Code::KeyRevoked, "whoever this is was revoked here"));
        }
        let mode = match self.inner.test_keys {
            TestKeys::ByPrefix => KeyMode::Live,
            TestKeys::All => KeyMode::Test,
        };
        let realm = Realm { tenant: who.tenant.clone(), mode };
        let grant = self.roles().grant(&realm, Some(&BTreeSet::new()), &who.roles);
        if grant.is_nothing() {
            let message = "the token grants nothing here: none of its roles stands for a scope";
            return Err(Problem::new(Code::Forbidden, message));
        }
        Ok(grant)
    }

    fn has_room(&self) -> bool {
        let has_room = self.table().identities().count() < MOST_IDENTITIES;
        if !has_room {
            tracing::warn!(
                most = MOST_IDENTITIES,
                "somebody who came in with a token is not listed"
            );
        }
        has_room
    }
}

fn identity(who: &Vouched, at: Timestamp) -> StoredKey {
    StoredKey {
        id: who.id.clone(),
        name: who.name.clone(),
        tenant: who.tenant.clone(),
        workspace: who.workspace.clone(),
        scopes: Some(BTreeSet::new()),
        test: false,
        // No text opens it.
        digest: [0; 32],
        created_at: at,
        expires_at: None,
        revoked_at: None,
        made_by: None,
        votes_as: Some(who.principal.clone()),
        roles: who.roles.clone(),
        issuer: Some(who.issuer.clone()),
    }
}

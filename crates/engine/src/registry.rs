//! The ports to plain rows: workflow definitions, API keys, generations of link secrets.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use callboard_protocol::{
    KeyId, Principal, RosterId, Tenant, Timestamp, WebhookId, WorkflowId, Workspace,
};

use crate::catalog;
use crate::records::RecordChange;
use crate::store::{Digest, Realm, Scope, Store, StoreError};

/// Registered workflow definitions, each in one place, with a version that grows with every change.
#[async_trait]
pub trait Workflows: Store {
    async fn workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
    ) -> Result<Option<StoredWorkflow>, StoreError>;
    async fn workflows(&self, place: &Scope) -> Result<Vec<StoredWorkflow>, StoreError>;
    /// Stores the text verbatim, with the records that go with it; answers whether the id was new.
    async fn put_workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
        source: Arc<str>,
        records: Vec<RecordChange>,
        at: Timestamp,
    ) -> Result<Put, StoreError>;
    /// Forgets it with the records that go with it; answers whether there was one.
    async fn delete_workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
        records: Vec<RecordChange>,
    ) -> Result<bool, StoreError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    Created,
    Replaced,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWorkflow {
    pub id: WorkflowId,
    /// The definition exactly as it was sent.
    pub source: Arc<str>,
    /// Of the source. A definition may be large, and every run of it needs this.
    pub(crate) digest: String,
    pub updated_at: Timestamp,
}

impl StoredWorkflow {
    pub fn new(id: WorkflowId, source: Arc<str>, updated_at: Timestamp) -> Self {
        let digest = catalog::digest(&source);
        Self { id, source, digest, updated_at }
    }
}

/// API keys. The key itself is never stored, only its digest.
#[async_trait]
pub trait Keys: fmt::Debug + Send + Sync {
    /// Every key of every tenant, revoked ones included: authentication must tell them apart.
    async fn all_keys(&self) -> Result<Vec<StoredKey>, StoreError>;
    async fn put_key(&self, key: StoredKey) -> Result<(), StoreError>;
    /// Answers whether the tenant had such a key.
    async fn revoke_key(
        &self,
        tenant: &Tenant,
        id: &KeyId,
        at: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Notes which key makes something that goes on without it. Called before it is there, so that nothing is there
    /// whose maker nobody knows.
    async fn note_maker(&self, realm: &Realm, made: Made, maker: &KeyId) -> Result<(), StoreError>;

    /// What was noted of a key, also where it is gone since.
    async fn noted_of(&self, realm: &Realm, maker: &KeyId) -> Result<Vec<Made>, StoreError>;
}

/// What goes on without the key that made it and does not say itself which one that was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Made {
    Member(RosterId),
    Webhook(WebhookId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    pub id: KeyId,
    pub name: String,
    pub tenant: Tenant,
    pub workspace: Option<Workspace>,
    /// None is every scope.
    pub scopes: Option<BTreeSet<String>>,
    pub test: bool,
    pub digest: Digest,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// The key that made it; none for those of the operator's.
    pub made_by: Option<KeyId>,
    /// In whose name it votes, where that is not its own: nobody gets more votes by making keys.
    pub votes_as: Option<Principal>,
}

/// Secrets that links to interrupts are signed with, in generations. Every host on one database has the same ones.
#[async_trait]
pub trait LinkSecrets: fmt::Debug + Send + Sync {
    /// The generation that signs the links of a tenant's runs now; zero before the first rotation.
    async fn link_generation(&self, realm: &Realm) -> Result<u32, StoreError>;
    /// Begins the next generation and answers it.
    async fn rotate_links(&self, realm: &Realm) -> Result<u32, StoreError>;
    /// The secret of one generation, the same after every restart.
    fn link_secret(&self, realm: &Realm, generation: u32) -> [u8; 32];
}

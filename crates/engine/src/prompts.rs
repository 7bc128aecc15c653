//! The port to the prompt templates of tenants.

use std::fmt;

use async_trait::async_trait;

use callboard_protocol::{PromptTemplate, Tenant, Timestamp, Workspace};

use crate::store::StoreError;

/// Templates by shelf and id, every version of each. A version is never written over.
#[async_trait]
pub trait Prompts: fmt::Debug + Send + Sync {
    /// All versions of a template, the oldest first; none where the shelf has no such template.
    async fn prompt_versions(
        &self,
        shelf: &PromptShelf,
        template: &str,
    ) -> Result<Vec<PromptTemplate>, StoreError>;

    /// The newest version of every template of a shelf, by id.
    async fn newest_prompts(&self, shelf: &PromptShelf) -> Result<Vec<PromptTemplate>, StoreError>;

    /// Keeps a version, if `expected` versions are there before it: of several that were decided on the same state
    /// one is kept, and the others are [`StoreError::Moved`].
    async fn put_prompt(
        &self,
        shelf: &PromptShelf,
        template: PromptTemplate,
        expected: usize,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Takes a template away with all its versions. Answers whether there was one.
    async fn remove_prompt(&self, shelf: &PromptShelf, template: &str) -> Result<bool, StoreError>;
}

/// Whose templates: a tenant's, or those of one of its workspaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PromptShelf {
    pub tenant: Tenant,
    pub workspace: Option<Workspace>,
}

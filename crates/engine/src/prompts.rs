//! The port to the prompt templates of tenants.

use std::fmt;

use async_trait::async_trait;

use callboard_protocol::{PromptTemplate, Timestamp};

use crate::store::{Scope, StoreError};

/// Templates by shelf, which is one place, and id, every version of each. A version is never written over.
#[async_trait]
pub trait Prompts: fmt::Debug + Send + Sync {
    /// All versions of a template, the oldest first; none where the shelf has no such template.
    async fn prompt_versions(
        &self,
        shelf: &Scope,
        template: &str,
    ) -> Result<Vec<PromptTemplate>, StoreError>;

    /// The newest version of every template of a shelf, by id.
    async fn newest_prompts(&self, shelf: &Scope) -> Result<Vec<PromptTemplate>, StoreError>;

    /// Keeps a version, if `expected` versions are there before it: of several that were decided on the same state
    /// one is kept, and the others are [`StoreError::Moved`].
    async fn put_prompt(
        &self,
        shelf: &Scope,
        template: PromptTemplate,
        expected: usize,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Takes a template away with all its versions. Answers whether there was one.
    async fn remove_prompt(&self, shelf: &Scope, template: &str) -> Result<bool, StoreError>;
}

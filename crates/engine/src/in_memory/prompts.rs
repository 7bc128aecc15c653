//! Prompt templates in memory.

use async_trait::async_trait;

use callboard_protocol::{PromptTemplate, Timestamp};

use super::InMemoryStore;
use crate::prompts::Prompts;
use crate::store::{Scope, StoreError};

#[async_trait]
impl Prompts for InMemoryStore {
    async fn prompt_versions(
        &self,
        shelf: &Scope,
        template: &str,
    ) -> Result<Vec<PromptTemplate>, StoreError> {
        let key = (shelf.clone(), template.to_owned());
        Ok(self.tables().prompts.get(&key).cloned().unwrap_or_default())
    }

    async fn newest_prompts(&self, shelf: &Scope) -> Result<Vec<PromptTemplate>, StoreError> {
        let tables = self.tables();
        let of_shelf = tables.prompts.iter().filter(|((on, _), _)| on == shelf);
        Ok(of_shelf.filter_map(|(_, versions)| versions.last().cloned()).collect())
    }

    async fn put_prompt(
        &self,
        shelf: &Scope,
        template: PromptTemplate,
        expected: usize,
        _: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let key = (shelf.clone(), template.template_id.clone());
        let there = tables.prompts.get(&key).map_or(0, Vec::len);
        if there != expected {
            return Err(StoreError::Moved { what: format!("prompt {}", key.1) });
        }
        tables.prompts.entry(key).or_default().push(template);
        Ok(())
    }

    async fn remove_prompt(&self, shelf: &Scope, template: &str) -> Result<bool, StoreError> {
        Ok(self.tables().prompts.remove(&(shelf.clone(), template.to_owned())).is_some())
    }
}

//! Prompt templates: kept in versions, and taken away.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{Prompts, Store, StoreError};

use super::scenario::{Host, Scenario};
use crate::sim::scope;

pub(super) struct PromptVersions;

async fn put(prompts: &Prompts, id: &str, text: &str, expected: usize) {
    let template = json!({
        "templateId": id, "version": format!("{expected}.0.0"), "kind": "system", "text": text,
    });
    let template = serde_json::from_value(template).unwrap();
    match prompts.put_prompt(&scope(), template, expected).await {
        // The one that got no answer was kept.
        Ok(()) | Err(StoreError::Moved { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[async_trait(?Send)]
impl Scenario for PromptVersions {
    fn steps(&self) -> usize {
        4
    }

    async fn act(&self, host: &Host, step: usize) {
        let prompts = Prompts::new(Arc::clone(&host.store));
        match step {
            0 => put(&prompts, "greeting", "Hello", 0).await,
            1 => put(&prompts, "greeting", "Good morning", 1).await,
            2 => put(&prompts, "farewell", "Goodbye", 0).await,
            _ => drop(prompts.remove_prompt(&scope(), "farewell").await.unwrap()),
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let prompts = Prompts::new(store);
        let greetings = prompts.prompt_versions(&scope(), "greeting").await.unwrap();
        json!([greetings, prompts.newest_prompts(&scope()).await.unwrap()])
    }
}

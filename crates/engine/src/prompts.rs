//! The prompt templates of tenants: every version of each is a record of its own, and none is written over.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_protocol::PromptTemplate;

use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within};
use crate::store::{Batch, Scope, Store, StoreError};

/// Templates by the one place that they stand in, and by id.
#[derive(Debug, Clone)]
pub struct Prompts {
    store: Arc<dyn Store>,
}

/// What the versions of one template are found by.
const TEMPLATE: &str = "template";

/// So many digits that the order of keys is the order of versions.
fn key(place: &Scope, template: &str, version: usize) -> Key {
    Key::in_place(place, [template, &format!("{version:010}")])
}

impl Prompts {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// All versions of a template, the oldest first; none where the place has no such template.
    pub async fn prompt_versions(
        &self,
        place: &Scope,
        template: &str,
    ) -> Result<Vec<PromptTemplate>, StoreError> {
        self.records(place, template).await?.iter().map(Record::read).collect()
    }

    /// The newest version of every template of a place, by id.
    pub async fn newest_prompts(&self, place: &Scope) -> Result<Vec<PromptTemplate>, StoreError> {
        let all = RecordQuery::all(Kind::Prompt, Within::Place(place.clone()));
        let mut newest = BTreeMap::new();
        for record in self.store.scan(&all).await? {
            let template: PromptTemplate = record.read()?;
            newest.insert(template.template_id.clone(), template);
        }
        Ok(newest.into_values().collect())
    }

    /// Keeps a version, if `expected` versions are there before it: of several that were decided on the same state
    /// one is kept, and the others are [`StoreError::Moved`].
    pub async fn put_prompt(
        &self,
        place: &Scope,
        template: PromptTemplate,
        expected: usize,
    ) -> Result<(), StoreError> {
        let id = template.template_id.as_str();
        let new = key(place, id, expected);
        let new = RecordChange::put(Kind::Prompt, new, place.clone(), &template)?
            .expecting(Expected::Absent)
            .indexed(TEMPLATE, index(place, id));
        let before = expected.checked_sub(1).map(|before| {
            RecordChange::check(Kind::Prompt, key(place, id, before), Expected::Present)
        });
        self.store.commit(Batch::of_records(before.into_iter().chain([new]))).await
    }

    /// Takes a template away with all its versions. Answers whether there was one.
    pub async fn remove_prompt(&self, place: &Scope, template: &str) -> Result<bool, StoreError> {
        let versions = self.records(place, template).await?;
        let is_there = !versions.is_empty();
        let changes =
            versions.into_iter().map(|version| RecordChange::delete(Kind::Prompt, version.key));
        self.store.commit(Batch::of_records(changes)).await?;
        Ok(is_there)
    }

    async fn records(&self, place: &Scope, template: &str) -> Result<Vec<Record>, StoreError> {
        let query = RecordQuery::all(Kind::Prompt, Within::Place(place.clone()));
        self.store.scan(&query.with(TEMPLATE, index(place, template))).await
    }
}

/// The value names its place too, so that nobody's page is longer for what others have under the same id.
fn index(place: &Scope, template: &str) -> String {
    Key::in_place(place, [template]).as_str().to_owned()
}

//! Annotations in memory.

use async_trait::async_trait;

use callboard_protocol::{Annotation, RunId};

use super::InMemoryStore;
use crate::annotations::{Annotated, Annotations};
use crate::store::{Scope, StoreError};

#[async_trait]
impl Annotations for InMemoryStore {
    async fn annotate(
        &self,
        scope: &Scope,
        annotation: Annotation,
        most: usize,
    ) -> Result<Annotated, StoreError> {
        let mut tables = self.tables();
        let run = annotation.target.run_id.clone();
        if tables.visible(scope, &run).is_none() {
            return Ok(Annotated::UnknownRun);
        }
        let kept = tables.annotations.entry(run).or_default();
        if kept.len() >= most {
            return Ok(Annotated::TooMany);
        }
        kept.push(annotation);
        Ok(Annotated::Kept)
    }

    async fn annotations(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Vec<Annotation>>, StoreError> {
        let tables = self.tables();
        let visible = tables.visible(scope, run);
        Ok(visible.map(|_| tables.annotations.get(run).cloned().unwrap_or_default()))
    }
}

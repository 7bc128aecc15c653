//! The port to what people say of runs: plain rows beside the logs.

use std::fmt;

use async_trait::async_trait;

use callboard_protocol::{Annotation, RunId};

use crate::store::{Scope, StoreError};

/// Annotations by run. A run that the caller may not see has none and takes none.
#[async_trait]
pub trait Annotations: fmt::Debug + Send + Sync {
    /// Keeps an annotation, unless its run has `most` of them already.
    async fn annotate(
        &self,
        scope: &Scope,
        annotation: Annotation,
        most: usize,
    ) -> Result<Annotated, StoreError>;

    /// The annotations of a run in the order in which they came; none if there is no such run for this caller.
    async fn annotations(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Vec<Annotation>>, StoreError>;
}

/// What became of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Annotated {
    Kept,
    UnknownRun,
    TooMany,
}

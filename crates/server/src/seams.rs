//! Where the protocol's test suite is let in. What it finds there is another crate's: no door of it stands in this one.

use std::any::Any;
use std::fmt;

use crate::operations::Operation;
use crate::problem::Problem;

/// What a host that was started for the suite answers beside the table of operations.
pub trait Seams: Any + fmt::Debug + Send + Sync {
    /// They pass the same gate as every operation, and stay out of the OpenAPI document.
    fn operations(&self) -> &'static [Operation];

    /// Refuses a definition that needs a capability which a test has switched off.
    fn check_workflow(&self, definition: &[u8]) -> Result<(), Problem>;
}

//! What the tests of the real binary share.

pub(crate) mod definitions;
pub(crate) mod host;

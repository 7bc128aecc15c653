//! The two majors of the protocol, as a request speaks and a record remembers them.

use serde::{Deserialize, Serialize};

/// Stored as `v1` and `v2`; what does not say it is from before there was a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    #[default]
    V1,
    V2,
}

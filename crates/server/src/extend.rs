//! What operations of another crate are made from: rows, extractors, answers, and the functions that handlers share. The
//! protocol's test suite has its endpoints in `conformance`, and they go through the same code as all others.

pub use crate::answer::Answer;
pub use crate::app::Host;
pub use crate::bundle::{assemble, documents};
pub use crate::discovery::{CLARIFICATION_ROUNDS, ENVELOPES_PER_TURN};
pub use crate::extract::{Named, Sent, Shaped, parse};
pub use crate::keys::Caller;
pub use crate::log::read_rest;
pub use crate::operations::{Family, Gives, delete, get, patch, post, put};
pub use crate::problem::{Code, Problem};
pub use crate::query::Parameters;
pub use crate::seams::Seams;
pub use crate::v2::effect_seams::Seam;

/// Promotions and rollbacks, checked and then committed.
pub mod deployments {
    pub use crate::routes::deployments::{prepare, read};
}

/// The files of a workspace.
pub mod files {
    pub use crate::routes::files::{delete, found, listed, put};
}

/// Why a library of prompts says no.
pub mod prompts {
    pub use crate::routes::prompts::problem;
}

/// Standing members and their runs.
pub mod roster {
    pub use crate::routes::roster::{Fired, find, members, order, take_on};
}

/// Trigger subscriptions and what comes in over them.
pub mod triggers {
    pub use crate::routes::triggers::{
        Came, Create, Mode, arrival_id, blank, problem, read_post, subscribe, unproven,
    };
}

/// What is put before standing members.
pub mod work {
    pub use crate::routes::work::{new_item, prepare};
}

/// Definitions of what runs do.
pub mod workflows {
    pub use crate::routes::workflows::store;
}

/// A name that nobody has used.
pub fn fresh(prefix: &str) -> String {
    format!("{prefix}{}", uuid::Uuid::now_v7())
}

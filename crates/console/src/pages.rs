//! One module per screen: what it reads from the API, and the page that is made of it.

pub(crate) mod agents;
pub(crate) mod compare;
pub(crate) mod find;
pub(crate) mod inbox;
pub(crate) mod memory;
pub(crate) mod money;
pub(crate) mod overview;
pub(crate) mod roster;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod settings;
pub(crate) mod triggers;
pub(crate) mod workflows;

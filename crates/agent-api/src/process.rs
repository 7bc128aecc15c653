//! Child processes: what they are started with, how they are read, how they end.

pub(crate) mod capture;
pub(crate) mod environment;
pub(crate) mod group;
pub(crate) mod leftovers;
pub(crate) mod lines;
pub(crate) mod scratch;
pub(crate) mod spawn;
pub(crate) mod supervise;

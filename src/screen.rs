//! Output for people: every line, table, progress bar and text that this program prints.

pub(crate) mod listing;
pub(crate) mod mend;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod words;

//! The values that a run holds, what they weigh, and which of them are not to be shown.

use std::collections::BTreeMap;

use callboard_protocol::{ChannelName, Object};
use serde_json::Value;

use crate::birth::Birth;
use crate::bounds::{weight, weight_of};
use crate::channel::Channel;
use crate::mask::Sensitive;

#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(super) variables: Object,
    pub(super) channels: BTreeMap<ChannelName, Channel>,
    /// The versions that were pinned, by change id.
    pub(super) pins: BTreeMap<String, i64>,
    /// What all values weigh that were ever taken: at least what the run holds.
    pub(super) taken: usize,
    /// What the values weigh that it began with, which the birth record holds besides.
    pub(super) given: usize,
    pub(super) sensitive: Sensitive,
}

impl Values {
    pub(super) fn of(birth: &Birth) -> Self {
        Self {
            variables: Object::new(),
            channels: BTreeMap::new(),
            pins: BTreeMap::new(),
            taken: 0,
            given: 0,
            sensitive: Sensitive::of(birth),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &Value) {
        self.take_value(value);
        self.variables.insert(name.to_owned(), value.clone());
    }

    /// Counts what was taken in.
    pub(super) fn take(&mut self, fields: &Object) {
        self.taken = self.taken.saturating_add(weight_of(fields));
    }

    pub(super) fn take_value(&mut self, value: &Value) {
        self.taken = self.taken.saturating_add(weight(value));
    }
}

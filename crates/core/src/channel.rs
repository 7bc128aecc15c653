//! Typed state channels: how writes fold into a value, who may touch it, and what a newer schema does to old writes.

use serde_json::{Value, json};

use callboard_protocol::{
    ChannelAccess, ChannelDeclaration, ChannelName, Failure, NodeId, Object, Reducer, Timestamp,
    TypeId,
};

/// The reduced value of one channel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Channel {
    pub(crate) value: Value,
}

/// What bounds a write beside its reducer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) max_size: Option<usize>,
}

impl Channel {
    pub(crate) fn new(reducer: &Reducer, default: Option<&Value>) -> Self {
        let value = default.cloned().unwrap_or_else(|| match reducer {
            Reducer::Append | Reducer::Votes | Reducer::Feedback | Reducer::Message => json!([]),
            Reducer::Counter => json!(0),
            Reducer::Merge => json!({}),
            Reducer::Replace | Reducer::Vendor(_) => Value::Null,
        });
        Self { value }
    }

    /// Folds one write. Total: a value of the wrong kind was refused before it was written, and an
    /// old log that holds one must still fold.
    pub(crate) fn fold(
        &mut self,
        reducer: &Reducer,
        bounds: Bounds,
        written: &Value,
        at: Timestamp,
    ) {
        match reducer {
            Reducer::Replace | Reducer::Vendor(_) => self.value = written.clone(),
            Reducer::Merge => merge(&mut self.value, written),
            Reducer::Counter => self.value = add(&self.value, written),
            Reducer::Append | Reducer::Feedback => change_entries(&mut self.value, |entries| {
                prune(entries, bounds, at);
                entries.push(wrap(written.clone(), bounds, at));
                bound(entries, bounds);
            }),
            Reducer::Votes => change_entries(&mut self.value, |entries| {
                prune(entries, bounds, at);
                entries.retain(|entry| voter(entry).is_none() || voter(entry) != voter(written));
                entries.push(wrap(written.clone(), bounds, at));
                bound(entries, bounds);
            }),
            Reducer::Message => change_entries(&mut self.value, |entries| {
                let id = written.get("messageId");
                if id.is_none() || !entries.iter().any(|entry| entry.get("messageId") == id) {
                    entries.push(written.clone());
                    bound(entries, bounds);
                }
            }),
        }
    }
}

/// Whether a value can be written at all: its kind must suit the reducer, its size the bound.
pub(crate) fn check_write(
    channel: &ChannelName,
    reducer: &Reducer,
    bounds: Bounds,
    value: &Value,
) -> Result<(), Failure> {
    let fits = match reducer {
        Reducer::Merge => value.is_object(),
        Reducer::Counter => value.is_number(),
        Reducer::Votes => value.get("userId").is_some_and(Value::is_string),
        Reducer::Message => value.is_object(),
        Reducer::Replace | Reducer::Append | Reducer::Feedback | Reducer::Vendor(_) => true,
    };
    if !fits {
        let reducer = String::from(reducer.clone());
        return Err(invalid(
            channel,
            format!("channel {channel} reduces with {reducer}, which this value does not suit"),
        ));
    }
    let is_list = reducer.keeps_entries() || *reducer == Reducer::Message;
    match bounds.max_size {
        Some(most) if !is_list && size(value) > most => Err(invalid(
            channel,
            format!("the value is larger than the {most} that channel {channel} admits"),
        )),
        _ => Ok(()),
    }
}

/// Whether a node may write (or read) a declared channel.
pub(crate) fn check_access(
    channel: &ChannelName,
    declaration: &ChannelDeclaration,
    side: Side,
    node: &NodeId,
    type_id: &TypeId,
) -> Result<(), Failure> {
    let admitted = match (&declaration.access, side) {
        (None | Some(ChannelAccess::Public), _) => true,
        (Some(ChannelAccess::Private), _) => false,
        (Some(ChannelAccess::Lists { readers, .. }), Side::Readers) => {
            admits(readers.as_deref(), node, type_id)
        }
        (Some(ChannelAccess::Lists { writers, .. }), Side::Writers) => {
            admits(writers.as_deref(), node, type_id)
        }
    };
    if admitted {
        return Ok(());
    }
    let details = details(json!({
        "channel": channel,
        "requestedBy": { "nodeId": node, "typeId": type_id },
        "allowed": side.as_str(),
    }));
    let message = format!("node {node} is not among the {} of channel {channel}", side.as_str());
    Err(Failure::new("channel_access_denied", message).with_details(details))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Readers,
    Writers,
}

impl Side {
    fn as_str(self) -> &'static str {
        match self {
            Self::Readers => "readers",
            Self::Writers => "writers",
        }
    }
}

/// What the fold makes of a write that carries a schema version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evolution {
    /// Fold it as it is: it is current, or newer than we are.
    Fold,
    /// Fold it, if the result still satisfies the current schema.
    FoldIfValid,
    /// The schema has moved on without it.
    Breaking,
}

pub(crate) fn evolution(declaration: &ChannelDeclaration, written: Option<u32>) -> Evolution {
    let current = declaration.schema_version.unwrap_or(1);
    let written = written.unwrap_or(1);
    if written >= current {
        Evolution::Fold
    } else if declaration
        .compatible_with
        .as_ref()
        .is_some_and(|versions| versions.contains(&written))
    {
        Evolution::FoldIfValid
    } else {
        Evolution::Breaking
    }
}

pub(crate) fn breaking_change(
    channel: &ChannelName,
    current: u32,
    written: u32,
    event: &str,
) -> Failure {
    let details = details(json!({
        "channel": channel,
        "currentSchemaVersion": current,
        "incompatibleEventVersion": written,
        "incompatibleEventId": event,
        "migrationHint": "write to a new channel, or list the old version in compatibleWith",
    }));
    let message = format!(
        "channel {channel} is at schema version {current}; a write of version {written} does not fit it"
    );
    Failure::new("channel_schema_breaking_change", message).with_details(details)
}

pub(crate) fn invalid(channel: &ChannelName, message: String) -> Failure {
    Failure::new("validation_error", message).with_details(details(json!({ "channel": channel })))
}

fn details(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}

fn admits(list: Option<&[String]>, node: &NodeId, type_id: &TypeId) -> bool {
    list.is_none_or(|entries| {
        entries.iter().any(|entry| match entry.strip_suffix('*') {
            Some(prefix) => type_id.as_str().starts_with(prefix),
            None => entry == node.as_str() || entry == type_id.as_str(),
        })
    })
}

/// Hands the entries to `change`; a value that is no list, which only a foreign log can hold, starts anew.
fn change_entries(value: &mut Value, change: impl FnOnce(&mut Vec<Value>)) {
    let mut entries = match value.take() {
        Value::Array(entries) => entries,
        _ => Vec::new(),
    };
    change(&mut entries);
    *value = Value::Array(entries);
}

fn prune(entries: &mut Vec<Value>, bounds: Bounds, at: Timestamp) {
    let Some(ttl) = bounds.ttl_ms else { return };
    let oldest = at.as_millis().saturating_sub(i64::try_from(ttl).unwrap_or(i64::MAX));
    entries.retain(|entry| {
        entry.get("_ts").and_then(Value::as_i64).is_none_or(|written| written >= oldest)
    });
}

/// Entries of a channel with a time-to-live carry the time of their write.
fn wrap(value: Value, bounds: Bounds, at: Timestamp) -> Value {
    if bounds.ttl_ms.is_some() { json!({ "value": value, "_ts": at.as_millis() }) } else { value }
}

fn bound(entries: &mut Vec<Value>, bounds: Bounds) {
    if let Some(most) = bounds.max_size
        && entries.len() > most
    {
        entries.drain(..entries.len() - most);
    }
}

fn voter(entry: &Value) -> Option<&Value> {
    entry.get("userId").or_else(|| entry.get("value")?.get("userId"))
}

fn merge(value: &mut Value, written: &Value) {
    if !value.is_object() {
        *value = json!({});
    }
    if let (Value::Object(fields), Value::Object(more)) = (value, written) {
        fields.extend(more.clone());
    }
}

fn add(value: &Value, written: &Value) -> Value {
    if let (Some(left), Some(right)) = (value.as_i64(), written.as_i64())
        && let Some(sum) = left.checked_add(right)
    {
        return json!(sum);
    }
    json!(value.as_f64().unwrap_or(0.0) + written.as_f64().unwrap_or(0.0))
}

/// How `maxSize` measures a value that is not a list of entries.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        Value::String(text) => text.chars().count(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

//! Answers of handlers in the words of the second major: ids bound to their tenant, links without a version.

use callboard_protocol::Object;
use serde_json::Value;

use super::payload::bind_one;
use super::{event_names, id};

/// Puts an answer of the first major into the words of the second. The text is the tenant's name.
pub(crate) type Gives = fn(&mut Object, &str);

/// An answer about one run, with links to it.
pub(crate) fn run(fields: &mut Object, tenant: &str) {
    let run = fields.get("runId").and_then(Value::as_str).unwrap_or_default().to_owned();
    for name in ["eventsUrl", "statusUrl"] {
        if let Some(Value::String(link)) = fields.get_mut(name) {
            let segment = id::segment(tenant, &run);
            *link = link.replacen("/v1/", "/", 1).replacen(&run, &segment, 1);
        }
    }
    bind(fields, &["runId", "sourceRunId"], tenant);
}

pub(crate) fn ancestry(fields: &mut Object, tenant: &str) {
    bind(fields, &["runId"], tenant);
    if let Some(Value::Object(parent)) = fields.get_mut("parent") {
        bind(parent, &["runId"], tenant);
    }
}

pub(crate) fn annotation(fields: &mut Object, tenant: &str) {
    if let Some(Value::Object(target)) = fields.get_mut("target") {
        bind(target, &["runId"], tenant);
    }
}

pub(crate) fn annotations(fields: &mut Object, tenant: &str) {
    each(fields, "annotations", |one| annotation(one, tenant));
}

pub(crate) fn artifact(fields: &mut Object, tenant: &str) {
    bind(fields, &["runId"], tenant);
}

pub(crate) fn deployment(fields: &mut Object, tenant: &str) {
    bind(fields, &["evalRunId"], tenant);
    each(fields, "deployments", |one| bind(one, &["evalRunId"], tenant));
}

/// `{kind, key, data, resumeSchema?, timeoutMs?}` and nothing else.
pub(crate) fn interrupt(fields: &mut Object, _: &str) {
    fields.retain(|name, _| {
        ["kind", "key", "data", "resumeSchema", "timeoutMs"].contains(&name.as_str())
    });
}

fn each(fields: &mut Object, name: &str, tell: impl Fn(&mut Object)) {
    let Some(Value::Array(items)) = fields.get_mut(name) else { return };
    items.iter_mut().filter_map(Value::as_object_mut).for_each(tell);
}

pub(super) fn bind(fields: &mut Object, names: &[&str], tenant: &str) {
    for name in names {
        bind_one(fields, name, |bare| id::bound(tenant, bare));
    }
}

/// A trigger subscription. What it is bound to stands in no other answer.
pub(crate) fn subscription(fields: &mut Object, tenant: &str) {
    if let Some(Value::Object(subscription)) = fields.get_mut("subscription") {
        bind(subscription, &["subscriptionId"], tenant);
    }
}

/// The same when it was made, with the address that takes its deliveries.
pub(crate) fn registered(fields: &mut Object, tenant: &str) {
    let bare = fields.get("subscription").and_then(|one| one["subscriptionId"].as_str());
    let bare = bare.unwrap_or_default().to_owned();
    if let Some(Value::String(url)) = fields.get_mut("binding").and_then(|b| b.get_mut("ingestUrl"))
    {
        *url = url.replacen("/v1/", "/", 1).replacen(&bare, &id::segment(tenant, &bare), 1);
    }
    subscription(fields, tenant);
}

pub(crate) fn delivery(fields: &mut Object, tenant: &str) {
    bind(fields, &["runId", "subscriptionId"], tenant);
}

pub(crate) fn trigger_letters(fields: &mut Object, tenant: &str) {
    fields.remove("cursor");
    each(fields, "deliveries", |letter| {
        bind(letter, &["subscriptionId"], tenant);
        for part in ["attempt", "stateChange"] {
            if let Some(Value::Object(part)) = letter.get_mut(part) {
                bind(part, &["subscriptionId", "runId"], tenant);
            }
        }
    });
}

/// A webhook when it was made.
pub(crate) fn webhook(fields: &mut Object, tenant: &str) {
    bind(fields, &["webhookId", "subscriptionId"], tenant);
    fields.remove("secretFingerprint");
    for name in fields.get_mut("eventTypes").and_then(Value::as_array_mut).into_iter().flatten() {
        let told = name.as_str().map(|name| event_names::second_pattern(name).to_owned());
        if let Some(told) = told {
            *name = told.into();
        }
    }
}

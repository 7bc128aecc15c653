//! The closed discovery document of the second major, made from that of the first: what one says, the other says.
//!
//! A family is there or it is not: nothing says `supported`. Everything else is one record for each family.

use callboard_engine::{DeliveryLoop, RetryPace};
use callboard_protocol::{ERA, Object, SECOND_VERSION};
use serde_json::{Value, json};

use super::event_names;
use crate::app::Host;
use crate::page::PageSize;

/// How the protocol's test suite can see that a family is as it says.
#[derive(Debug, Clone, Copy)]
enum Witness {
    Gated,
    Claims,
}

/// Families that both documents have, with what they say there. Agents are put together from several.
const SHARED: [(&str, Witness); 19] = [
    ("auth", Witness::Gated),
    ("limits", Witness::Gated),
    ("envelopes", Witness::Claims),
    ("prompts", Witness::Gated),
    ("secrets", Witness::Gated),
    ("feedback", Witness::Gated),
    ("providerUsage", Witness::Gated),
    ("modelCapabilities", Witness::Gated),
    ("subWorkflow", Witness::Claims),
    ("toolCatalog", Witness::Gated),
    ("toolHooks", Witness::Gated),
    ("agents", Witness::Gated),
    ("multiAgent", Witness::Claims),
    ("memory", Witness::Gated),
    ("workspace", Witness::Gated),
    ("deadLetter", Witness::Gated),
    ("budget", Witness::Gated),
    ("scheduling", Witness::Gated),
    ("triggerBridge", Witness::Gated),
];

/// What stands beside the families, as it is.
const METADATA: [&str; 8] = [
    "protocolVersions",
    "preferredVersion",
    "implementation",
    "engineVersion",
    "compliance",
    "fixtures",
    "testing",
    "conformance",
];

pub(crate) fn document(first: Value, host: &Host) -> Value {
    let Value::Object(mut first) = first else { return Value::Null };
    let mut root = Object::new();
    for name in METADATA {
        if let Some(value) = first.remove(name) {
            root.insert(name.to_owned(), value);
        }
    }
    let mut put = |name: &str, value: Value| drop(root.insert(name.to_owned(), value));
    put("protocolVersion", host.app.config.majors.preferred().into());
    put("eventLogSchemaVersion", ERA.into());
    put("observability", observability(first.get("observability")));
    put("extensions", extensions(first.get("extensions")));
    for (name, witness) in SHARED {
        if let Some(facets) = first.get(name).cloned().and_then(claimed) {
            put(name, record(witness, facets));
        }
    }
    put("interrupt", record(Witness::Gated, json!({ "tokenAlgs": ["hs256"] })));
    let replay = json!({
        "modes": first["replay"]["modes"], "effectSeamsManifest": "/host/effect-seams",
    });
    put("replay", record(Witness::Gated, replay));
    put("webhooks", record(Witness::Gated, webhooks(&first, host)));
    let regions = json!({ "crossRegion": first["idempotency"]["crossRegion"] });
    put("idempotency", record(Witness::Gated, regions));
    put("eventLog", record(Witness::Claims, json!({})));
    put("runList", record(Witness::Gated, run_list()));
    put("conversationPrimitive", record(Witness::Claims, json!({})));
    let kinds = json!({ "kinds": first["supportedEnvelopes"] });
    put("supportedEnvelopes", record(Witness::Gated, kinds));
    let versions = json!({ "kinds": first["schemaVersions"] });
    put("schemaVersions", record(Witness::Gated, versions));
    if let Some(conformance) = root.get_mut("conformance") {
        conformance["seamsProfile"] = "openwop-conformance-seams-v2".into();
    }
    rename_events(&mut root);
    Value::Object(root)
}

fn webhooks(first: &Object, host: &Host) -> Value {
    let longest = host.app.deliveries.pace().longest().as_millis();
    json!({
        "signatureAlgorithms": first["webhooks"]["signatureAlgorithms"],
        "retryPolicy": {
            "maxAttempts": RetryPace::MOST_ATTEMPTS,
            "backoff": "exponential",
            "maxElapsedMs": u64::try_from(longest).unwrap_or(u64::MAX),
        },
        "deadLetter": {
            "retentionDays": DeliveryLoop::LETTERS_KEPT.as_secs() / 86_400,
            "maxPageSize": PageSize::MOST,
        },
    })
}

fn run_list() -> Value {
    json!({ "maxPageSize": PageSize::MOST, "filters": ["workflowId", "status"] })
}

fn record(witness: Witness, facets: Value) -> Value {
    let witness = match witness {
        Witness::Gated => "witnessable-gated",
        Witness::Claims => "claims-check",
    };
    let mut record = json!({ "status": "stable", "since": SECOND_VERSION, "witness": witness });
    if let (Value::Object(record), Value::Object(facets)) = (&mut record, facets) {
        record.extend(facets);
    }
    record
}

/// What is said of something that is there; none where it is not. Presence is the claim, at every depth.
fn claimed(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            if fields.get("supported") == Some(&Value::Bool(false)) {
                return None;
            }
            let fields = fields.into_iter().filter(|(name, _)| name != "supported");
            let said = fields.filter_map(|(name, value)| Some((name, claimed(value)?)));
            Some(Value::Object(said.collect()))
        }
        other => Some(other),
    }
}

fn observability(first: Option<&Value>) -> Value {
    let keep = ["otel", "testSeams"];
    let fields = first.and_then(Value::as_object).cloned().unwrap_or_default();
    Value::Object(fields.into_iter().filter(|(name, _)| keep.contains(&name.as_str())).collect())
}

/// Extensions are named by their vendor and what they are.
fn extensions(first: Option<&Value>) -> Value {
    let said = |name: &str| first.and_then(|all| all.get(name)).cloned().unwrap_or_default();
    let mut own = said("callboard");
    own["basePath"] = "/host/callboard".into();
    if let Value::Object(own) = &mut own {
        // Every webhook of this major is durable.
        own.remove("durableWebhooks");
    }
    json!({
        "callboard.host": own,
        "callboard.interrupts": { "profiles": said("interrupts")["profiles"] },
    })
}

fn rename_events(root: &mut Object) {
    let events = root.get_mut("envelopes").and_then(|all| all.pointer_mut("/reliability/events"));
    for name in events.and_then(Value::as_array_mut).into_iter().flatten() {
        let told = name.as_str().and_then(event_names::second).map(str::to_owned);
        if let Some(told) = told {
            *name = told.into();
        }
    }
}

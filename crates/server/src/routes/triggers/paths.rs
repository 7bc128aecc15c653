//! Where what came in is found, for mappings and filters: a path that no delivery of the source has is refused when it is
//! sent, with the nearest one that there is.

use callboard_authoring::nearest;
use callboard_core::mentioned_names;
use callboard_engine::Preset;
use callboard_protocol::{Object, TriggerSource, WorkflowId};

use crate::app::Host;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::routes::strict;

/// What a delivery has whatever its source.
const OF_EVERY_DELIVERY: [&str; 7] = [
    "source",
    "subscriptionId",
    "deliveryId",
    "dedupKey",
    "contentTrust",
    "verified",
    "receivedAt",
];
const OF_MAIL: [&str; 9] = [
    "from",
    "to",
    "subject",
    "text",
    "html",
    "attachments",
    "messageId",
    "inReplyTo",
    "references",
];
/// Longer ones are programs, and belong into a workflow.
const LONGEST_FILTER: usize = 1_024;

/// Places that deliveries have. What lies below a place that ends here is the sender's.
fn places(source: TriggerSource, preset: Preset) -> Vec<Vec<&'static str>> {
    let mut places: Vec<Vec<&str>> = OF_EVERY_DELIVERY.iter().map(|name| vec![*name]).collect();
    match source {
        TriggerSource::Webhook => {
            places.extend([vec!["body"], vec!["webhook", "body"], vec!["webhook", "method"]]);
            for header in preset.headers() {
                places.extend([vec!["headers", header], vec!["webhook", "headers", header]]);
            }
            if preset.event_from().is_some() {
                places.push(vec!["event"]);
            }
        }
        TriggerSource::Form => places.push(vec!["form", "fields"]),
        TriggerSource::Email => places.extend(OF_MAIL.map(|part| vec!["email", part])),
        TriggerSource::Queue => places.push(vec!["queue"]),
        TriggerSource::Schedule | TriggerSource::Heartbeat | TriggerSource::Manual => {}
    }
    places
}

/// Why a path leads nowhere, with the nearest that leads somewhere.
fn astray<S: AsRef<str>>(
    path: &[S],
    source: TriggerSource,
    preset: Preset,
) -> Option<(String, Option<String>)> {
    let places = places(source, preset);
    // The whole of something may be meant, as in `webhook` alone.
    let fits =
        |place: &&Vec<&str>| place.iter().zip(path).all(|(one, other)| *one == other.as_ref());
    if places.iter().any(|place| fits(&place)) {
        return None;
    }
    let said = path.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(".");
    let known: Vec<String> = places.iter().map(|place| place.join(".")).collect();
    let near = nearest(&said, known.iter().map(String::as_str)).map(str::to_owned);
    let own = known.iter().filter(|known| !OF_EVERY_DELIVERY.contains(&known.as_str()));
    let is_short =
        |known: &&String| !known.starts_with("webhook.") && !known.starts_with("headers.");
    let mut expected: Vec<&str> = own.filter(is_short).map(String::as_str).collect();
    if source == TriggerSource::Webhook {
        expected.extend(["headers", "webhook"]);
    }
    let message = format!("{said:?} leads nowhere; a path begins with {}", expected.join(", "));
    Some((message, near))
}

fn refusal(at: &str, (message, near): (String, Option<String>)) -> Problem {
    match near {
        Some(near) => {
            let message = format!("{message}; did you mean {near:?}?");
            Problem::invalid_at(at, &message).with("didYouMean", near)
        }
        None => Problem::invalid_at(at, &message),
    }
}

/// Refuses a mapping to an input that the workflow does not know, or from a place that no delivery has.
pub(super) async fn check_mapping(
    host: &Host,
    caller: &Caller,
    workflow: &WorkflowId,
    (source, preset): (TriggerSource, Preset),
    mapping: &Object,
) -> Result<(), Problem> {
    strict::inputs(host, caller, workflow, mapping, "inputMapping").await?;
    for (name, from) in mapping {
        let Some(path) = from.as_str() else { continue };
        let steps: Vec<&str> = path.split('.').collect();
        if let Some(astray) = astray(&steps, source, preset) {
            return Err(refusal(&format!("inputMapping.{name}"), astray));
        }
    }
    Ok(())
}

/// Refuses a filter that does not parse, or that asks for what no delivery has and so would never hold.
pub(super) fn check_filter(
    filter: &str,
    source: TriggerSource,
    preset: Preset,
) -> Result<(), Problem> {
    if filter.trim().is_empty() || filter.len() > LONGEST_FILTER {
        let message = format!("must have 1 to {LONGEST_FILTER} bytes");
        return Err(Problem::invalid_at("filter", &message));
    }
    let mentioned = mentioned_names(filter)
        .map_err(|why| Problem::invalid_at("filter", &format!("is no expression: {why}")))?;
    match mentioned.iter().find_map(|path| astray(path, source, preset)) {
        Some(astray) => Err(refusal("filter", astray)),
        None => Ok(()),
    }
}

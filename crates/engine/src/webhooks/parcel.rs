//! A delivery as it goes over the wire: body, headers, signature.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde_json::json;
use sha2::Sha256;

use callboard_protocol::{RunId, Timestamp, hex};

use super::callback::TranslatedEvent;
use super::delivery::Delivery;
use super::webhook::Secret;
use crate::deliver::Parcel;
use crate::store::Recorded;

/// What the protocol gives a receiver.
pub(super) const WITHIN: Duration = Duration::from_secs(5);

/// The protocol's headers have an old spelling and a new one; both are sent, with equal values.
const FAMILIES: [&str; 2] = ["X-openwop-", "OpenWOP-"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    r#type: &'a str,
    run_id: &'a RunId,
    workspace_id: &'a str,
    event: &'a Recorded,
}

/// Packs and signs. Fails if what the log keeps is no JSON, which only a damaged database can bring about.
pub(super) fn pack(delivery: &Delivery, secret: &Secret, at: Timestamp) -> Result<Parcel, String> {
    let event = &delivery.event;
    let workspace = delivery.workspace.as_ref().map(|workspace| workspace.as_str());
    let body = serde_json::to_string(&Body {
        r#type: &event.kind,
        run_id: &event.run,
        workspace_id: workspace.unwrap_or(delivery.tenant.as_str()),
        event,
    });
    let body = body.map_err(|_| "the stored event cannot be read".to_owned())?;
    enclose(delivery.names(), secret, body, at)
}

/// The same in the words of the second major: no type beside the event, and a workspace only where there is one.
pub(super) fn pack_projected(
    delivery: &Delivery,
    told: &TranslatedEvent,
    secret: &Secret,
    at: Timestamp,
) -> Result<Parcel, String> {
    let mut body = json!({ "runId": told.run_id, "event": told.event });
    if let Some(workspace) = &delivery.workspace {
        body["workspaceId"] = workspace.as_str().into();
    }
    let names = Names { url: &delivery.webhook.url, webhook: &told.webhook_id, kind: &told.kind };
    enclose(names, secret, body.to_string(), at)
}

/// What stands around a body, in the words of its major.
pub(super) struct Names<'a> {
    url: &'a str,
    webhook: &'a str,
    kind: &'a str,
}

impl Delivery {
    pub(super) fn names(&self) -> Names<'_> {
        Names { url: &self.webhook.url, webhook: self.webhook.id.as_str(), kind: &self.event.kind }
    }
}

/// A body with what stands around it.
pub(super) fn enclose(
    names: Names<'_>,
    secret: &Secret,
    body: String,
    at: Timestamp,
) -> Result<Parcel, String> {
    let seconds = at.as_millis().div_euclid(1_000).to_string();
    let signature =
        sign(secret, &seconds, &body).ok_or_else(|| "the secret cannot be used".to_owned())?;
    let own = [
        ("Webhook-Id", names.webhook),
        ("Event-Type", names.kind),
        ("Timestamp", &seconds),
        ("Signature", &signature),
        ("Signature-Algorithm", "v1"),
    ];
    let mut headers = vec![
        ("Content-Type".to_owned(), "application/json".to_owned()),
        (
            "User-Agent".to_owned(),
            concat!("openwop-webhook-dispatcher/", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
    ];
    for family in FAMILIES {
        headers.extend(own.map(|(name, value)| (format!("{family}{name}"), value.to_owned())));
    }
    Ok(Parcel { url: names.url.to_owned(), headers, body, within: WITHIN })
}

/// The secret's own text is the key. HMAC takes keys of any length, so there is always a signature.
fn sign(secret: &Secret, seconds: &str, body: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.reveal().as_bytes()).ok()?;
    mac.update(seconds.as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    let hex: String = hex(mac.finalize().into_bytes());
    Some(format!("sha256={hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with another implementation: `printf '1763251200.{}' | openssl dgst -sha256 -hmac geheim`.
    #[test]
    fn the_signature_is_the_one_that_others_compute() {
        let signature = sign(&Secret::new("geheim".to_owned()), "1763251200", "{}");
        let expected = "sha256=a9ce2a3f992b72d1a730fa6b456ab8f2a77df077e666a8ef39f76f7e772a30e2";
        assert_eq!(signature.as_deref(), Some(expected));
    }
}

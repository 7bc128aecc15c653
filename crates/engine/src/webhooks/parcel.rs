//! A delivery as it goes over the wire: body, headers, signature.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde_json::json;
use sha2::Sha256;

use callboard_protocol::{RunId, Tenant, Timestamp, hex};

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
    let names = Names { webhook: &told.webhook_id, kind: &told.kind, ..delivery.names() };
    enclose(names, secret, body.to_string(), at)
}

/// What stands around a body, in the words of its major.
pub(super) struct Names<'a> {
    tenant: &'a Tenant,
    url: &'a str,
    webhook: &'a str,
    kind: &'a str,
}

impl Delivery {
    pub(super) fn names(&self) -> Names<'_> {
        let (webhook, kind) = (self.webhook.id.as_str(), self.event.kind.as_str());
        Names { tenant: &self.tenant, url: &self.webhook.url, webhook, kind }
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
    let (tenant, url) = (names.tenant.clone(), names.url.to_owned());
    Ok(Parcel { tenant, url, headers, body, within: WITHIN })
}

/// How far a receiver lets the clocks of both sides differ.
const WINDOW: Duration = Duration::from_secs(300);

/// Judges a delivery as its receiver does: by either spelling of the headers, and by the very bytes that were signed. A
/// refusal says why.
pub fn judge_delivery<'a>(
    secret: &Secret,
    header: impl Fn(&str) -> Option<&'a str>,
    body: &str,
    now: Timestamp,
) -> Result<(), &'static str> {
    let said = |name: &str| {
        FAMILIES.iter().find_map(|family| header(&format!("{family}{name}"))).ok_or("unsigned")
    };
    if said("Signature-Algorithm")? != "v1" {
        return Err("unknown_algorithm");
    }
    let seconds = said("Timestamp")?;
    let at = seconds.parse::<i64>().map_err(|_| "malformed_timestamp")?;
    let at = Timestamp::from_millis(at.saturating_mul(1_000));
    if now.since(at).max(at.since(now)) > WINDOW {
        return Err("stale_timestamp");
    }
    let signature = said("Signature")?.strip_prefix("sha256=").ok_or("malformed_signature")?;
    let signature = unhex(signature).ok_or("malformed_signature")?;
    let mac = signed(secret, seconds, body).ok_or("unusable_secret")?;
    mac.verify_slice(&signature).map_err(|_| "signature_invalid")
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits?;
    let byte = |pair: &[u32]| u8::try_from(pair.first()? << 4 | pair.get(1)?).ok();
    pairs.chunks(2).map(byte).collect()
}

/// The secret's own text is the key. HMAC takes keys of any length, so there is always a signature.
fn sign(secret: &Secret, seconds: &str, body: &str) -> Option<String> {
    let hex: String = hex(signed(secret, seconds, body)?.finalize().into_bytes());
    Some(format!("sha256={hex}"))
}

fn signed(secret: &Secret, seconds: &str, body: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.reveal().as_bytes()).ok()?;
    mac.update(seconds.as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    Some(mac)
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

    #[test]
    fn a_delivery_is_judged_by_either_spelling_and_by_its_bytes() {
        let (secret, body) = (Secret::new("geheim".to_owned()), "{}");
        let at = Timestamp::from_millis(1_763_251_200_000);
        let signature = sign(&secret, "1763251200", body).unwrap_or_default();
        let judge = |family: &str, body: &str, now: Timestamp| {
            let header = |name: &str| match name.strip_prefix(family)? {
                "Timestamp" => Some("1763251200"),
                "Signature" => Some(signature.as_str()),
                "Signature-Algorithm" => Some("v1"),
                _ => None,
            };
            judge_delivery(&secret, header, body, now)
        };
        for family in FAMILIES {
            assert_eq!(judge(family, body, at), Ok(()), "{family}");
            assert_eq!(judge(family, "{ }", at), Err("signature_invalid"));
            let late = at.plus(WINDOW + Duration::from_secs(1));
            assert_eq!(judge(family, body, late), Err("stale_timestamp"));
        }
        assert_eq!(judge("X-other-", body, at), Err("unsigned"));
    }
}

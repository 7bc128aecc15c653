//! Accepts what a model hands over: the checks in the protocol's order, the outcome, the events that follow.

mod kinds;
mod project;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use callboard_protocol::{AiEnvelope, ContentTrust};

pub use kinds::UNIVERSAL_KINDS;
pub use project::{RefusalMode, project};

/// The outcome of an envelope.
///
/// Kept as JSON under its correlation: an old reader ignores fields that it does not know, a new reader takes missing
/// ones for absent, and none is overwritten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum EnvelopeOutcome {
    #[serde(rename_all = "camelCase")]
    Accepted {
        envelope_id: String,
        normalized_meta: NormalizedMeta,
        /// The payload without secrets; absent where none were looked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redacted_payload: Option<Value>,
        #[serde(default)]
        redaction_count: usize,
        /// Whether the envelope is of an older version than the host speaks.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        schema_version_drift: bool,
    },
    /// The host or the node does not take envelopes of this kind.
    #[serde(rename_all = "camelCase")]
    Gated { reason: String, allowed_kinds: Vec<String> },
    /// Details name places, never values.
    Invalid {
        reason: String,
        #[serde(default)]
        details: Vec<Value>,
    },
    #[serde(rename_all = "camelCase")]
    Breached { cap_kind: String, reason: String, limit: u64, observed: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NormalizedMeta {
    pub content_trust: ContentTrust,
}

/// What an envelope is judged by.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// What the host takes beside the universal kinds.
    pub supported: Vec<String>,
    /// What the node takes beside the universal kinds; everything where it says nothing.
    pub accepts: Option<Vec<String>>,
    /// The version that the host speaks, by kind; 1 where it says nothing.
    pub versions: BTreeMap<String, u64>,
    pub strictness: Strictness,
    pub counters: Counters,
    /// Secrets by value, with their ids.
    pub secrets: Vec<(String, String)>,
    /// What holds where the envelope itself says nothing.
    pub run_trust: ContentTrust,
    /// Whether the envelope is to settle an approval.
    pub for_approval: bool,
    /// The outcome of an envelope with the same correlation.
    pub prior: Option<Prior>,
}

/// An older envelope with the same correlation.
#[derive(Debug, Clone)]
pub struct Prior {
    pub kind: String,
    pub outcome: EnvelopeOutcome,
}

/// What happens to envelopes of an older version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strictness {
    #[default]
    Warn,
    Strict,
}

/// How often something happened, and how often it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    pub current: u64,
    pub cap: u64,
}

/// What is counted; absent is not counted here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Counters {
    pub envelopes_per_turn: Option<Counter>,
    pub clarification_rounds: Option<Counter>,
    pub schema_rounds: Option<Counter>,
}

/// Judges an envelope: shape, kind, payload, the node's contract, limits, secrets, trust, repetition, in this order.
pub fn accept(envelope: Value, terms: &Terms) -> (Option<AiEnvelope>, EnvelopeOutcome) {
    let envelope = match AiEnvelope::read(envelope) {
        Ok(envelope) => envelope,
        Err(error) => {
            let place = format!("/{}", error.path.replace('.', "/"));
            let details = vec![detail(&place, &error.message)];
            // The protocol's own checker looks for the name of the standard.
            let reason = match error.path.as_str() {
                "meta.ts" => "invalid_envelope_shape: meta.ts must be a time of ISO 8601",
                _ => "invalid_envelope_shape",
            };
            return (None, invalid(reason, details));
        }
    };
    let outcome = match judge(&envelope, terms) {
        Ok(outcome) | Err(outcome) => outcome,
    };
    (Some(envelope), outcome)
}

/// An error is where an envelope got stuck.
fn judge(envelope: &AiEnvelope, terms: &Terms) -> Result<EnvelopeOutcome, EnvelopeOutcome> {
    let kind = envelope.kind.as_str();
    let is_universal = UNIVERSAL_KINDS.contains(&kind);
    if !is_universal && !terms.supported.iter().any(|known| known == kind) {
        return Err(gated("unknown_envelope_kind", kind, &terms.supported));
    }
    let drifts = version(envelope, terms)?;
    let broken = kinds::broken_rules(kind, &envelope.payload);
    if !broken.is_empty() {
        return Err(invalid("envelope_invalid", broken));
    }
    if let Some(accepts) = terms.accepts.as_ref().filter(|_| !is_universal)
        && !accepts.iter().any(|known| known == kind)
    {
        return Err(gated("envelope_contract_violation", kind, accepts));
    }
    limits(kind, &terms.counters)?;
    let mut payload = envelope.payload.clone();
    let redaction_count = redact(&mut payload, &terms.secrets);
    // Each envelope declares its own trust; only where it does not, that of the run applies.
    let content_trust = envelope.meta.content_trust.unwrap_or(terms.run_trust);
    if terms.for_approval && content_trust == ContentTrust::Untrusted {
        return Err(invalid("untrusted_content_blocks_approval", Vec::new()));
    }
    match &terms.prior {
        Some(prior) if prior.kind == kind => return Ok(prior.outcome.clone()),
        Some(_) => {
            let details = vec![detail("/correlationId", "belongs to an envelope of another type")];
            return Err(invalid("envelope_correlation_conflict", details));
        }
        None => {}
    }
    Ok(EnvelopeOutcome::Accepted {
        envelope_id: envelope.envelope_id.clone(),
        normalized_meta: NormalizedMeta { content_trust },
        redacted_payload: (!terms.secrets.is_empty()).then_some(payload),
        redaction_count,
        schema_version_drift: drifts,
    })
}

/// Whether the envelope is of an older version than the host speaks. A newer one is none that it understands.
fn version(envelope: &AiEnvelope, terms: &Terms) -> Result<bool, EnvelopeOutcome> {
    let spoken = terms.versions.get(&envelope.kind).copied().unwrap_or(1);
    let given = envelope.schema_version;
    if given > spoken || (given < spoken && terms.strictness == Strictness::Strict) {
        let details = vec![detail("/schemaVersion", &format!("this host speaks {spoken}"))];
        return Err(invalid("unknown_schema_version", details));
    }
    Ok(given < spoken)
}

fn limits(kind: &str, counters: &Counters) -> Result<(), EnvelopeOutcome> {
    let counted = [
        ("envelopes", "envelopesPerTurn", counters.envelopes_per_turn),
        (
            "clarification",
            "clarificationRounds",
            counters.clarification_rounds.filter(|_| kind == "clarification.request"),
        ),
        ("schema", "schemaRounds", counters.schema_rounds.filter(|_| kind == "schema.request")),
    ];
    for (cap_kind, name, counter) in counted {
        if let Some(Counter { current, cap }) = counter
            && current >= cap
        {
            return Err(EnvelopeOutcome::Breached {
                cap_kind: cap_kind.to_owned(),
                reason: format!("{name} allows {cap}, and there were {current} before this one"),
                limit: cap,
                observed: current.saturating_add(1),
            });
        }
    }
    Ok(())
}

/// Replaces every secret by its marker, the longest first; answers how many there were.
fn redact(value: &mut Value, secrets: &[(String, String)]) -> usize {
    let mut secrets: Vec<&(String, String)> =
        secrets.iter().filter(|(secret, _)| !secret.is_empty()).collect();
    secrets.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
    redact_all(value, &secrets)
}

fn redact_all(value: &mut Value, secrets: &[&(String, String)]) -> usize {
    match value {
        Value::String(text) => {
            let mut count = 0;
            for (secret, id) in secrets {
                count += text.matches(secret.as_str()).count();
                *text = text.replace(secret.as_str(), &format!("[REDACTED:{id}]"));
            }
            count
        }
        Value::Array(items) => items.iter_mut().map(|item| redact_all(item, secrets)).sum(),
        Value::Object(fields) => fields.values_mut().map(|field| redact_all(field, secrets)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn gated(code: &str, kind: &str, beside: &[String]) -> EnvelopeOutcome {
    let mut allowed_kinds: Vec<String> =
        UNIVERSAL_KINDS.iter().map(|kind| (*kind).to_owned()).collect();
    allowed_kinds
        .extend(beside.iter().filter(|it| !UNIVERSAL_KINDS.contains(&it.as_str())).cloned());
    EnvelopeOutcome::Gated {
        reason: format!("{code}: envelopes of type {kind} are not taken here"),
        allowed_kinds,
    }
}

fn invalid(reason: &str, details: Vec<Value>) -> EnvelopeOutcome {
    EnvelopeOutcome::Invalid { reason: reason.to_owned(), details }
}

fn detail(place: &str, message: &str) -> Value {
    json!({ "instancePath": place, "message": message })
}

#[cfg(test)]
mod tests;

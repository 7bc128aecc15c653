//! The events that follow from an envelope, each caused by it.

use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::{AiEnvelope, ContentTrust, Failure, NodeId};

use super::EnvelopeOutcome;

/// What a node does with envelopes that it does not take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalMode {
    #[default]
    FailNode,
    DiscardAndWarn,
}

/// The events of an outcome: everything but their place in a log.
pub fn project(
    envelope: Option<&AiEnvelope>,
    outcome: &EnvelopeOutcome,
    node: Option<&NodeId>,
    mode: RefusalMode,
) -> Vec<Value> {
    let told = Subject { envelope, node };
    match outcome {
        EnvelopeOutcome::Accepted {
            normalized_meta,
            redacted_payload,
            schema_version_drift,
            ..
        } => {
            let Some(envelope) = envelope else { return Vec::new() };
            let payload = redacted_payload.as_ref().unwrap_or(&envelope.payload);
            let trust = normalized_meta.content_trust;
            let mut events = vec![told.handled(envelope, payload, trust)];
            if *schema_version_drift {
                let fields = json!({ "code": "envelope_schema_version_drift" });
                events.push(told.log("warn", "the envelope is of an older version", fields, trust));
            }
            events
        }
        EnvelopeOutcome::Gated { allowed_kinds, .. } => {
            let refused = envelope.map(|envelope| envelope.kind.as_str());
            let details = json!({ "refusedType": refused, "acceptedTypes": allowed_kinds });
            let message = "the node does not take envelopes of this type";
            match mode {
                RefusalMode::FailNode => {
                    vec![told.failed("envelope_contract_violation", message, details)]
                }
                RefusalMode::DiscardAndWarn => {
                    vec![told.log("warn", message, details, ContentTrust::Trusted)]
                }
            }
        }
        EnvelopeOutcome::Invalid { reason, .. } => {
            vec![told.failed(reason, "the envelope was not accepted", json!({}))]
        }
        EnvelopeOutcome::Breached { cap_kind, reason, limit, observed } => {
            let payload =
                json!({ "kind": cap_kind, "limit": limit, "observed": observed, "nodeId": node });
            vec![
                told.event("cap.breached", payload, ContentTrust::Trusted),
                told.failed("cap_breached", reason, json!({})),
            ]
        }
    }
}

struct Subject<'a> {
    envelope: Option<&'a AiEnvelope>,
    node: Option<&'a NodeId>,
}

impl Subject<'_> {
    /// What the host does about an envelope that it took.
    fn handled(&self, envelope: &AiEnvelope, payload: &Value, trust: ContentTrust) -> Value {
        let kind = envelope.kind.as_str();
        match kind {
            "clarification.request" => {
                let payload = json!({
                    "kind": "clarification",
                    "interruptId": envelope.envelope_id,
                    "key": envelope.correlation_id,
                    "nodeId": self.node,
                    "data": payload,
                });
                self.event("interrupt.requested", payload, trust)
            }
            "error" => {
                let fields = json!({ "code": payload["code"], "envelopeType": kind });
                let message = payload["message"].as_str().unwrap_or_default();
                self.log("error", message, fields, trust)
            }
            _ => {
                let fields = json!({ "envelopeType": kind, "envelopeId": envelope.envelope_id });
                self.log("info", "an envelope was accepted", fields, trust)
            }
        }
    }

    fn failed(&self, code: &str, message: &str, details: Value) -> Value {
        let mut failure = Failure::new(code, message);
        if let Some(details) = details.as_object().filter(|details| !details.is_empty()) {
            failure = failure.with_details(details.clone());
        }
        let payload = json!({ "nodeId": self.node, "error": failure });
        self.event("node.failed", payload, ContentTrust::Trusted)
    }

    fn log(&self, level: &str, message: &str, fields: Value, trust: ContentTrust) -> Value {
        let payload = json!({ "level": level, "message": message, "fields": fields });
        self.event("log.appended", payload, trust)
    }

    fn event(&self, kind: &str, payload: Value, trust: ContentTrust) -> Value {
        let mut event = json!({ "type": kind, "payload": payload, "contentTrust": trust });
        if let Some(node) = self.node {
            event["nodeId"] = json!(node);
        }
        if let Some(envelope) = self.envelope {
            event["causationId"] = envelope.correlation_id.as_str().into();
        }
        event
    }
}

//! What a trace shows of a run, computed from its log alone.
//!
//! Ids follow from the run's id, so computing the spans again, on any host, gives the same ones: a crash
//! loses none and a takeover doubles none. Spans name things and count them; they hold a value only
//! where an operator asks for what models and tools were told.

mod calls;
mod context;
mod cost;
mod fold;

use callboard_protocol::{Object, Timestamp};
use serde::Serialize;

pub use calls::span_text;
pub use context::{SpanContext, TraceContext};
pub(crate) use cost::cost_attributes;
pub use fold::{spans, spans_with};

/// One span, in the shape that the protocol's debug bundle gives it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    pub name: String,
    pub trace_id: String,
    pub span_id: String,
    pub parent_span_id: Option<String>,
    /// What the caller's vendor wants carried along; for collectors alone.
    #[serde(skip)]
    pub trace_state: Option<String>,
    pub kind: SpanKind,
    pub status: SpanStatus,
    pub started_at: Timestamp,
    /// None while it is under way.
    pub ended_at: Option<Timestamp>,
    pub attributes: Object,
    pub events: Vec<SpanEvent>,
    /// Spans that this one derives from without being their child.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SpanContext>,
}

/// Whether spans show what tools were given and gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    #[default]
    Hidden,
    Shown,
}

/// Where it happens: inside the host, or at a provider that the host asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    Internal,
    Client,
}

/// How a span ended. The message is a code, never a text that somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpanStatus {
    pub code: SpanCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpanCode {
    Unset,
    Ok,
    Error,
}

/// Something that happened within a span.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanEvent {
    pub name: String,
    #[serde(rename = "timestamp")]
    pub at: Timestamp,
    pub attributes: Object,
}

impl SpanStatus {
    const UNSET: Self = Self { code: SpanCode::Unset, message: None };
    const OK: Self = Self { code: SpanCode::Ok, message: None };

    fn error(code: &str) -> Self {
        Self { code: SpanCode::Error, message: Some(code.to_owned()) }
    }
}

//! Places in a trace: those that callers send, and those that a run's own id names.

use callboard_protocol::{NodeId, RunId, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::birth::Birth;

/// The caller's place in a trace, as the W3C headers carry it.
///
/// Stored in the birth record: an old reader ignores it, a new reader takes an old record for a run without a
/// caller's trace, and nobody writes it twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    pub traceparent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

/// One span of one trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpanContext {
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// 16 hexadecimal digits.
    pub span_id: String,
}

/// What W3C lets a `tracestate` be at most, in characters and in members.
const LONGEST_STATE: usize = 512;
const MOST_MEMBERS: usize = 32;

impl TraceContext {
    /// Reads the two headers. What is malformed is ignored, as W3C asks: the run begins a trace of its own.
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let traceparent = traceparent.trim();
        parse(traceparent)?;
        let tracestate = tracestate.map(str::trim).filter(|state| is_state(state));
        Some(Self {
            traceparent: traceparent.to_owned(),
            tracestate: tracestate.map(str::to_owned),
        })
    }

    /// The context of a run that a node of another run starts: the node's span as its caller, and whatever the other
    /// run's own caller asked for.
    pub fn below(birth: &Birth, node: &NodeId, visit: u32) -> Self {
        let SpanContext { trace_id, span_id } = SpanContext::of_node(birth, node, visit);
        let caller = birth.trace.as_ref();
        let flags = if caller.is_none_or(Self::is_sampled) { "01" } else { "00" };
        Self {
            traceparent: format!("00-{trace_id}-{span_id}-{flags}"),
            tracestate: caller.and_then(|caller| caller.tracestate.clone()),
        }
    }

    /// Whether the caller records its trace. What follows the caller follows it in this too.
    pub fn is_sampled(&self) -> bool {
        let flags = self.traceparent.split('-').nth(3);
        let flags = flags.and_then(|flags| u8::from_str_radix(flags, 16).ok());
        flags.is_some_and(|flags| flags & 1 == 1)
    }

    /// The span that whatever carries this belongs under.
    pub fn parent(&self) -> Option<SpanContext> {
        parse(&self.traceparent)
    }
}

impl SpanContext {
    /// A run's own span.
    pub fn of_run(birth: &Birth) -> Self {
        Self::of_new_run(&birth.run_id, birth.trace.as_ref())
    }

    /// The same, for the caller that has just created the run.
    pub fn of_new_run(run: &RunId, caller: Option<&TraceContext>) -> Self {
        Self::named(run, caller, &["run"])
    }

    /// As the header of that name.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace_id, self.span_id)
    }

    /// One visit of a node: what it starts elsewhere nests under this.
    pub fn of_node(birth: &Birth, node: &NodeId, visit: u32) -> Self {
        let name = ["node", node.as_str(), &visit.to_string()];
        Self::named(&birth.run_id, birth.trace.as_ref(), &name)
    }

    pub(super) fn of_attempt(birth: &Birth, node: &NodeId, visit: u32, attempt: u32) -> Self {
        let (visit, attempt) = (visit.to_string(), attempt.to_string());
        let name = ["attempt", node.as_str(), &visit, &attempt];
        Self::named(&birth.run_id, birth.trace.as_ref(), &name)
    }

    pub(super) fn of_interrupt(birth: &Birth, interrupt_id: &str) -> Self {
        Self::named(&birth.run_id, birth.trace.as_ref(), &["interrupt", interrupt_id])
    }

    /// The call that the event of this sequence tells of.
    pub(super) fn of_call(birth: &Birth, sequence: u64) -> Self {
        Self::named(&birth.run_id, birth.trace.as_ref(), &["call", &sequence.to_string()])
    }

    fn named(run: &RunId, caller: Option<&TraceContext>, name: &[&str]) -> Self {
        let caller = caller.and_then(TraceContext::parent);
        let own = || digits(run, &["trace"], 16);
        Self {
            trace_id: caller.map_or_else(own, |caller| caller.trace_id),
            span_id: digits(run, name, 8),
        }
    }
}

/// The first bytes of a digest, in hexadecimal. The zero bytes keep `a` + `b1` apart from `ab` + `1`.
fn digits(run: &RunId, name: &[&str], bytes: usize) -> String {
    let mut digest = Sha256::new();
    digest.update(run.as_str());
    for part in name {
        digest.update([0]);
        digest.update(part);
    }
    hex(&digest.finalize()[..bytes])
}

/// `00-<trace>-<span>-<flags>`. Later versions may say more after that; version 00 may not.
fn parse(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.splitn(5, '-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let says_more = parts.next().is_some();
    let is_valid = is_hex(version, 2)
        && version != "ff"
        && !(version == "00" && says_more)
        && is_id(trace, 32)
        && is_id(span, 16)
        && is_hex(flags, 2);
    is_valid.then(|| SpanContext { trace_id: trace.to_owned(), span_id: span.to_owned() })
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_id(text: &str, length: usize) -> bool {
    is_hex(text, length) && text.bytes().any(|byte| byte != b'0')
}

fn is_state(state: &str) -> bool {
    let is_member = |member: &str| {
        let member = member.trim();
        member.is_empty() || member.split_once('=').is_some_and(|(key, _)| !key.is_empty())
    };
    !state.is_empty()
        && state.len() <= LONGEST_STATE
        && state.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && state.split(',').count() <= MOST_MEMBERS
        && state.split(',').all(is_member)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_caller_is_believed_only_if_its_header_is_well_formed() {
        let zeros = ("0".repeat(32), "0".repeat(16));
        for (header, fine) in [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!("00-{TRACE}-{SPAN}-00"), true),
            (format!("cc-{TRACE}-{SPAN}-01-what-comes-later"), true),
            (format!("00-{TRACE}-{SPAN}-01-more"), false),
            (format!("ff-{TRACE}-{SPAN}-01"), false),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), false),
            (format!("00-{}-{SPAN}-01", zeros.0), false),
            (format!("00-{TRACE}-{}-01", zeros.1), false),
            (format!("00-{TRACE}-{SPAN}"), false),
            (format!("00-{TRACE}{SPAN}-01"), false),
            (String::new(), false),
        ] {
            assert_eq!(TraceContext::read(&header, None).is_some(), fine, "{header}");
        }
    }

    #[test]
    fn a_malformed_state_is_dropped_and_the_caller_kept() {
        let header = format!("00-{TRACE}-{SPAN}-01");
        let long = format!("a={}", "x".repeat(512));
        for (state, fine) in
            [("congo=t61,rojo=00f", true), ("no member", false), ("", false), (&*long, false)]
        {
            let read = TraceContext::read(&header, Some(state)).expect("a caller");
            assert_eq!(read.tracestate.as_deref(), fine.then_some(state));
            assert_eq!(read.parent().map(|parent| parent.span_id).as_deref(), Some(SPAN));
        }
    }

    #[test]
    fn a_caller_that_does_not_record_is_followed_in_that() {
        for (flags, is_sampled) in [("00", false), ("01", true), ("03", true), ("02", false)] {
            let read = TraceContext::read(&format!("00-{TRACE}-{SPAN}-{flags}"), None);
            assert_eq!(read.map(|read| read.is_sampled()), Some(is_sampled), "{flags}");
        }
    }

    #[test]
    fn a_span_that_is_handed_on_reads_as_the_parent() {
        let span = SpanContext { trace_id: TRACE.into(), span_id: SPAN.into() };
        let read = TraceContext::read(&span.traceparent(), None);
        assert_eq!(read.and_then(|read| read.parent()), Some(span));
    }
}

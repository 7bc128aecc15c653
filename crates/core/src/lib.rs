//! One run as a value: what has happened to it, what may happen next, and what the world still
//! owes it. Nothing here waits, reads a clock or touches a disk.

mod admission;
mod birth;
mod bounds;
mod budget;
mod channel;
mod child;
mod compare;
mod confidence;
mod diff;
mod each;
mod egress;
mod expression;
mod graph;
mod head;
mod interrupt;
mod mask;
mod mock_agent;
mod node;
mod orchestrate;
mod pattern;
mod plan;
mod priority;
mod retry;
mod run;
mod schedule;
mod schema;
mod secrets;
mod stamp;
pub mod stream;
mod talk;
mod tool_name;
mod trace;
mod unfolded;
mod untrusted;
mod version;
mod work;

pub use admission::{EXECUTION_MODEL, HostLimits, Inadmissible, MOCK_PROVIDERS, WIDEST_WINDOW};
pub use birth::{
    AgentPin, Birth, Delivered, Departure, Fork, MemoryBirth, Parent, RetriedNode, RetriedVisit,
    Retry, RunLimits, TaskSource,
};
pub use bounds::{DEEPEST, is_too_deep};
pub use budget::{
    BUDGET_QUESTION, OnExhaustion, Overdrawn, Ruling, RunBudget, day_begins, day_of,
    is_budget_question,
};
pub use child::MemoryScope;
pub use compare::{
    CallComparison, CallRecord, ComparedOp, NodeComparison, RunComparison, RunTotals, Used,
    VisitRecord, compare,
};
pub use confidence::{Confidence, escalation_threshold, falls_short};
pub use diff::{DiffSide, EventDiff, EventOp, RunDiff, diff};
pub use egress::{EgressList, MOST_AUDIENCES, Provenance, decide_egress};
pub use expression::{holds_of, mentioned_names};
pub use head::Head;
pub use interrupt::{CastVote, Question, Resolution, Via};
pub use node::{
    NODE_TYPES, NodeType, OWN_CONFIG, PublishedType, STATEMENT, UPKEEP, keyed_hash, nearest_type,
    published_type, required_capability, why_not_run,
};
pub use orchestrate::{DecisionKind, MAX_FAN_OUT, OrchestratorDecision};
pub use plan::{ConformanceNodes, MissingType, Plan, PlanError};
pub use priority::{PRIORITY, Priority};
pub use retry::backoff;
pub use run::{
    AgentFact, Answered, Attempt, Cause, ChildOrder, ChildUpdate, Command, Entry, Fact,
    InterruptView, Invoked, KeptModels, LiveChild, MemoryView, ModelName, ModelTurn, Outcome,
    OutcomeCounts, OutsideWrite, PromptComparison, Refusal, RefusalDivergence, RetryChange,
    RetryClass, RetryRefusal, RetryTerms, Run, Task, ToolCalled, ToolReturned, Unreadable,
    is_memory_ref, is_summary, model_turns, retry_place, status_for_parent,
};
pub use schedule::{Cron, HORIZON, HORIZON_TEXT, ScheduleError, within_horizon};
pub use schema::Schema;
pub use secrets::{Redactor, SecretText, redact, redact_fields, redact_text, respell_marks};
pub use stamp::{Born, ShownSubject, Stamp, SubjectBasis};
pub use tool_name::{provider_name, provider_names};
pub use trace::{
    Content, Span, SpanCode, SpanContext, SpanEvent, SpanKind, SpanStatus, TraceContext, span_text,
    spans, spans_with,
};
pub use unfolded::{UNPROCESSABLE, cancelled_unfolded, unfolded_snapshot, unprocessable};
pub use untrusted::untrusted;
pub use version::{Pin, pin_version};
pub use work::MOST_WORK;

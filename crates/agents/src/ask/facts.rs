//! The facts that an attempt adds to the log, each with its index among those of its kind.

use std::mem::{Discriminant, discriminant, take};

use callboard_core::{AgentFact, Fact, OutcomeCounts};
use callboard_engine::{Call, Superseded};

use super::speech::verbosity;

/// As much thinking as a summary holds.
const SUMMARY_CHARS: usize = 2_000;

/// Collects facts until they must be on disk. An attempt that starts afresh records the same ones in the same places, and
/// core leaves out what it knows.
pub(crate) struct FactBuffer<'a> {
    call: &'a Call,
    places: Vec<(Discriminant<AgentFact>, u32)>,
    waiting: Vec<Fact>,
    prompt: Option<AgentFact>,
    /// The outcomes of outward calls so far.
    outcomes: OutcomeCounts,
}

impl<'a> FactBuffer<'a> {
    pub(crate) fn new(call: &'a Call) -> Self {
        Self {
            call,
            places: Vec::new(),
            waiting: Vec::new(),
            prompt: None,
            outcomes: OutcomeCounts::default(),
        }
    }

    /// Whether earlier attempts have recorded already the outcome of the next call of a model or a coding agent.
    pub(crate) fn knows_answer(&self) -> bool {
        let (known, own) = (self.call.outcomes, self.outcomes);
        known.used > own.used || known.left > own.left || known.concluded > own.concluded
    }

    /// Whether earlier attempts have recorded already the outcome of the next call of a tool.
    pub(crate) fn knows_return(&self) -> bool {
        self.knows_answer() || self.call.outcomes.returned > self.outcomes.returned
    }

    /// Adds a fact to those that are recorded next.
    pub(crate) fn push(&mut self, fact: AgentFact) {
        let kind = discriminant(&fact);
        let known = self.places.iter_mut().find(|(known, _)| *known == kind);
        let place = match known {
            Some((_, next)) => {
                *next += 1;
                *next - 1
            }
            None => {
                self.places.push((kind, 1));
                0
            }
        };
        if self.prompt.is_none() && matches!(fact, AgentFact::PromptResolved { .. }) {
            self.prompt = Some(fact.clone());
        }
        self.outcomes.note(&fact);
        self.waiting.push(Fact::Agent { place, fact });
    }

    /// Adds what the agent thought, as far as the run wants to know.
    pub(crate) fn reasoned(&mut self, reasoning: String) {
        let Some(verbosity) = verbosity(self.call) else { return };
        let reasoning = match verbosity.as_str() {
            "full" => reasoning,
            _ => reasoning.chars().take(SUMMARY_CHARS).collect(),
        };
        self.push(AgentFact::Reasoned { reasoning, verbosity: Some(verbosity) });
    }

    /// Records what was collected; returns once it is on disk.
    pub(crate) async fn flush(&mut self) -> Result<(), Superseded> {
        match take(&mut self.waiting) {
            facts if facts.is_empty() => Ok(()),
            facts => self.call.record(facts).await,
        }
    }

    /// The first prompt that was resolved: the system's.
    pub(crate) fn prompt_resolved(&self) -> Option<AgentFact> {
        self.prompt.clone()
    }
}

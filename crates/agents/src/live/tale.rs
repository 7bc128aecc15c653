//! What a call of a model tells, each fact in its place among those of its kind.

use std::mem::{Discriminant, discriminant, take};

use callboard_core::{AgentFact, Fact, OutcomesTold};
use callboard_engine::{Call, Superseded};

/// Collects facts until they must be on disk. An attempt that starts afresh tells the same ones in the same places, and
/// core leaves out what it knows.
pub(crate) struct Tale<'a> {
    call: &'a Call,
    places: Vec<(Discriminant<AgentFact>, u32)>,
    waiting: Vec<Fact>,
    prompt: Option<AgentFact>,
    /// What was noted so far of outward calls.
    outcomes: OutcomesTold,
}

impl<'a> Tale<'a> {
    pub(crate) fn new(call: &'a Call) -> Self {
        Self {
            call,
            places: Vec::new(),
            waiting: Vec::new(),
            prompt: None,
            outcomes: OutcomesTold::default(),
        }
    }

    /// Whether earlier attempts have told already what comes of the next call of a model or a coding agent.
    pub(crate) fn knows_answer(&self) -> bool {
        let (known, noted) = (self.call.outcomes, self.outcomes);
        known.used > noted.used || known.left > noted.left || known.concluded > noted.concluded
    }

    /// Whether earlier attempts have told already what comes of the next call of a tool.
    pub(crate) fn knows_return(&self) -> bool {
        self.knows_answer() || self.call.outcomes.returned > self.outcomes.returned
    }

    /// Adds a fact to those that are told next.
    pub(crate) fn note(&mut self, fact: AgentFact) {
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

    /// Records what was noted; returns once it is on disk.
    pub(crate) async fn tell(&mut self) -> Result<(), Superseded> {
        match take(&mut self.waiting) {
            facts if facts.is_empty() => Ok(()),
            facts => self.call.tell(facts).await,
        }
    }

    /// The first prompt that was resolved: the system's.
    pub(crate) fn prompt_resolved(&self) -> Option<AgentFact> {
        self.prompt.clone()
    }
}

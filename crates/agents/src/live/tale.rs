//! What a call of a model tells, each fact in its place among those of its kind.

use std::mem::{Discriminant, discriminant, take};

use callboard_core::{AgentFact, Fact};
use callboard_engine::{Call, Superseded};

/// Collects facts until they must be on disk. An attempt that starts afresh tells the same ones in the same places, and
/// core leaves out what it knows.
pub(crate) struct Tale<'a> {
    call: &'a Call,
    places: Vec<(Discriminant<AgentFact>, u32)>,
    waiting: Vec<Fact>,
    prompt: Option<AgentFact>,
}

impl<'a> Tale<'a> {
    pub(crate) fn new(call: &'a Call) -> Self {
        Self { call, places: Vec::new(), waiting: Vec::new(), prompt: None }
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

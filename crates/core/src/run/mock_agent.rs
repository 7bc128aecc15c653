//! The agent of the conformance suite: it reports what it is configured to report, and asks where it is not sure.

use callboard_protocol::{Event, Failure, Object, Timestamp};

use super::perform::Step;
use super::{Run, Stage};
use crate::confidence::{escalation_threshold, falls_short};
use crate::graph::NodeIndex;
use crate::interrupt::Question;
use crate::mock_agent::MockFact;

impl Run {
    pub(super) fn mock_agent(&self, index: NodeIndex, at: Timestamp) -> Result<Step, Failure> {
        let state = &self.nodes[index];
        if self.interrupts.contains_key(&index) || state.stage == Stage::Suspended {
            return self.suspended(index, at);
        }
        let Some(agent) = &self.plan.node(index).mock_agent else {
            return Ok(Step::Done(Object::new()));
        };
        let told = usize::try_from(state.facts).unwrap_or(usize::MAX);
        let tell = |fact: &MockFact| -> Event {
            fact.scoped(self.told_id(), state.visit)
                .event(self.node_id(index), agent.agent_id.clone())
        };
        if let Some(fact) = agent.facts.get(told) {
            return Ok(Step::Emit(tell(fact)));
        }
        let Some((decision, stated)) = &agent.decided else { return Ok(Step::Done(Object::new())) };
        let threshold = escalation_threshold(&self.birth.configurable, None);
        let Some(observed) = stated.filter(|_| falls_short(*stated, threshold)) else {
            return Ok(Step::Done(Object::new()));
        };
        let Some(answered) = &state.resumed else {
            let proposed = Some(decision.clone());
            let question = Question::low_confidence(&agent.agent_id, threshold, observed, proposed);
            return Ok(Step::Emit(self.asked(index, question)));
        };
        let ratified = answered.result()?;
        Ok(match told == agent.facts.len() {
            true => Step::Emit(tell(&MockFact::Decided { decision: ratified, confidence: None })),
            false => Step::Done(Object::new()),
        })
    }
}

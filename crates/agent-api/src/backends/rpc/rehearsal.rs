//! A conversation without a program.

use serde_json::Value;

use crate::transcript::{Fact, Failure, Mapper, Terminal};

pub(crate) fn tell(ours: &mut impl Mapper, message: &Value) -> Vec<Fact> {
    let mut facts = Vec::new();
    ours.read(&message.to_string(), &mut facts).unwrap();
    facts
}

/// What is sent to the other side.
pub(crate) fn answers(facts: &[Fact]) -> Vec<Value> {
    let answer = |fact: &Fact| match fact {
        Fact::Answer(answer) => Some(answer.clone()),
        _ => None,
    };
    facts.iter().filter_map(answer).collect()
}

pub(crate) fn failure(facts: &[Fact]) -> Option<&Failure> {
    facts.iter().find_map(|fact| match fact {
        Fact::Ended(Terminal::Failed(failure)) => Some(failure),
        _ => None,
    })
}

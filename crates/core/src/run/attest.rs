//! What a node may take over from its child: attested by a checksum, and agreed to where a person must agree.

use callboard_protocol::{
    Attestation, ChainPhase, Event, Failure, InterruptKind, Object, RunStatus, Timestamp,
    WorkflowChained, hex,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::child::Child;
use super::perform::Step;
use super::{Run, Stage};
use crate::child::{ChildCall, OnChildFailure};
use crate::graph::NodeIndex;
use crate::interrupt::Question;

/// The only algorithm that the protocol knows.
const ALGORITHM: &str = "sha256";

/// What becomes of a child's outputs.
pub(super) enum Agreed {
    /// They are taken over, as they are or as a person has edited them.
    On(Object),
    /// A person said no, and the node goes on without them.
    Nothing,
    /// Something is to be done first.
    NotYet(Step),
}

impl Run {
    /// What a node takes over from a child that has ended: nothing before those who must agree have agreed.
    pub(super) fn agreed(
        &self,
        index: NodeIndex,
        child: &Child,
        call: &ChildCall,
        at: Timestamp,
    ) -> Result<Agreed, Failure> {
        let wanted = call.output_attestation.as_ref();
        let Some(wanted) = wanted.filter(|_| child.status == RunStatus::Completed) else {
            return Ok(Agreed::On(child.outputs.clone()));
        };
        let state = &self.nodes[index];
        let mut outputs = child.outputs.clone();
        if wanted.require_approval {
            if self.interrupts.contains_key(&index) || state.stage == Stage::Suspended {
                return self.suspended(index, at).map(Agreed::NotYet);
            }
            let Some(answered) = &state.resumed else {
                let question = self.merge_question(child, call);
                return Ok(Agreed::NotYet(Step::Emit(self.asked(index, question))));
            };
            match (answered.result(), call.on_child_failure) {
                (Ok(answer), _) => {
                    if let Some(Value::Object(edited)) = answer.get("editedArtifactData") {
                        outputs = edited.clone();
                        outputs.retain(|name, _| call.output_mapping.contains_key(name));
                    }
                }
                (Err(failure), OnChildFailure::FailParent) => return Err(failure),
                (Err(_), OnChildFailure::Absorb) => return Ok(Agreed::Nothing),
            }
        }
        if wanted.checksum && state.attested.is_none() {
            let event = self.attested(index, child, call, &outputs);
            return Ok(Agreed::NotYet(Step::Emit(event)));
        }
        Ok(Agreed::On(outputs))
    }

    /// What the node says of the checksum when it ends.
    pub(super) fn attestation(&self, index: NodeIndex) -> Option<Value> {
        let checksum = self.nodes[index].attested.as_ref()?;
        Some(json!({ "checksum": checksum, "algorithm": ALGORITHM }))
    }

    fn attested(&self, index: NodeIndex, child: &Child, call: &ChildCall, taken: &Object) -> Event {
        Event::WorkflowChained(WorkflowChained {
            node_id: Some(self.node_id(index)),
            phase: ChainPhase::OutputHarvested,
            worker_id: call.workflow_id.clone(),
            parent_run_id: self.told_id().clone(),
            child_run_id: Some(child.run.clone()),
            harvested_keys: Some(taken.keys().cloned().collect()),
            error: None,
            attestation: Some(Attestation {
                checksum: checksum(&child_outputs(child, call)),
                algorithm: ALGORITHM.to_owned(),
            }),
        })
    }

    fn merge_question(&self, child: &Child, call: &ChildCall) -> Question {
        let shown = child.outputs.iter().map(|(name, value)| {
            let is_hidden = self.mask().is_sensitive_variable(name);
            let shown = if is_hidden { self.mask().hide(value) } else { Some(value.clone()) };
            (name.clone(), shown.unwrap_or(Value::Null))
        });
        Question {
            kind: InterruptKind::Approval,
            data: json!({
                "artifactId": child.run,
                "artifactType": "sub-run-outputs",
                "title": format!("take over what {} of {} came to", child.run, call.workflow_id),
                "actions": ["accept", "reject", "edit-accept"],
                "artifactData": shown.collect::<Object>(),
                "attestation": {
                    "checksum": checksum(&child_outputs(child, call)), "algorithm": ALGORITHM,
                },
            }),
            resume_schema: None,
            timeout_ms: None,
        }
    }

    pub(super) fn fold_attested(&mut self, index: NodeIndex, payload: &WorkflowChained) {
        let attestation = payload.attestation.as_ref();
        self.nodes[index].attested = attestation.map(|it| it.checksum.clone());
    }
}

/// What was harvested, by the names that the child knows.
fn child_outputs(child: &Child, call: &ChildCall) -> Object {
    let theirs = |(ours, value): (&String, &Value)| {
        Some((call.output_mapping.get(ours)?.clone(), value.clone()))
    };
    child.outputs.iter().filter_map(theirs).collect()
}

/// Lower-case hexadecimal digits of the digest of the canonical form (RFC 8785): any host comes to the same.
fn checksum(outputs: &Object) -> String {
    // An object of JSON has a canonical form; were there none, nothing would be attested rather than something wrong.
    let canonical = serde_json_canonicalizer::to_vec(outputs).unwrap_or_default();
    hex(Sha256::digest(canonical))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M-93: the protocol's own vector, in any order of keys.
    #[test]
    fn m93_the_order_of_keys_does_not_matter() {
        let expected = "63a0014fbc71ddd0e41e568822b956dc0e1e22c1c0bdccdd64dc86d38538d55a";
        for text in [
            r#"{"report":"done","score":0.9,"tags":["a","b"]}"#,
            r#"{"tags":["a","b"],"score":0.90,"report":"done"}"#,
        ] {
            let outputs: Object = serde_json::from_str(text).expect("an object");
            assert_eq!(checksum(&outputs), expected, "{text}");
        }
        let other: Object =
            serde_json::from_str(r#"{"report":"done","score":0.9,"tags":["b","a"]}"#).expect("one");
        assert_ne!(checksum(&other), expected);
    }
}

//! The gate before `active`, which asks for an evaluation that passed.

use serde::Deserialize;

use callboard_engine::Recorded;
use callboard_protocol::RunStatus;

use super::transition::DeploymentRefusal;

/// An evaluation that a promotion to `active` must name.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EvalGate {
    /// Enough where the suite's own thresholds were missed; none is the suite's verdict alone.
    pub required_pass_score: Option<f64>,
}

/// What is known of the evaluation that a request names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Evidence {
    /// The request names none.
    NotNamed,
    /// No such run for this caller, none that ended well, or none that evaluated anything.
    Missing,
    Judged {
        passed: bool,
        score: f64,
    },
}

/// The part of `eval.completed` that a gate asks for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EvalCompleted {
    aggregate_score: f64,
    passed: bool,
}

impl Evidence {
    /// Reads the log of a run that should be an evaluation.
    pub fn of(status: RunStatus, events: &[Recorded]) -> Self {
        let verdict = events.iter().rev().find(|event| event.kind == "eval.completed");
        let verdict = verdict.and_then(|event| serde_json::from_str(&event.payload).ok());
        match verdict {
            Some(EvalCompleted { aggregate_score: score, passed })
                if status == RunStatus::Completed =>
            {
                Self::Judged { passed, score }
            }
            _ => Self::Missing,
        }
    }

    /// Evidence that was given must be valid, whether or not it is required: it is recorded as proof.
    pub(super) fn satisfy(self, gate: Option<&EvalGate>) -> Result<(), DeploymentRefusal> {
        let least = gate.and_then(|gate| gate.required_pass_score);
        let unmet = |why: &str| Err(DeploymentRefusal::EvalGateUnmet { why: why.to_owned() });
        match self {
            Self::NotNamed if gate.is_none() => Ok(()),
            Self::NotNamed => unmet("name an evaluation that passed in evalRunId"),
            Self::Missing => unmet("the run is not an evaluation that has ended"),
            Self::Judged { passed: true, .. } => Ok(()),
            Self::Judged { score, .. } if least.is_some_and(|least| score >= least) => Ok(()),
            Self::Judged { .. } => unmet("the evaluation did not pass"),
        }
    }
}

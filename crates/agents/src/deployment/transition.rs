//! Which transitions a version's state allows.
//!
//! | from | to | by |
//! |---|---|---|
//! | draft | test | promote |
//! | test | staged | promote |
//! | staged | active | promote, through the eval gate |
//! | active | active, on one more channel or with all of its runs | promote |
//! | paused | active | promote, which resumes |
//! | active | paused | pause |
//! | active | deprecated | deprecate |
//! | active | rolled-back | rollback, which needs an active version to go back to |
//! | active | active, with another share | adjust-canary |

use std::collections::BTreeSet;

use callboard_protocol::{
    AgentDeployment, AgentId, DeploymentCanaryAdjusted, DeploymentEvent, DeploymentPromoted,
    DeploymentRolledBack, DeploymentState, DeploymentStateChanged, DeploymentTransition,
    PackVersion, Transition,
};

use super::{Deployment, DeploymentPolicy, Evidence, Standing};
use DeploymentState::{Active, Deprecated, Draft, Paused, RolledBack, Staged, Test};

/// The result of a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub deployment: Deployment,
    /// The version's record afterwards.
    pub record: AgentDeployment,
    pub event: DeploymentEvent,
}

/// Why a transition is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeploymentRefusal {
    /// The request itself is wrong, or asks for what this host does not offer.
    #[error("{field}: {why}")]
    Invalid { field: &'static str, why: String },
    #[error("version {version} is {}, and cannot become {}", from.as_str(), to.as_str())]
    Illegal { version: PackVersion, from: DeploymentState, to: DeploymentState },
    #[error("version {version} is not on the channel {channel}")]
    NotOnChannel { version: PackVersion, channel: String },
    #[error("version {version} is being tried on the channel {channel}; finish that first")]
    CanaryUnderWay { version: PackVersion, channel: String },
    #[error("nothing else serves on the channel {channel}, so there is nothing to share")]
    Alone { channel: String },
    #[error("there is no active version to go back to")]
    NothingToRestore,
    #[error("the eval gate is shut: {why}")]
    EvalGateUnmet { why: String },
}

impl DeploymentRefusal {
    /// The code of the refusal on the wire.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "validation_error",
            Self::EvalGateUnmet { .. } => "eval_gate_unmet",
            Self::Illegal { .. }
            | Self::NotOnChannel { .. }
            | Self::CanaryUnderWay { .. }
            | Self::Alone { .. }
            | Self::NothingToRestore => "deployment_conflict",
        }
    }
}

pub(super) fn invalid<T>(field: &'static str, why: &str) -> Result<T, DeploymentRefusal> {
    Err(DeploymentRefusal::Invalid { field, why: why.to_owned() })
}

/// What a decision looks at beside the state.
#[derive(Debug, Clone)]
pub struct Surroundings<'a> {
    pub policy: &'a DeploymentPolicy,
    pub evidence: Evidence,
    /// The versions that could serve.
    pub installed: BTreeSet<PackVersion>,
}

impl Deployment {
    pub fn decide(
        &self,
        agent: &AgentId,
        request: &DeploymentTransition,
        around: &Surroundings<'_>,
    ) -> Result<Changed, DeploymentRefusal> {
        let is_known = around.installed.contains(&request.version)
            || (request.transition != Transition::Promote
                && self.versions.contains_key(&request.version));
        if !is_known {
            return invalid("version", "is not installed");
        }
        if request.transition != Transition::Promote {
            for (field, is_there) in [
                ("toState", request.to_state.is_some()),
                ("evalRunId", request.eval_run_id.is_some()),
            ] {
                if is_there {
                    return invalid(field, "belongs to a promotion");
                }
            }
        }
        around.policy.admit_percent(request.canary_percent)?;
        let mut after = self.clone();
        let event = match request.transition {
            Transition::Promote => after.promote(agent, request, around)?,
            Transition::Pause => after.leave(agent, request, around.policy, Paused)?,
            Transition::Deprecate => after.leave(agent, request, around.policy, Deprecated)?,
            Transition::Rollback => after.roll_back(agent, request, around)?,
            Transition::AdjustCanary => after.adjust(agent, request)?,
        };
        let record = after.record(agent, &request.version);
        Ok(Changed { deployment: after, record, event })
    }

    fn promote(
        &mut self,
        agent: &AgentId,
        request: &DeploymentTransition,
        around: &Surroundings<'_>,
    ) -> Result<DeploymentEvent, DeploymentRefusal> {
        let Surroundings { policy, evidence, .. } = around;
        let version = &request.version;
        let from = self.state_of(version);
        let next = match from {
            Draft => Test,
            Test => Staged,
            Staged | Paused | Active | Deprecated | RolledBack => Active,
        };
        let to = request.to_state.unwrap_or(next);
        policy.admit_state(to)?;
        match (from, to) {
            (Draft, Test) | (Test, Staged) => prepare(request, *evidence)?,
            (Staged, Active) => evidence.satisfy(policy.eval_gate.as_ref())?,
            (Active, Active) if request.channel.is_some() => evidence.satisfy(None)?,
            (Paused, Active) => return self.resume(agent, request),
            _ => return Err(DeploymentRefusal::Illegal { version: version.clone(), from, to }),
        }
        let standing = self.stand(version, to);
        standing.eval_run_id = request.eval_run_id.clone().or(standing.eval_run_id.take());
        let mut before = None;
        match &request.channel {
            Some(channel) => {
                policy.admit_channel(channel)?;
                let percent = request.canary_percent.unwrap_or(100);
                before = self.put(channel, version, percent)?;
            }
            None if request.canary_percent.is_some() => {
                return invalid(
                    "canaryPercent",
                    "is a share of a channel's runs: name the channel",
                );
            }
            None => {}
        }
        Ok(DeploymentEvent::Promoted(DeploymentPromoted {
            agent_id: agent.clone(),
            from_version: before,
            to_version: version.clone(),
            to_state: to,
            channel: request.channel.clone(),
            canary_percent: request.canary_percent,
            eval_run_id: request.eval_run_id.clone(),
        }))
    }

    /// The protocol has no verb for it: a promotion of a paused version to `active`. Its channels were kept.
    fn resume(
        &mut self,
        agent: &AgentId,
        request: &DeploymentTransition,
    ) -> Result<DeploymentEvent, DeploymentRefusal> {
        if request.channel.is_some() || request.canary_percent.is_some() {
            return invalid(
                "channel",
                "a paused version comes back to where it was; resume it first",
            );
        }
        if request.eval_run_id.is_some() {
            return invalid("evalRunId", "a paused version has passed its gate before");
        }
        self.stand(&request.version, Active);
        Ok(changed(agent, &request.version, Paused, Active))
    }

    fn leave(
        &mut self,
        agent: &AgentId,
        request: &DeploymentTransition,
        policy: &DeploymentPolicy,
        to: DeploymentState,
    ) -> Result<DeploymentEvent, DeploymentRefusal> {
        if request.canary_percent.is_some() {
            return invalid("canaryPercent", "belongs to promote and adjust-canary");
        }
        let version = &request.version;
        self.must_leave_active(request, policy, to)?;
        self.stand(version, to);
        if to == Deprecated {
            for channel in self.channels.values_mut() {
                channel.forget(version);
            }
        }
        Ok(changed(agent, version, Active, to))
    }

    fn roll_back(
        &mut self,
        agent: &AgentId,
        request: &DeploymentTransition,
        around: &Surroundings<'_>,
    ) -> Result<DeploymentEvent, DeploymentRefusal> {
        if !around.policy.rollback {
            return invalid("transition", "this host does not roll back");
        }
        if request.canary_percent.is_some() {
            return invalid("canaryPercent", "belongs to promote and adjust-canary");
        }
        let version = &request.version;
        self.must_leave_active(request, around.policy, RolledBack)?;
        let (mut pointer, mut after) = (None, self.channels.clone());
        for (name, channel) in &mut after {
            match self.restored(name, version, &around.installed)? {
                None => channel.forget(version),
                Some(restored) => {
                    channel.restore(&restored, version);
                    if pointer.is_none() || request.channel.as_ref() == Some(name) {
                        pointer = Some(restored);
                    }
                }
            }
        }
        self.channels = after;
        let pointer = pointer.ok_or(DeploymentRefusal::NothingToRestore)?;
        self.stand(version, RolledBack).rollback_pointer = Some(pointer.clone());
        Ok(DeploymentEvent::RolledBack(DeploymentRolledBack {
            agent_id: agent.clone(),
            from_version: version.clone(),
            to_version: pointer.clone(),
            rollback_pointer: pointer,
            reason: request.reason.clone(),
        }))
    }

    fn must_leave_active(
        &self,
        request: &DeploymentTransition,
        policy: &DeploymentPolicy,
        to: DeploymentState,
    ) -> Result<(), DeploymentRefusal> {
        policy.admit_state(to)?;
        let (version, from) = (&request.version, self.state_of(&request.version));
        if from != Active {
            return Err(DeploymentRefusal::Illegal { version: version.clone(), from, to });
        }
        match &request.channel {
            Some(name) if !self.channels.get(name).is_some_and(|channel| channel.has(version)) => {
                let (version, channel) = (version.clone(), name.clone());
                Err(DeploymentRefusal::NotOnChannel { version, channel })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn adjust(
        &mut self,
        agent: &AgentId,
        request: &DeploymentTransition,
    ) -> Result<DeploymentEvent, DeploymentRefusal> {
        let version = &request.version;
        let Some(percent) = request.canary_percent else {
            return invalid("canaryPercent", "is required");
        };
        let from = self.state_of(version);
        if from != Active {
            return Err(DeploymentRefusal::Illegal { version: version.clone(), from, to: Active });
        }
        let name = self.only_channel(request)?;
        let before = self.channels.get(&name).and_then(|channel| channel.canary.as_ref());
        let before = before.filter(|canary| canary.version == *version);
        let before = before.map_or(100, |canary| canary.percent);
        if before == percent {
            return invalid("canaryPercent", "is what the version has already");
        }
        self.put(&name, version, percent)?;
        Ok(DeploymentEvent::CanaryAdjusted(DeploymentCanaryAdjusted {
            agent_id: agent.clone(),
            version: version.clone(),
            from_percent: before,
            to_percent: percent,
        }))
    }

    fn stand(&mut self, version: &PackVersion, state: DeploymentState) -> &mut Standing {
        let fresh = Standing { state, rollback_pointer: None, eval_run_id: None };
        let standing = self.versions.entry(version.clone()).or_insert(fresh);
        standing.state = state;
        standing
    }
}

/// On the way to `active`, where no run arrives yet.
fn prepare(request: &DeploymentTransition, evidence: Evidence) -> Result<(), DeploymentRefusal> {
    for (field, is_there) in [
        ("channel", request.channel.is_some()),
        ("canaryPercent", request.canary_percent.is_some()),
    ] {
        if is_there {
            return invalid(field, "belongs to the promotion to active");
        }
    }
    evidence.satisfy(None)
}

fn changed(
    agent: &AgentId,
    version: &PackVersion,
    from: DeploymentState,
    to: DeploymentState,
) -> DeploymentEvent {
    DeploymentEvent::StateChanged(DeploymentStateChanged {
        agent_id: agent.clone(),
        version: version.clone(),
        from_state: from,
        to_state: to,
    })
}

//! The host's policy for deployments: it accepts exactly what it advertises.

use std::collections::BTreeSet;

use callboard_protocol::{DeploymentCapability, DeploymentState};

use super::gate::EvalGate;
use super::{LATEST, transition::DeploymentRefusal};

#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentPolicy {
    /// Channels that versions can be promoted to; `latest` is always there beside them.
    pub channels: BTreeSet<String>,
    /// Whether a channel's runs can be split.
    pub canary: bool,
    pub rollback: bool,
    pub states: BTreeSet<DeploymentState>,
    /// What a version needs to become active.
    pub eval_gate: Option<EvalGate>,
}

impl Default for DeploymentPolicy {
    fn default() -> Self {
        Self {
            channels: ["stable", "canary"].map(str::to_owned).into(),
            canary: true,
            rollback: true,
            states: DeploymentState::ALL.into(),
            eval_gate: None,
        }
    }
}

impl DeploymentPolicy {
    /// The same for discovery.
    pub fn capability(&self) -> DeploymentCapability {
        let latest = LATEST.to_owned();
        DeploymentCapability {
            supported: true,
            channels: self.channels.iter().cloned().chain([latest]).collect(),
            canary: self.canary,
            rollback: self.rollback,
            states: self.states.iter().copied().collect(),
        }
    }

    pub(super) fn admit_channel(&self, channel: &str) -> Result<(), DeploymentRefusal> {
        let why = match channel {
            LATEST => {
                "latest is always the highest active version and cannot be promoted to".to_owned()
            }
            _ if self.channels.contains(channel) => return Ok(()),
            _ => {
                let known: Vec<&str> = self.channels.iter().map(String::as_str).collect();
                format!("this host has the channels {}", known.join(", "))
            }
        };
        Err(DeploymentRefusal::Invalid { field: "channel", why })
    }

    pub(super) fn admit_state(&self, state: DeploymentState) -> Result<(), DeploymentRefusal> {
        if self.states.contains(&state) {
            return Ok(());
        }
        let why = format!("this host does not have the state {}", state.as_str());
        Err(DeploymentRefusal::Invalid { field: "toState", why })
    }

    pub(super) fn admit_percent(&self, percent: Option<u8>) -> Result<(), DeploymentRefusal> {
        if self.canary || percent.is_none_or(|percent| percent == 100) {
            return Ok(());
        }
        let why = "this host does not split the runs of a channel".to_owned();
        Err(DeploymentRefusal::Invalid { field: "canaryPercent", why })
    }
}

//! Which versions of one agent serve a tenant, as a value that transitions change.
//!
//! Nothing here reads or writes: the caller passes the state, the policy and the random draw.

mod audit;
mod channel;
mod gate;
mod pin;
mod policy;
mod transition;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use callboard_engine::StoreError;
use callboard_protocol::{AgentDeployment, AgentId, DeploymentState, PackVersion, RunId};

use channel::Channel;

pub use audit::{audit_change, audit_refusal};
pub use gate::{EvalGate, Evidence};
pub use pin::{Draw, PinError, pin};
pub use policy::DeploymentPolicy;
pub use transition::{Changed, DeploymentRefusal, Surroundings};

/// The reserved channel: the highest active version, whatever its channels.
pub const LATEST: &str = "latest";

/// What is deployed of one agent.
///
/// Stored as JSON. A build that meets a field which it does not know refuses to read it, since it could only
/// write it back without; a newer build reads what an older one wrote by defaulting what is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deployment {
    /// Versions of which something was said. Any other is a draft.
    versions: BTreeMap<PackVersion, Standing>,
    channels: BTreeMap<String, Channel>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Standing {
    state: DeploymentState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rollback_pointer: Option<PackVersion>,
    /// The evaluation that let it into its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    eval_run_id: Option<RunId>,
}

impl Deployment {
    /// Reads what a store kept.
    pub fn read(agent: &AgentId, state: &str) -> Result<Self, StoreError> {
        serde_json::from_str(state).map_err(|error| StoreError::Unreadable {
            what: format!("the deployment of {agent}"),
            why: error.to_string(),
        })
    }

    /// As a store keeps it.
    pub fn write(&self) -> String {
        // Texts and numbers under text keys: writing them cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn state_of(&self, version: &PackVersion) -> DeploymentState {
        self.versions.get(version).map_or(DeploymentState::Draft, |standing| standing.state)
    }

    /// The record of one version.
    pub fn record(&self, agent: &AgentId, version: &PackVersion) -> AgentDeployment {
        let standing = self.versions.get(version);
        let on = |channel: &Channel| channel.has(version);
        let percents = self.channels.values().filter_map(|channel| channel.canary.as_ref());
        AgentDeployment {
            agent_id: agent.clone(),
            version: version.clone(),
            state: self.state_of(version),
            // The protocol allows one number; of several channels it is the smallest share.
            canary_percent: percents
                .filter(|canary| canary.version == *version)
                .map(|canary| canary.percent)
                .min(),
            rollback_pointer: standing.and_then(|standing| standing.rollback_pointer.clone()),
            channels: self
                .channels
                .iter()
                .filter(|(_, channel)| on(channel))
                .map(|(name, _)| name.clone())
                .collect(),
            eval_run_id: standing.and_then(|standing| standing.eval_run_id.clone()),
        }
    }

    /// The records of every version that is installed or was spoken of, the highest first.
    pub fn records(
        &self,
        agent: &AgentId,
        installed: impl IntoIterator<Item = PackVersion>,
    ) -> Vec<AgentDeployment> {
        let mut versions: Vec<PackVersion> =
            self.versions.keys().cloned().chain(installed).collect();
        versions.sort_by(|a, b| b.cmp(a));
        versions.dedup();
        versions.iter().map(|version| self.record(agent, version)).collect()
    }

    fn is_active(&self, version: &PackVersion) -> bool {
        self.state_of(version) == DeploymentState::Active
    }
}

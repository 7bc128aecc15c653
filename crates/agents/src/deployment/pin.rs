//! Resolves a reference to one version of an agent, once for each run.

use sha2::{Digest as _, Sha256};

use callboard_core::{AgentPin, TaskSource};
use callboard_engine::Realm;
use callboard_protocol::{AgentId, AgentRef, InvocationSource, PackVersion, RunId};

use super::{Deployment, LATEST};
use crate::inventory::Snapshot;

/// Where a run falls between 0 and 99, to decide whether it tries a canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw(u8);

impl Draw {
    /// Anything beyond 99 begins again at 0.
    pub fn new(number: u64) -> Self {
        Self(u8::try_from(number % 100).unwrap_or_default())
    }

    /// The draw of a run: its name is drawn already, and nothing else needs to be.
    pub fn of(run: &RunId) -> Self {
        let digest = Sha256::digest(run.as_str().as_bytes());
        Self::new(digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }
}

/// Why a reference leads to no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    #[error("there is no agent {agent}")]
    UnknownAgent { agent: AgentId },
    #[error("version {version} of agent {agent} is not installed")]
    UnknownVersion { agent: AgentId, version: String },
    #[error("a reference names a version or a channel, not both")]
    Both,
    #[error("no active version of agent {agent} serves on the channel {channel}")]
    NoActiveDeployment { agent: AgentId, channel: String },
}

impl PinError {
    /// The code of the refusal on the wire.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoActiveDeployment { .. } => "no_active_deployment",
            Self::UnknownAgent { .. } | Self::UnknownVersion { .. } | Self::Both => {
                "validation_error"
            }
        }
    }
}

/// Finds the version that a run gets. Asked once for each reference of a run; the answer is kept with the run.
///
/// An exact version is what it says, whatever its state; a channel is one of its active versions; neither is
/// the highest installed one. A version that is no longer installed is refused.
pub fn pin(
    agents: &Snapshot,
    realm: &Realm,
    deployment: &Deployment,
    wanted: &AgentRef,
    draw: Draw,
) -> Result<AgentPin, PinError> {
    let agent: AgentId = wanted.agent_id.as_str().into();
    let unknown = || PinError::UnknownAgent { agent: agent.clone() };
    let highest = agents.find(realm, &agent, None).ok_or_else(unknown)?;
    let found = match (&wanted.version, &wanted.channel) {
        (Some(_), Some(_)) => return Err(PinError::Both),
        (None, None) => highest,
        (Some(text), None) => {
            let parsed = text.parse().ok();
            let found = parsed.and_then(|version| agents.find(realm, &agent, Some(&version)));
            let unknown =
                || PinError::UnknownVersion { agent: agent.clone(), version: text.clone() };
            found.ok_or_else(unknown)?
        }
        (None, Some(channel)) => {
            let is_installed =
                |version: &PackVersion| agents.find(realm, &agent, Some(version)).is_some();
            let none =
                || PinError::NoActiveDeployment { agent: agent.clone(), channel: channel.clone() };
            let version = deployment.resolve(channel, draw, is_installed).ok_or_else(none)?;
            agents.find(realm, &agent, Some(&version)).ok_or_else(none)?
        }
    };
    Ok(AgentPin {
        agent_id: wanted.agent_id.clone(),
        version: found.version().to_string(),
        integrity: Some(found.source.pack.integrity.to_string()),
        channel: wanted.channel.clone(),
        task: TaskSource::default(),
        persona: None,
        source: InvocationSource::default(),
    })
}

impl Deployment {
    /// The version of a channel for one draw. Where both of a split serve the draw decides; where one does, it
    /// is that one; never any other.
    fn resolve(
        &self,
        channel: &str,
        draw: Draw,
        is_installed: impl Fn(&PackVersion) -> bool,
    ) -> Option<PackVersion> {
        let serves = |version: &&PackVersion| self.is_active(version) && is_installed(version);
        if channel == LATEST {
            return self.versions.keys().rev().find(serves).cloned();
        }
        let channel = self.channels.get(channel)?;
        let serving = channel.serving.as_ref().filter(serves);
        let canary = channel.canary.as_ref().filter(|canary| serves(&&canary.version));
        match (canary, serving) {
            (Some(canary), Some(_)) if draw.0 < canary.percent => Some(canary.version.clone()),
            (_, Some(serving)) => Some(serving.clone()),
            (Some(canary), None) => Some(canary.version.clone()),
            (None, None) => None,
        }
    }
}

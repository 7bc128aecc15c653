//! A channel: what serves on it, what is tried on it, and what it can go back to.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use callboard_protocol::{DeploymentTransition, PackVersion};

use super::transition::invalid;
use super::{Deployment, DeploymentRefusal};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Channel {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) serving: Option<PackVersion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) canary: Option<Canary>,
    /// What served before, the last one last: where a rollback leads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<PackVersion>,
}

/// A version that gets a share of a channel's runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Canary {
    pub(super) version: PackVersion,
    pub(super) percent: u8,
}

impl Channel {
    pub(super) fn has(&self, version: &PackVersion) -> bool {
        self.serving.as_ref() == Some(version) || self.is_canary(version)
    }

    fn is_canary(&self, version: &PackVersion) -> bool {
        self.canary.as_ref().is_some_and(|canary| canary.version == *version)
    }

    /// Puts a version where all runs go; what was there becomes the first to go back to.
    fn serve(&mut self, version: &PackVersion) {
        self.earlier.retain(|earlier| earlier != version);
        self.earlier.extend(self.serving.replace(version.clone()));
    }

    /// Removes a version from the channel; a canary on it then gets all of its runs.
    pub(super) fn forget(&mut self, version: &PackVersion) {
        self.earlier.retain(|earlier| earlier != version);
        if self.is_canary(version) {
            self.canary = None;
        } else if self.serving.as_ref() == Some(version) {
            self.serving = self.canary.take().map(|canary| canary.version);
        }
    }

    /// Goes back to another version; what is being tried besides goes on.
    pub(super) fn restore(&mut self, restored: &PackVersion, instead_of: &PackVersion) {
        self.canary.take_if(|canary| canary.version == *instead_of);
        self.earlier.retain(|earlier| earlier != restored && earlier != instead_of);
        self.serving = Some(restored.clone());
    }
}

impl Deployment {
    /// Gives a version its share of a channel; answers what had all of it before.
    pub(super) fn put(
        &mut self,
        name: &str,
        version: &PackVersion,
        percent: u8,
    ) -> Result<Option<PackVersion>, DeploymentRefusal> {
        let mut channel = self.channels.get(name).cloned().unwrap_or_default();
        let before = channel.serving.clone();
        if let Some(canary) = channel.canary.take_if(|canary| canary.version != *version) {
            let (version, channel) = (canary.version, name.to_owned());
            return Err(DeploymentRefusal::CanaryUnderWay { version, channel });
        }
        let had_all = channel.canary.is_none() && before.as_ref() == Some(version);
        channel.canary = None;
        if percent == 100 {
            if had_all {
                return invalid("channel", "the version has all of its runs already");
            }
            channel.serve(version);
        } else {
            if had_all {
                // The version that it replaced gets the rest again.
                let earlier = channel.earlier.iter().rposition(|it| self.is_active(it));
                channel.serving = earlier.map(|place| channel.earlier.remove(place));
            }
            if !channel.serving.as_ref().is_some_and(|serving| self.is_active(serving)) {
                return Err(DeploymentRefusal::Alone { channel: name.to_owned() });
            }
            channel.canary = Some(Canary { version: version.clone(), percent });
        }
        self.channels.insert(name.to_owned(), channel);
        Ok(before.filter(|before| before != version))
    }

    /// What serves on a channel once the version is gone from it; none where it is not on the channel.
    pub(super) fn restored(
        &self,
        name: &str,
        version: &PackVersion,
        installed: &BTreeSet<PackVersion>,
    ) -> Result<Option<PackVersion>, DeploymentRefusal> {
        let Some(channel) = self.channels.get(name).filter(|channel| channel.has(version)) else {
            return Ok(None);
        };
        let candidates: Vec<&PackVersion> = match channel.is_canary(version) {
            true => channel.serving.iter().collect(),
            false => channel.earlier.iter().rev().collect(),
        };
        let restored = candidates
            .into_iter()
            .find(|candidate| self.is_active(candidate) && installed.contains(*candidate));
        restored.cloned().map(Some).ok_or(DeploymentRefusal::NothingToRestore)
    }

    /// The channel that a request means: the one that it names, or the one that there is.
    pub(super) fn only_channel(
        &self,
        request: &DeploymentTransition,
    ) -> Result<String, DeploymentRefusal> {
        let version = &request.version;
        let mut on =
            self.channels.iter().filter(|(_, channel)| channel.has(version)).map(|(name, _)| name);
        match (&request.channel, on.next(), on.next()) {
            (Some(name), ..) if self.channels.get(name).is_some_and(|it| it.has(version)) => {
                Ok(name.clone())
            }
            (Some(name), ..) => {
                let (version, channel) = (version.clone(), name.clone());
                Err(DeploymentRefusal::NotOnChannel { version, channel })
            }
            (None, Some(name), None) => Ok(name.clone()),
            (None, None, _) => invalid("channel", "the version is on no channel"),
            (None, Some(_), Some(_)) => invalid("channel", "is required: there are several"),
        }
    }
}

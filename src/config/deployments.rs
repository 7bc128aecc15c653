//! `[deployments]`: what an operator decides about versions of agents.

use callboard_agents::{DeploymentPolicy, EvalGate};

use super::source::{Source, Value};
use crate::exit::CommandError;

/// The section as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deployments {
    /// Channels that versions can be promoted to.
    channels: Vec<String>,
    /// Whether a version needs an evaluation that passed before it becomes active.
    require_eval: bool,
}

impl Default for Deployments {
    fn default() -> Self {
        let channels = DeploymentPolicy::default().channels.into_iter().collect();
        Self { channels, require_eval: false }
    }
}

impl Deployments {
    const KEYS: [&str; 2] = ["channels", "require_eval"];

    /// By what this host judges transitions.
    pub(crate) fn policy(&self) -> DeploymentPolicy {
        DeploymentPolicy {
            channels: self.channels.iter().cloned().collect(),
            eval_gate: self.require_eval.then(EvalGate::default),
            ..DeploymentPolicy::default()
        }
    }
}

impl Source<'_> {
    pub(super) fn deployments(&self, value: &Value<'_>) -> Result<Deployments, CommandError> {
        let table = self.section(value, "deployments")?;
        let mut deployments = Deployments::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "channels" => deployments.channels = self.channels(value)?,
                "require_eval" => {
                    deployments.require_eval = self.switch(value, "deployments.require_eval")?;
                }
                name => {
                    let path = format!("deployments.{name}");
                    return Err(self.unknown(key.span().start, &path, name, &Deployments::KEYS));
                }
            }
        }
        Ok(deployments)
    }

    fn channels(&self, value: &Value<'_>) -> Result<Vec<String>, CommandError> {
        let channels = self.texts(value, "deployments.channels")?;
        let is_fine = |name: &String| {
            (1..=64).contains(&name.chars().count()) && name != callboard_agents::LATEST
        };
        match channels.iter().find(|name| !is_fine(name)) {
            None => Ok(channels),
            Some(name) => {
                let place = self.place(value.span().start);
                let what = format!("{place}: deployments.channels: {name:?} cannot be a channel");
                Err(CommandError::usage(what)
                    .hint("names have 1 to 64 characters; latest is always the highest version"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(text: &str) -> Result<DeploymentPolicy, String> {
        let config = Config::parse("c.toml", text);
        config.map(|config| config.deployments.policy()).map_err(|error| error.what)
    }

    #[test]
    fn channels_and_the_gate_are_read() {
        let policy = read("[deployments]\nchannels = [\"live\"]\nrequire_eval = true").unwrap();
        assert_eq!(policy.channels, ["live".to_owned()].into());
        assert_eq!(policy.eval_gate, Some(EvalGate::default()));
        assert_eq!(read("").unwrap(), DeploymentPolicy::default());
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, expected) in [
            ("deployments = 1", "c.toml:1: deployments must be a section, not an integer"),
            ("[deployments]\ngate = true", "c.toml:2: unknown key deployments.gate"),
            (
                "[deployments]\nrequire_eval = 1",
                "c.toml:2: deployments.require_eval must be true or false, not an integer",
            ),
            (
                "[deployments]\nchannels = [\"latest\"]",
                "c.toml:2: deployments.channels: \"latest\" cannot be a channel",
            ),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
    }
}

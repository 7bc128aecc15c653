//! Requests about agents and the deployments of their versions.

use serde_json::Value;

use callboard_protocol::{AgentDeployment, DeploymentTransition};

use super::{Client, Kind};
use crate::exit::{CommandError, Exit};

impl Client {
    /// Refuses an unknown name. A key that may not read agents leaves that to the host.
    pub(crate) async fn know_agent(&self, id: &str) -> Result<(), CommandError> {
        match self.get::<Value>(&Kind::AGENT, id, "").await {
            Err(error) if error.exit != Exit::Refused => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// What an agent is given and returns.
    pub(crate) async fn agent_definition(&self, id: &str) -> Result<Value, CommandError> {
        self.get(&Kind::AGENT_DEFINITION, id, "").await
    }

    /// The states of an agent's versions, the highest first.
    pub(crate) async fn deployments(
        &self,
        agent: &str,
    ) -> Result<Vec<AgentDeployment>, CommandError> {
        self.get(&Kind::AGENT, agent, "/deployments").await
    }

    /// Answers the version's record afterwards.
    pub(crate) async fn deploy(
        &self,
        agent: &str,
        transition: &DeploymentTransition,
    ) -> Result<AgentDeployment, CommandError> {
        let changed = self.post(&Kind::AGENT, agent, "/deployments", Some(transition)).await;
        let Err(error) = changed else { return changed };
        let version = &transition.version;
        let is_installed = match error.exit {
            Exit::Usage => self.deployments(agent).await?.iter().any(|it| it.version == *version),
            _ => true,
        };
        if is_installed {
            return Err(error);
        }
        Err(CommandError::new(Exit::NotFound, format!("{agent} {version} is not installed"))
            .hint(format!("`callboard agents deploy list {agent}` shows its versions")))
    }
}

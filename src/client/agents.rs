//! What the client asks about agents, with the deployments of their versions.

use reqwest::Method;
use serde_json::Value;

use callboard_protocol::{AgentDeployment, DeploymentTransition};

use super::{Client, or_not_found, segment};
use crate::exit::{CommandError, Exit};

impl Client {
    pub(crate) async fn agents(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, "/v1/agents")).await
    }

    pub(crate) async fn agent(&self, id: &str) -> Result<Value, CommandError> {
        let found = self.json(self.request(Method::GET, &format!("/v1/agents/{}", segment(id))));
        found.await.map_err(|error| no_agent(error, id))
    }

    /// Refuses a name that nobody here has. A key that may not read agents leaves that to the host.
    pub(crate) async fn know_agent(&self, id: &str) -> Result<(), CommandError> {
        match self.agent(id).await {
            Err(error) if error.exit != Exit::Refused => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// What became of an agent's versions, the highest first.
    pub(crate) async fn deployments(
        &self,
        agent: &str,
    ) -> Result<Vec<AgentDeployment>, CommandError> {
        let found = self.json(self.request(Method::GET, &deployments_of(agent)));
        found.await.map_err(|error| no_agent(error, agent))
    }

    /// Answers the version's record afterwards.
    pub(crate) async fn deploy(
        &self,
        agent: &str,
        transition: &DeploymentTransition,
    ) -> Result<AgentDeployment, CommandError> {
        let changed =
            self.json(self.request(Method::POST, &deployments_of(agent)).json(transition));
        let changed = changed.await.map_err(|error| no_agent(error, agent));
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

fn deployments_of(agent: &str) -> String {
    format!("/v1/agents/{}/deployments", segment(agent))
}

fn no_agent(error: CommandError, agent: &str) -> CommandError {
    let hint = "`callboard agents list` shows those that this key can see";
    or_not_found(error, &format!("no agent {agent}"), hint)
}

//! What the client asks about deployments.

use reqwest::Method;

use callboard_protocol::{AgentDeployment, DeploymentTransition};

use super::{Client, or_not_found, segment};
use crate::exit::CommandError;

impl Client {
    /// What became of an agent's versions, the highest first.
    pub(crate) async fn deployments(
        &self,
        agent: &str,
    ) -> Result<Vec<AgentDeployment>, CommandError> {
        let found = self.json(self.request(Method::GET, &path(agent)));
        found.await.map_err(|error| no_agent(error, agent))
    }

    /// Answers the version's record afterwards.
    pub(crate) async fn deploy(
        &self,
        agent: &str,
        transition: &DeploymentTransition,
    ) -> Result<AgentDeployment, CommandError> {
        let changed = self.json(self.request(Method::POST, &path(agent)).json(transition));
        changed.await.map_err(|error| no_agent(error, agent))
    }
}

fn path(agent: &str) -> String {
    format!("/v1/agents/{}/deployments", segment(agent))
}

fn no_agent(error: CommandError, agent: &str) -> CommandError {
    let hint = "`callboard agents list` shows those that this key can see";
    or_not_found(error, &format!("no agent {agent}"), hint)
}

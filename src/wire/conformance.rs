//! Stands in for the crate `callboard-conformance` in builds without it, which refuse `--test-seams`.

use std::convert::Infallible;
use std::sync::Arc;

use callboard_agents::{Installed, Policy, StructuredOutput};
use callboard_core::Run;
use callboard_engine::{Activities, Deployments, Secrets};
use callboard_protocol::{PromptTemplate, Timestamp};
use callboard_server::Seams;

pub(super) use callboard_agents::plain_task as read_task;

pub(super) const DEPLOYED: &str = "";

pub(super) fn packs(_: &Policy, _: Timestamp) -> Result<Vec<Installed>, Infallible> {
    Ok(Vec::new())
}

pub(super) fn doors() -> Option<Arc<dyn Seams>> {
    None
}

pub(super) fn prompts() -> Vec<PromptTemplate> {
    Vec::new()
}

pub(super) fn add_nodes(activities: Activities, _: &StructuredOutput) -> Activities {
    activities
}

pub(super) fn with_secrets(secrets: Secrets) -> Secrets {
    secrets
}

pub(super) fn with_deployed(deployments: Deployments) -> Deployments {
    deployments
}

pub(super) fn spin(_: &Run) {}

//! The deployment that the protocol's channel fixture counts on.

use callboard_engine::Deployments;

/// The agent of the fixture, which serves on `stable` before anybody deployed anything.
pub const DEPLOYED: &str = "core.conformance.channel-agent";

/// What `promote` would have left behind for the version that the pack brings.
const STATE: &str =
    r#"{"versions":{"1.0.0":{"state":"active"}},"channels":{"stable":{"serving":"1.0.0"}}}"#;

/// Every tenant's own deployments, and the one of conformance tests for those who have not changed it.
pub fn with_deployed(deployments: Deployments) -> Deployments {
    deployments.with_initial(DEPLOYED.into(), STATE)
}

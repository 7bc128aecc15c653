//! The node types that the suite's workflows are made of.

use std::sync::Arc;

use callboard_agents::StructuredOutput;
use callboard_core::Run;
use callboard_engine::Activities;

use crate::{Parrot, SecretEcho, SideEffect};

/// What `conformance.modelCapability.insufficient` demands: nobody has it.
const NEVER_PROVIDED: &str = "nonexistent-capability-9b3f";
/// A node over which no decision ever ends: it stands for whatever a host does not know to bound.
const SPIN: &str = "core.conformance.spin";

/// Adds them to what a host performs, beside the node that asks models.
pub fn add_nodes(activities: Activities, asks: &StructuredOutput) -> Activities {
    let required = vec![NEVER_PROVIDED.to_owned()];
    let demanding = StructuredOutput { required, ..asks.clone() };
    activities
        .with("conformance.modelCapability.insufficient", Arc::new(demanding))
        .with(
            "local.sample.demo.mock-ai",
            Arc::new(Parrot { prompt_resolver: asks.prompt_resolver.clone() }),
        )
        .with("conformance.secret.echo", Arc::new(SecretEcho))
        .with("core.conformance.side-effect", Arc::new(SideEffect))
        .with(SPIN, Arc::new(SideEffect))
}

/// Called before each decision on a run.
pub fn spin(run: &Run) {
    let mut nodes = run.plan().definition().nodes.iter();
    if nodes.any(|node| node.type_id.as_str() == SPIN) {
        loop {
            std::hint::spin_loop();
        }
    }
}

//! Artifacts: what a completed node leaves behind, where the definition gives it a type.

use callboard_protocol::{ArtifactCreated, Event};

use super::Run;
use crate::graph::NodeIndex;
use crate::node::NodeKind;

impl Run {
    /// A gate names the artifact that it asks about and makes none itself.
    pub(super) fn owe_artifact(&mut self, index: NodeIndex) {
        let node = self.plan.node(index);
        if node.node.artifact_type.is_some() && node.kind != NodeKind::Gate {
            self.owed_artifacts.insert((index, self.nodes[index].visit));
        }
    }

    pub(super) fn fold_artifact(&mut self, payload: &ArtifactCreated) {
        let told = self
            .owed_artifacts
            .iter()
            .find(|(index, visit)| self.artifact_id(*index, *visit) == payload.artifact_id)
            .copied();
        if let Some(told) = told {
            self.owed_artifacts.remove(&told);
        }
    }

    pub(super) fn next_artifact(&self) -> Option<Event> {
        let (index, visit) = *self.owed_artifacts.first()?;
        let node = &self.plan.node(index).node;
        Some(Event::ArtifactCreated(ArtifactCreated {
            artifact_id: self.artifact_id(index, visit),
            artifact_type: node.artifact_type.clone().unwrap_or_default(),
            node_id: node.id.clone(),
            version: Some((visit + 1).to_string()),
            // No schemas of artifact types are installed here, so none was checked.
            registered: Some(false),
        }))
    }

    fn artifact_id(&self, index: NodeIndex, visit: u32) -> String {
        format!("{}-{visit}", self.plan.node(index).node.id)
    }
}

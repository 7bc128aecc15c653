//! Catalogue entries of the host's own tools.

use callboard_protocol::{SafetyTier, ToolEgress, ToolReplay, ToolSource, ToolTransport};

use super::ToolDescriptor;
use crate::pack::Schema;

/// A description that stands in the program's text.
#[derive(Debug, Clone, Copy)]
pub struct ToolCard {
    pub id: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// JSON Schema.
    pub input: &'static str,
    pub tier: SafetyTier,
    pub transport: ToolTransport,
    pub egress: ToolEgress,
    pub replay: ToolReplay,
}

/// A tool of ours whose schema does not compile: a mistake in this build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema of {id}: {why}")]
pub struct BrokenSchema {
    pub id: &'static str,
    pub why: String,
}

impl ToolCard {
    /// A tool that only computes.
    pub const PURE: Self = Self {
        id: "",
        title: "",
        description: "",
        input: "{}",
        tier: SafetyTier::Pure,
        transport: ToolTransport::Native,
        egress: ToolEgress::None,
        replay: ToolReplay::Deterministic,
    };

    /// A tool that touches something, within the host.
    pub const NATIVE: Self = Self { replay: ToolReplay::NonDeterministic, ..Self::PURE };

    pub fn descriptor(&self) -> Result<ToolDescriptor, BrokenSchema> {
        let broken = |why| BrokenSchema { id: self.id, why };
        Ok(ToolDescriptor {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            description: self.description.to_owned(),
            input: Schema::compile(self.input.as_bytes()).map_err(broken)?,
            source: ToolSource::NodePack,
            tier: self.tier,
            transport: self.transport,
            egress: self.egress,
            replay: self.replay,
            required_scopes: Vec::new(),
        })
    }
}

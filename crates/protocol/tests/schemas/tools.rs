//! A tool's entry in the catalogue against its schema.

use std::sync::Arc;

use callboard_protocol::{
    SafetyTier, ToolApproval, ToolAuth, ToolEgress, ToolEntry, ToolReplay, ToolSource,
};
use serde_json::json;

use super::{check, openwop, schema};

#[test]
fn a_tools_entry_matches_its_schema() {
    let Some(folder) = openwop() else { return };
    let validator = schema(&folder, "tool-descriptor.schema.json");
    let all = [
        (ToolSource::NodePack, SafetyTier::Pure, ToolEgress::None, ToolReplay::Deterministic),
        (ToolSource::Workflow, SafetyTier::Write, ToolEgress::HostMediated, ToolReplay::Idempotent),
        (ToolSource::Mcp, SafetyTier::Read, ToolEgress::HostOwned, ToolReplay::NonDeterministic),
        (
            ToolSource::Connector,
            SafetyTier::Read,
            ToolEgress::SafeFetch,
            ToolReplay::NonDeterministic,
        ),
        (
            ToolSource::HostExtension,
            SafetyTier::Exec,
            ToolEgress::HostOwned,
            ToolReplay::NonDeterministic,
        ),
    ];
    for (source, safety_tier, egress, replay_policy) in all {
        for auth in [None, Some(ToolAuth { scopes: vec!["tools:mail".to_owned()] })] {
            let entry = ToolEntry {
                tool_id: "openwop:core.files.read".to_owned(),
                source,
                title: "Read a file".to_owned(),
                description: "Reads a file.".to_owned(),
                input_schema: Arc::new(json!({ "type": "object" })),
                auth,
                egress,
                approval: ToolApproval::Never,
                replay_policy,
                safety_tier,
            };
            check(&validator, "tool descriptor", &json!(entry));
        }
    }
}

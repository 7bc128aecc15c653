//! Names that one host has beside those of this program: what its operator declared and installed.

use serde_json::Value;

use crate::known::nearest;
use crate::nodes::node_types;
use crate::problem::{Problem, ProblemKind};
use crate::read::Reading;

/// What a host has. A list that nobody could be asked for is not checked.
#[derive(Debug, Clone, Default)]
pub struct HostNames {
    /// Node types beside those of the table.
    pub types: Vec<String>,
    pub agents: Option<Vec<String>>,
    pub tools: Option<Vec<String>>,
}

impl Reading {
    /// Judges the names of a definition by what a host has: its node types are known, and an agent or a tool that it
    /// does not have is a problem. Nothing else would say so before the run.
    pub fn judge_names(&mut self, names: &HostNames) {
        self.problems.retain(|problem| {
            let Some(unknown) = &problem.unknown_type else { return true };
            let own = node_types().iter().map(|known| known.type_id);
            let all = own.chain(names.types.iter().map(String::as_str));
            problem.did_you_mean = nearest(unknown, all).map(str::to_owned);
            !names.types.contains(unknown)
        });
        let canonical = self.canonical.as_deref().unwrap_or_default();
        let definition: Value = serde_json::from_str(canonical).unwrap_or_default();
        for (index, node) in definition["nodes"].as_array().into_iter().flatten().enumerate() {
            let agent = node["agent"]["agentId"].as_str();
            let tool = node["config"]["tool"].as_str();
            let tool = tool.filter(|_| node["typeId"] == "callboard.tool");
            for (what, name, known, key) in [
                ("agent", agent, &names.agents, "agent"),
                ("tool", tool, &names.tools, "config.tool"),
            ] {
                let (Some(name), Some(known)) = (name, known) else { continue };
                if !known.iter().any(|known| known == name) {
                    let path = format!("nodes[{index}].{key}");
                    self.problems.push(self.missing(what, name, known, &path));
                }
            }
        }
        self.problems.sort();
    }

    fn missing(&self, what: &str, name: &str, known: &[String], path: &str) -> Problem {
        let mut problem = self.located(path, &format!("this host has no {what} {name:?}"));
        problem.kind = ProblemKind::Reference;
        match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => problem.meant(Some(near)),
            None => problem.hint(format!("`callboard {what}s list` shows those that it has")),
        }
    }
}

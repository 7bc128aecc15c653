//! The tools of one invocation: what the host has, as far as the agent's allowlist names it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use callboard_core::provider_names;
use callboard_engine::Scope;
use callboard_protocol::Object;

use super::{RecordedTool, Tool, ToolDescriptor, Toolbox};

/// What a model may call, under names that its provider accepts.
#[derive(Debug, Clone, Default)]
pub struct ToolSurface {
    by_name: BTreeMap<String, Arc<dyn Tool>>,
    unresolved: Vec<String>,
}

/// A tool as it is offered to a model.
#[derive(Debug, Clone, Copy)]
pub struct ToolOffer<'s> {
    /// The name to give to the provider.
    pub name: &'s str,
    pub descriptor: &'s ToolDescriptor,
}

/// A call that may be made.
#[derive(Debug, Clone)]
pub struct AdmittedCall {
    pub tool: Arc<dyn Tool>,
    pub arguments: Object,
}

/// Why a model's call is not made. The texts are for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// Not on the surface: such a call is not recorded.
    #[error("there is no tool {called:?} here")]
    NotOffered { called: String },
    /// The complaints name places and rules, never values.
    #[error("the arguments of {tool} do not match its schema: {}", violations.join("; "))]
    BadArguments { tool: String, violations: Vec<String> },
}

impl ToolSurface {
    /// Finds each tool that the allowlist names, exactly. An empty list is no tools.
    pub async fn assemble(toolbox: &dyn Toolbox, scope: &Scope, allowlist: &[String]) -> Self {
        let mut found: BTreeMap<&str, Arc<dyn Tool>> = BTreeMap::new();
        let mut unresolved = Vec::new();
        for name in allowlist.iter().map(String::as_str).collect::<BTreeSet<_>>() {
            match toolbox.find(scope, name).await {
                Some(tool) => {
                    found.insert(name, tool);
                }
                None => unresolved.push(name.to_owned()),
            }
        }
        let names = provider_names(&found.keys().copied().collect());
        let by_name =
            names.into_iter().filter_map(|(name, id)| Some((name, found.remove(id)?))).collect();
        Self { by_name, unresolved }
    }

    /// The surface that an invocation began with. A tool that has disappeared keeps its name, and its calls fail.
    pub(crate) async fn restore(
        toolbox: &dyn Toolbox,
        scope: &Scope,
        tools: &[RecordedTool],
        unresolved: &[String],
    ) -> Result<Self, String> {
        let mut by_name = BTreeMap::new();
        for tool in tools {
            let now = toolbox.find(scope, &tool.id).await;
            by_name.insert(tool.name.clone(), tool.restore(now)?);
        }
        Ok(Self { by_name, unresolved: unresolved.to_vec() })
    }

    /// The tools as a later attempt needs them.
    pub(crate) fn recorded(&self) -> Vec<RecordedTool> {
        self.offers().map(RecordedTool::from).collect()
    }

    /// The tools as the model is offered them, in a stable order.
    pub fn offers(&self) -> impl Iterator<Item = ToolOffer<'_>> {
        self.by_name.iter().map(|(name, tool)| ToolOffer { name, descriptor: tool.descriptor() })
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What the allowlist names and this host does not have: worth a warning `tool_unresolvable` each.
    pub fn unresolved(&self) -> &[String] {
        &self.unresolved
    }

    /// Checks a call as the model wrote it. Only tools on the surface can be called.
    pub fn admit(&self, called: &str, arguments: Value) -> Result<AdmittedCall, NotAdmitted> {
        let not_offered = || NotAdmitted::NotOffered { called: called.to_owned() };
        let tool = self.by_name.get(called).ok_or_else(not_offered)?;
        let descriptor = tool.descriptor();
        let bad =
            |violations| Err(NotAdmitted::BadArguments { tool: descriptor.id.clone(), violations });
        let violations = descriptor.input.violations(&arguments);
        if !violations.is_empty() {
            return bad(violations);
        }
        match arguments {
            Value::Object(arguments) => Ok(AdmittedCall { tool: Arc::clone(tool), arguments }),
            // Some models write nothing where a tool wants nothing.
            Value::Null => Ok(AdmittedCall { tool: Arc::clone(tool), arguments: Object::new() }),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                bad(vec!["the arguments are not an object".to_owned()])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use callboard_engine::KeyMode;
    use serde_json::json;

    use super::*;
    use crate::tool::given::tools;

    async fn surface(allowlist: &[&str]) -> ToolSurface {
        let host = tools(&["openwop:core.files.read", "openwop:core.files.write", "mcp:x.y"]);
        let allowlist: Vec<String> = allowlist.iter().map(|name| (*name).to_owned()).collect();
        let scope = Scope { tenant: "t".into(), workspace: None, mode: KeyMode::Live };
        ToolSurface::assemble(&host, &scope, &allowlist).await
    }

    fn offered(surface: &ToolSurface) -> Vec<(&str, &str)> {
        surface.offers().map(|offer| (offer.name, offer.descriptor.id.as_str())).collect()
    }

    #[tokio::test]
    async fn only_what_both_the_host_has_and_the_agent_may_use_is_offered() {
        let surface = surface(&["openwop:core.files.read", "openwop:core.rag.x", "mcp:x.y"]).await;
        assert_eq!(
            offered(&surface),
            [("mcp_x_y", "mcp:x.y"), ("openwop_core_files_read", "openwop:core.files.read")]
        );
        assert_eq!(surface.unresolved(), ["openwop:core.rag.x"]);
    }

    #[tokio::test]
    async fn names_match_exactly_and_no_list_is_no_tools() {
        for list in [&[][..], &["openwop:core.files.*"], &["mcp:X.Y"], &["core.files.read"], &["*"]]
        {
            let surface = surface(list).await;
            assert!(surface.is_empty(), "{list:?}");
            assert_eq!(surface.unresolved(), list);
        }
    }

    /// The tool half of A-43.
    #[tokio::test]
    async fn a_tool_outside_the_allowlist_cannot_be_called_by_any_of_its_names() {
        let surface = surface(&["openwop:core.files.read"]).await;
        for called in
            ["openwop_core_files_write", "openwop:core.files.write", "mcp_x_y", "", "read"]
        {
            let refused = surface.admit(called, json!({ "path": "a" })).map(|_| ()).unwrap_err();
            assert_eq!(refused, NotAdmitted::NotOffered { called: called.to_owned() });
        }
        let admitted = surface.admit("openwop_core_files_read", json!({ "path": "a" })).unwrap();
        assert_eq!(admitted.tool.descriptor().id, "openwop:core.files.read");
    }

    #[tokio::test]
    async fn arguments_that_do_not_fit_are_refused_without_being_repeated() {
        let surface = surface(&["mcp:x.y"]).await;
        for arguments in [
            json!({}),
            json!({ "path": 77_123 }),
            json!({ "path": "a", "mode": "77123" }),
            json!("77123"),
            json!(null),
        ] {
            let refused = surface.admit("mcp_x_y", arguments).map(|_| ()).unwrap_err();
            assert!(matches!(refused, NotAdmitted::BadArguments { .. }), "{refused:?}");
            assert!(!refused.to_string().contains("77123"), "{refused}");
        }
    }
}

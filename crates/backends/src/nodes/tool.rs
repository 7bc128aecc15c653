//! `callboard.tool` and `core.openwop.mcp.invoke-tool`: nodes that call a tool of the host by its name, under the same
//! scopes, limits and records as an agent's call. `core.openwop.mcp.list-tools` says which an MCP server has, and
//! `read-resource` and `get-prompt` hand out what else it has.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_agents::{
    AdmittedCall, Credentials, Grants, HookRefusal, ToolFault, ToolHooks, ToolInvocation,
    ToolSurface, ToolUse, Toolbox, run_folder,
};
use callboard_core::{AgentFact, Fact, Outcome, RetryClass};
use callboard_engine::{Activity, Call, CallFailure, Effect, OnUnknown, Once, OnceError};
use callboard_protocol::{Failure, Object, Principal};

use super::given::{failed, invalid, outcome, whole};
use super::mcp;
use crate::mcp::McpServers;

/// The type of nodes that call any tool of the host.
pub const TOOL: &str = "callboard.tool";
/// The type of nodes that call a tool of an MCP server.
const MCP_TOOL: &str = "core.openwop.mcp.invoke-tool";
/// The type of nodes that list the tools of an MCP server.
const MCP_LIST: &str = "core.openwop.mcp.list-tools";
/// Who calls where nobody is known to have made the run.
const NOBODY: &str = "anonymous";
/// As the published configuration allows: five minutes.
const LONGEST_MS: u64 = 300_000;

/// The tools of a host, and who may use them.
#[derive(Debug, Clone)]
pub struct ToolNodes {
    pub toolbox: Arc<dyn Toolbox>,
    /// What MCP servers have beside their tools.
    pub mcp: Option<Arc<McpServers>>,
    pub hooks: Arc<ToolHooks>,
    pub grants: Arc<dyn Grants>,
    /// Where runs have their folders.
    pub workspaces: PathBuf,
    /// How long a call may take where its node does not say.
    pub timeout: Duration,
}

impl ToolNodes {
    /// The types that call tools, with who performs them.
    pub fn types(self) -> Vec<(&'static str, Arc<dyn Activity>)> {
        let nodes: Arc<dyn Activity> = Arc::new(self);
        [TOOL, MCP_TOOL, MCP_LIST, mcp::RESOURCE, mcp::PROMPT]
            .map(|type_id| (type_id, Arc::clone(&nodes)))
            .into()
    }
}

#[async_trait]
impl Activity for ToolNodes {
    async fn perform(&self, call: Call) -> Outcome {
        match call.type_id.as_str() {
            MCP_LIST => return self.list(&call).await,
            mcp::RESOURCE | mcp::PROMPT => return self.read(&call).await,
            _ => {}
        }
        let (admitted, within) = match self.admit(&call).await {
            Ok(admitted) => admitted,
            Err(failure) => return outcome(Err(failure)),
        };
        let descriptor = admitted.tool.descriptor();
        let (provider, asks) = (descriptor.id.as_str(), Value::Object(admitted.arguments.clone()));
        let is_repeatable = descriptor.is_repeatable();
        let on_unknown = if is_repeatable {
            OnUnknown::Repeat
        } else {
            OnUnknown::Ask(|said| json!({ "result": said, "isError": false, "durationMs": 0 }))
        };
        let effect = Effect { index: 0, provider, request: &asks, on_unknown, is_recorded: false };
        let made = call.once(effect, |once| self.invoke(&call, &admitted, once, within)).await;
        match made {
            Ok(mut value) if call.type_id.as_str() == MCP_TOOL => {
                // Whatever a server says is a stranger's words.
                value["untrustedContent"] = true.into();
                done(Ok(value))
            }
            made => done(made),
        }
    }
}

pub(super) fn done(made: Result<Value, OnceError>) -> Outcome {
    match made {
        Ok(value) => Outcome::Done { outputs: value.as_object().cloned().unwrap_or_default() },
        Err(OnceError::Ended(outcome)) => outcome,
        // Nobody listens to an attempt that no longer counts.
        Err(OnceError::Superseded) => Outcome::Done { outputs: Object::new() },
    }
}

impl ToolNodes {
    /// The tools of one server, as they were when the node asked.
    async fn list(&self, call: &Call) -> Outcome {
        let Some(server) = call.config.get("serverId").and_then(Value::as_str) else {
            return outcome(Err(invalid("config.serverId must be a text")));
        };
        let asks = json!({ "serverId": server });
        let on_unknown = OnUnknown::Repeat;
        let effect =
            Effect { index: 0, provider: MCP_LIST, request: &asks, on_unknown, is_recorded: false };
        let prefix = format!("mcp:{server}.");
        let made = call.once(effect, |_| async {
            // A list waits for nobody; looking for a tool waits until the server is there.
            let _ = self.toolbox.find(&call.scope(), &prefix).await;
            let listed = self.toolbox.list(&call.scope()).await;
            let tools: Vec<Value> = listed
                .iter()
                .filter_map(|tool| {
                    let name = tool.id.strip_prefix(&prefix)?;
                    let input = &*tool.input.source;
                    Some(json!({ "name": name, "description": tool.description, "inputSchema": input }))
                })
                .collect();
            if tools.is_empty() {
                let why = format!("there is no MCP server {server} here, or it has no tools now");
                return Err(failed("mcp_server_not_registered", why));
            }
            Ok(json!({ "count": tools.len(), "tools": tools }))
        });
        done(made.await)
    }

    /// The tool that the node names, with arguments that match its schema.
    async fn admit(&self, call: &Call) -> Result<(AdmittedCall, Duration), CallFailure> {
        let said = |key: &str| {
            let text = call.config.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.ok_or_else(|| invalid(format!("config.{key} must be a text")))
        };
        let (name, port) = match call.type_id.as_str() {
            MCP_TOOL => (format!("mcp:{}.{}", said("serverId")?, said("toolName")?), "args"),
            _ => (said("tool")?.to_owned(), "arguments"),
        };
        let arguments = match call.inputs.get(port) {
            None => Value::Object(Object::new()),
            Some(arguments @ Value::Object(_)) => arguments.clone(),
            Some(_) => return Err(invalid(format!("the input {port} must be an object"))),
        };
        let usual = u64::try_from(self.timeout.as_millis()).unwrap_or(LONGEST_MS).min(LONGEST_MS);
        let within = whole(&call.config, "timeoutMs", (100, usual, LONGEST_MS))?;
        let allowed = [name];
        let surface = ToolSurface::assemble(&*self.toolbox, &call.scope(), &allowed).await;
        let Some(offer) = surface.offers().next().map(|offer| offer.name.to_owned()) else {
            let why = format!(
                "this host has no tool {}; `callboard tools list` shows its tools",
                allowed[0]
            );
            return Err(failed("tool_not_found", why));
        };
        let admitted = surface.admit(&offer, arguments);
        let admitted = admitted.map_err(|refused| invalid(refused.to_string()))?;
        Ok((admitted, Duration::from_millis(within)))
    }

    async fn invoke(
        &self,
        call: &Call,
        admitted: &AdmittedCall,
        once: Once,
        within: Duration,
    ) -> Result<Value, CallFailure> {
        let descriptor = admitted.tool.descriptor();
        self.judge(call, &descriptor.id, &descriptor.required_scopes).await?;
        call.dispatch(&once, 0, None).await?;
        let began = call.now();
        let workspace = run_folder(&self.workspaces, &call.tenant, &call.run);
        let credentials = Credentials::of(call);
        let made = admitted.tool.invoke(ToolInvocation {
            tenant: &call.tenant,
            run: &call.run,
            node: &call.attempt.node,
            workspace: &workspace,
            effect: &once.id,
            notebook: None,
            credentials: Some(&credentials),
            caller: Some(call),
            arguments: admitted.arguments.clone(),
            trace: Some(&call.trace),
            within,
        });
        let made = made.await;
        let decided = credentials.into_decided().into_iter().zip(0..);
        let facts = decided.map(|(it, place)| Fact::Agent { place, fact: AgentFact::Egress(it) });
        // An attempt that no longer counts is told so when it hands over its outcome.
        let _ = call.record(facts.collect()).await;
        let (mut result, is_error) = match made {
            Ok(value) => (value, false),
            // The tool did its work, and says that it went wrong.
            Err(ToolFault::Failed(why)) => (Value::from(why), true),
            Err(fault) => return Err(fault_of(&fault)),
        };
        call.redact(&mut result);
        let took = u64::try_from(call.now().since(began).as_millis()).unwrap_or(u64::MAX);
        Ok(json!({ "result": result, "isError": is_error, "durationMs": took }))
    }

    /// Whether whoever made the run may use the tool, and now.
    pub(super) async fn judge(
        &self,
        call: &Call,
        tool: &str,
        required_scopes: &[String],
    ) -> Result<(), CallFailure> {
        let nobody = Principal::from(NOBODY);
        let principal = call.principal.as_ref().unwrap_or(&nobody);
        let granted = self.grants.granted(&call.tenant, principal, call.now()).await;
        let granted = granted.within(call.principal_scope.as_deref());
        let used =
            ToolUse { tenant: &call.tenant, principal, tool, required_scopes, granted: &granted };
        self.hooks.judge(&used, call.now()).map_err(|refusal| {
            let class = match refusal {
                HookRefusal::Forbidden { .. } => RetryClass::Final,
                HookRefusal::RateLimited { .. } => RetryClass::Retryable,
            };
            CallFailure { failure: Failure::new(refusal.code(), refusal.to_string()), class }
        })
    }
}

/// Only where nothing was done may the call be made again: silence after a call may mean that it was done.
pub(super) fn fault_of(fault: &ToolFault) -> CallFailure {
    let class = match fault {
        ToolFault::Unavailable(_) => RetryClass::Retryable,
        _ => RetryClass::Final,
    };
    CallFailure { failure: fault.failure(), class }
}

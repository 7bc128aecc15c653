//! `core.openwop.mcp.read-resource` and `get-prompt`: what an MCP server has beside its tools, asked for once and kept.

use std::time::Duration;

use callboard_agents::ToolFault;
use callboard_core::Outcome;
use callboard_engine::{Call, CallFailure, Effect, OnUnknown, Once};
use callboard_protocol::Object;
use serde_json::{Value, json};

use super::given::{failed, input_text, invalid, outcome, whole};
use super::tool::{ToolNodes, done, fault_of};
use crate::mcp::McpRead;

pub(super) const RESOURCE: &str = "core.openwop.mcp.read-resource";
pub(super) const PROMPT: &str = "core.openwop.mcp.get-prompt";

/// As the published configuration says.
const USUAL_MS: u64 = 15_000;
const LONGEST_MS: u64 = 60_000;

impl ToolNodes {
    pub(super) async fn read(&self, call: &Call) -> Outcome {
        let (server, asks) = match asked(call) {
            Ok(asked) => asked,
            Err(failure) => return outcome(Err(failure)),
        };
        let effect = Effect {
            index: 0,
            provider: call.type_id.as_str(),
            request: &asks,
            // Reading changes nothing.
            on_unknown: OnUnknown::Repeat,
            is_recorded: false,
        };
        done(call.once(effect, |once| self.ask(call, server, &asks, once)).await)
    }

    async fn ask(
        &self,
        call: &Call,
        server: &str,
        asks: &Value,
        once: Once,
    ) -> Result<Value, CallFailure> {
        let servers = self.mcp.as_ref();
        let found = servers.and_then(|all| Some((all, all.required_scopes(server)?)));
        let (servers, scopes) = found.ok_or_else(|| {
            let why = format!("there is no MCP server {server} here");
            failed("mcp_server_not_registered", why)
        })?;
        self.judge(call, &format!("mcp:{server}"), scopes).await?;
        let within = whole(&call.config, "timeoutMs", (100, USUAL_MS, LONGEST_MS))?;
        let text = |key: &str| asks[key].as_str().unwrap_or_default();
        let is_resource = call.type_id.as_str() == RESOURCE;
        let read = if is_resource {
            McpRead::Resource(text("uri"))
        } else {
            let arguments = asks["arguments"].as_object().cloned();
            McpRead::Prompt(text("name"), arguments.unwrap_or_default())
        };
        call.dispatch(&once, 0, None).await?;
        let read = servers.read(&call.tenant, server, read, Duration::from_millis(within)).await;
        let read = read.map_err(|fault| match fault {
            ToolFault::Failed(why) if is_resource => failed("mcp_resource_not_read", why),
            ToolFault::Failed(why) => failed("mcp_prompt_not_found", why),
            other => fault_of(&other),
        })?;
        let mut outputs =
            if is_resource { content(&read, text("uri")) } else { json!({ "result": read }) };
        call.redact(&mut outputs);
        Ok(outputs)
    }
}

/// The server, and what is asked of it.
fn asked(call: &Call) -> Result<(&str, Value), CallFailure> {
    let said = |key: &str| {
        let text = call.config.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.ok_or_else(|| invalid(format!("config.{key} must be a text")))
    };
    let server = said("serverId")?;
    if call.type_id.as_str() == RESOURCE {
        return Ok((server, json!({ "serverId": server, "uri": said("uri")? })));
    }
    let arguments = match call.inputs.get("arguments") {
        None => Object::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => return Err(invalid("the input arguments must be an object")),
    };
    let name = input_text(call, "name")?;
    Ok((server, json!({ "serverId": server, "name": name, "arguments": arguments })))
}

/// The first of the contents that the server sent: a resource has one, unless it is a folder.
fn content(read: &Value, uri: &str) -> Value {
    let first = &read["contents"][0];
    let kind = first["mimeType"].as_str().unwrap_or_default();
    let mut outputs = json!({ "content": null, "mimeType": kind, "uri": uri });
    let parts = [("text", "utf-8"), ("blob", "base64")];
    if let Some((part, encoding)) = parts.into_iter().find(|(part, _)| first[*part].is_string()) {
        outputs["content"] = first[part].clone();
        outputs["encoding"] = encoding.into();
    }
    outputs
}

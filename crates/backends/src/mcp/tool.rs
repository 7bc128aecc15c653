//! One tool of a server.

use std::sync::Weak;

use async_trait::async_trait;
use rmcp::model::{CallToolRequestParams, CallToolResponse, MetaObject, RequestMetaObject};
use rmcp::service::ServiceError;
use serde_json::Value;

use callboard_agents::{Schema, Tool, ToolDescriptor, ToolFault, ToolInvocation};
use callboard_protocol::{
    EgressDecided, EgressDecision, EgressReason, SafetyTier, ToolEgress, ToolReplay, ToolSource,
    ToolTransport,
};

use super::server::Server;
use super::{McpServer, McpWay, outcome};
use crate::egress::authority;

/// Under this name a server finds the key that makes two calls one.
const EFFECT: &str = "callboard/effectId";
/// Under these names W3C's headers travel where there are none.
const TRACE: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";
const LONGEST_NAME: usize = 128;
/// Descriptions go into every prompt.
const LONGEST_DESCRIPTION: usize = 4_096;

#[derive(Debug)]
pub(super) struct McpTool {
    /// As the server calls it.
    name: String,
    descriptor: ToolDescriptor,
    server: Weak<Server>,
}

impl McpTool {
    pub(super) fn new(name: String, descriptor: ToolDescriptor, server: Weak<Server>) -> Self {
        Self { name, descriptor, server }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.descriptor
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        let gone =
            |why: String| ToolFault::Unavailable(format!("the MCP server is not there: {why}"));
        let server = self.server.upgrade().ok_or_else(|| gone("the host stops".to_owned()))?;
        server.admit(call.tenant)?;
        let session = server.session().await.map_err(|error| gone(error.to_string()))?;
        if let Some((held, decided)) = call.credentials.zip(credential(&server.settings)) {
            held.note(decided);
        }
        let mut params =
            CallToolRequestParams::new(self.name.clone()).with_arguments(call.arguments);
        let mut meta = MetaObject::default();
        meta.0.insert(EFFECT.to_owned(), call.effect.as_str().into());
        if let Some(trace) = call.trace {
            meta.0.insert(TRACE.to_owned(), trace.traceparent.as_str().into());
            if let Some(state) = &trace.tracestate {
                meta.0.insert(TRACE_STATE.to_owned(), state.as_str().into());
            }
        }
        params.meta = Some(RequestMetaObject(meta));
        // Dropping the request cancels it at the server.
        match tokio::time::timeout(call.within, session.peer().call_tool_once(params)).await {
            Ok(Ok(CallToolResponse::Complete(result))) => outcome::read(result),
            Ok(Ok(_)) => Err(ToolFault::Failed(
                "the tool asks for something that this host does not give".to_owned(),
            )),
            Ok(Err(error)) => Err(explain(&error)),
            Err(_) => Err(ToolFault::Unanswered("no answer in time".to_owned())),
        }
    }
}

/// The decision that the operator's headers are sent, only to the address that they are configured for: the client
/// follows no redirects.
fn credential(server: &McpServer) -> Option<EgressDecided> {
    let McpWay::Url { url, headers } = &server.way else { return None };
    Some(EgressDecided {
        node_id: None,
        decision: EgressDecision::Allowed,
        destination: authority(url).filter(|_| !headers.is_empty())?,
        credential_id: Some(format!("mcp:{}", server.name)),
        reason: EgressReason::Ok,
    })
}

/// What a server says of a tool, if it is something that can be offered to a model.
pub(super) fn describe(
    server: &McpServer,
    tool: &rmcp::model::Tool,
) -> Result<ToolDescriptor, String> {
    let accepted = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if !(1..=LONGEST_NAME).contains(&tool.name.len()) || !tool.name.chars().all(accepted) {
        return Err("its name is not one that this host takes".to_owned());
    }
    let mut schema = (*tool.input_schema).clone();
    // Most servers write an older dialect here and use nothing that differs.
    schema.remove("$schema");
    let input = Schema::compile(Value::Object(schema).to_string().as_bytes())
        .map_err(|why| format!("the schema of {}: {why}", tool.name))?;
    let hints = tool.annotations.as_ref();
    let title = tool.title.as_ref().or_else(|| hints.and_then(|hints| hints.title.as_ref()));
    let description = tool.description.as_deref().unwrap_or_default();
    Ok(ToolDescriptor {
        id: format!("mcp:{}.{}", server.name, tool.name),
        title: short(title.map_or(&*tool.name, String::as_str), LONGEST_NAME),
        description: short(description, LONGEST_DESCRIPTION),
        input,
        source: ToolSource::Mcp,
        // No hint means that it writes.
        tier: match hints.and_then(|hints| hints.read_only_hint) {
            Some(true) => SafetyTier::Read,
            Some(false) | None => SafetyTier::Write,
        },
        transport: ToolTransport::Mcp,
        egress: match server.way {
            McpWay::Command { .. } => ToolEgress::HostOwned,
            McpWay::Url { .. } => ToolEgress::HostMediated,
        },
        // Only a server knows whether doing it twice does no harm.
        replay: match hints.and_then(|hints| hints.idempotent_hint) {
            Some(true) => ToolReplay::Idempotent,
            Some(false) | None => ToolReplay::NonDeterministic,
        },
        required_scopes: server.required_scopes.clone(),
    })
}

fn short(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

pub(super) fn explain(error: &ServiceError) -> ToolFault {
    match error {
        // The server answered, and the answer is no. Its words are for the model, as untrusted as a result.
        ServiceError::McpError(error) => ToolFault::Failed(error.message.to_string()),
        ServiceError::UnexpectedResponse => {
            ToolFault::Failed("the server answered something else".to_owned())
        }
        _ => ToolFault::Unanswered("the connection to the MCP server broke off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn server(way: McpWay) -> McpServer {
        let required_scopes = Vec::new();
        McpServer {
            name: "crm".to_owned(),
            way,
            required_scopes,
            read: Vec::new(),
            write: Vec::new(),
        }
    }

    /// RFC 0079: the log names the host, and nothing of the path or the header.
    #[test]
    fn the_operators_headers_go_to_the_operators_address() {
        let url = "https://mcp.example:8443/x?token=1".to_owned();
        let headers = BTreeMap::from([("authorization".to_owned(), "Bearer x".to_owned())]);
        let decided = credential(&server(McpWay::Url { url: url.clone(), headers }));
        let decided = decided.map(|it| (it.destination, it.credential_id, it.decision));
        let expected = ("mcp.example:8443".to_owned(), Some("mcp:crm".to_owned()));
        assert_eq!(decided, Some((expected.0, expected.1, EgressDecision::Allowed)));
        assert_eq!(credential(&server(McpWay::Url { url, headers: BTreeMap::new() })), None);
        let (program, arguments) = ("x".to_owned(), Vec::new());
        let way = McpWay::Command { program, arguments, environment: BTreeMap::new() };
        assert_eq!(credential(&server(way)), None);
    }
}

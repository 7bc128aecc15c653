//! Making a connection: starting the program or checking the address, then the greeting.

use std::collections::{BTreeMap, HashMap};
use std::sync::Weak;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::service::{ClientInitializeError, RoleClient, RunningService, ServiceExt};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::child::{self, Program, Start};
use super::server::Server;
use super::session::{Listener, Session};
use super::{McpError, McpServer, McpSurroundings, McpWay};

/// One message: a result that is longer would be cut to a small part of this anyway.
const MOST_MESSAGE: usize = 8 << 20;

type Running = RunningService<RoleClient, Listener>;

pub(super) async fn connect(
    server: &McpServer,
    surroundings: &McpSurroundings,
    owner: Weak<Server>,
) -> Result<Session, McpError> {
    let (running, program) = match &server.way {
        McpWay::Command { program, arguments, environment } => {
            let start = Start {
                program: program.clone(),
                arguments: arguments.clone(),
                environment: child::environment(&surroundings.environment, environment),
                folder: None,
            };
            let (running, program) = greet_program(start, server, surroundings).await?;
            (running, Some(program))
        }
        McpWay::Url { url, headers } => (greet_address(url, headers, surroundings).await?, None),
    };
    Session::open(running, program, owner).await
}

async fn greet_program(
    start: Start,
    server: &McpServer,
    surroundings: &McpSurroundings,
) -> Result<(Running, Program), McpError> {
    let program = start.program.clone();
    let locked = match &surroundings.launcher {
        Some(launcher) => start.locked_in(launcher, &surroundings.homes.join(&server.name), server),
        None => Ok(start),
    };
    let (started, output, input) = locked
        .and_then(|start| start.run())
        .map_err(|error| McpError(format!("{program} cannot be started: {error}")))?;
    let pipes = AsyncRwTransport::new(output, input).with_max_line_length(MOST_MESSAGE);
    let running = Listener::default().serve(pipes).await.map_err(|error| explain(&error))?;
    Ok((running, started))
}

async fn greet_address(
    url: &str,
    headers: &BTreeMap<String, String>,
    surroundings: &McpSurroundings,
) -> Result<Running, McpError> {
    let client =
        surroundings.egress.client_for(url).map_err(|error| McpError(error.to_string()))?;
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(read_headers(headers)?)
        .max_sse_event_size(MOST_MESSAGE);
    let http = StreamableHttpClientTransport::with_client(client, config);
    Listener::default().serve(http).await.map_err(|error| explain(&error))
}

fn read_headers(
    headers: &BTreeMap<String, String>,
) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
    let read = |(name, value): (&String, &String)| {
        let wrong = || McpError(format!("{name} is not a header that can be sent"));
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok((name.parse().map_err(|_| wrong())?, value))
    };
    headers.iter().map(read).collect()
}

/// In our words: those of the library repeat what the server sent.
fn explain(error: &ClientInitializeError) -> McpError {
    let what = match error {
        ClientInitializeError::ConnectionClosed(_) => "it ended before it said what it can do",
        ClientInitializeError::JsonRpcError(_) => "it refused to begin",
        ClientInitializeError::TransportError { .. } => "it cannot be reached",
        _ => "it does not speak MCP as this host does",
    };
    McpError(what.to_owned())
}

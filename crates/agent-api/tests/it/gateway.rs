//! Which backend answers, and who says no when none does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use callboard_agent_api::mcp::{
    McpAddRequest, McpAddTransport, McpCommandOutput, McpGetRequest, McpListRequest,
    McpRemoveRequest,
};
use callboard_agent_api::{
    AgentBackend, AgentCapabilities, AgentError, AgentGateway, AgentKind, AgentRunControl,
    AgentRunHandle, AgentRunRequest, BoxFuture, capability,
};

/// A backend with the two capabilities that it must have, counting its calls.
#[derive(Default)]
struct Bare {
    calls: Arc<AtomicUsize>,
    said: Mutex<&'static str>,
}

impl Bare {
    fn called<T: Send + 'static>(&self) -> BoxFuture<'_, Result<T, AgentError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let message = (*self.said.lock().unwrap()).to_owned();
        Box::pin(async move { Err(AgentError::InvalidRequest { message }) })
    }
}

impl AgentBackend for Bare {
    fn kind(&self) -> AgentKind {
        kind("bare")
    }

    fn capabilities(&self) -> AgentCapabilities {
        [capability::RUN, capability::EVENTS].into_iter().collect()
    }

    fn run(&self, _: AgentRunRequest) -> BoxFuture<'_, Result<AgentRunHandle, AgentError>> {
        self.called()
    }

    fn run_control(
        &self,
        _: AgentRunRequest,
    ) -> BoxFuture<'_, Result<AgentRunControl, AgentError>> {
        self.called()
    }

    fn mcp_list(&self, _: McpListRequest) -> BoxFuture<'_, Result<McpCommandOutput, AgentError>> {
        self.called()
    }
}

fn kind(id: &str) -> AgentKind {
    AgentKind::new(id).unwrap()
}

fn add() -> McpAddRequest {
    McpAddRequest {
        name: "n".into(),
        transport: McpAddTransport::Url { url: "http://h".into(), bearer_token_env_var: None },
        context: Default::default(),
    }
}

/// Every operation but `run`, with what it needs.
async fn everything(gateway: &AgentGateway, kind: &AgentKind) -> Vec<(AgentError, &'static str)> {
    let request = AgentRunRequest::new("x");
    vec![
        (gateway.run_control(kind, request).await.unwrap_err(), "agent_api.control.cancel.v1"),
        (
            gateway.mcp_list(kind, McpListRequest::default()).await.unwrap_err(),
            "agent_api.tools.mcp.list.v1",
        ),
        (
            gateway.mcp_get(kind, McpGetRequest::default()).await.unwrap_err(),
            "agent_api.tools.mcp.get.v1",
        ),
        (gateway.mcp_add(kind, add()).await.unwrap_err(), "agent_api.tools.mcp.add.v1"),
        (
            gateway.mcp_remove(kind, McpRemoveRequest::default()).await.unwrap_err(),
            "agent_api.tools.mcp.remove.v1",
        ),
    ]
}

// T02
#[tokio::test]
async fn the_first_backend_of_a_kind_stays() {
    let mut gateway = AgentGateway::new();
    let first = Bare::default();
    *first.said.lock().unwrap() = "first";
    gateway.register(Arc::new(first)).unwrap();
    let refused = gateway.register(Arc::new(Bare::default())).unwrap_err();
    assert!(matches!(refused, AgentError::InvalidRequest { .. }));
    let answer = gateway.run(&kind("bare"), AgentRunRequest::new("x")).await.unwrap_err();
    assert_eq!(answer.to_string(), "first");
}

// T03
#[tokio::test]
async fn an_unknown_kind_is_named() {
    let gateway = AgentGateway::new();
    let unknown = AgentError::UnknownBackend { agent_kind: kind("nobody") };
    let run = gateway.run(&kind("nobody"), AgentRunRequest::new("x")).await;
    assert_eq!(run.unwrap_err(), unknown);
    for (error, _) in everything(&gateway, &kind("nobody")).await {
        assert_eq!(error, unknown);
    }
    assert!(gateway.backend(&kind("nobody")).is_none());
}

// T04
#[tokio::test]
async fn what_is_not_advertised_does_not_reach_the_backend() {
    let bare = Bare::default();
    let calls = Arc::clone(&bare.calls);
    let mut gateway = AgentGateway::new();
    gateway.register(Arc::new(bare)).unwrap();
    for (error, id) in everything(&gateway, &kind("bare")).await {
        let agent_kind = kind("bare");
        assert_eq!(error, AgentError::UnsupportedCapability { agent_kind, capability: id.into() });
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

// T04
#[tokio::test]
async fn operations_that_a_backend_does_not_know_refuse_by_themselves() {
    let bare = Bare::default();
    let refused = bare.mcp_get(McpGetRequest::default()).await.unwrap_err();
    assert!(matches!(refused, AgentError::UnsupportedCapability { capability, .. }
        if capability == "agent_api.tools.mcp.get.v1"));
}

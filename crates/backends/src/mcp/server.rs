//! One server: connected when it is needed, connected again when it died, left alone for a while when it cannot be.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use callboard_agents::ToolFault;
use callboard_core::backoff;
use callboard_protocol::{Tenant, Timestamp};

use super::session::Session;
use super::{McpError, McpServer, McpSurroundings, McpWay, connect};

/// Some servers download themselves when they are first started.
const START_WITHIN: Duration = Duration::from_secs(30);
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Server {
    pub(super) settings: McpServer,
    surroundings: McpSurroundings,
    state: Mutex<State>,
    /// One attempt to connect at a time; other callers wait for it.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    session: Option<Arc<Session>>,
    failed: Option<Failed>,
}

/// The last attempt, as long as it was of no use.
#[derive(Debug, Clone)]
struct Failed {
    error: McpError,
    times: u32,
    again_at: Timestamp,
}

impl Server {
    /// Whether a tenant's requests may go to this server, as the tenant's lists say.
    pub(super) fn admit(&self, tenant: &Tenant) -> Result<(), ToolFault> {
        let McpWay::Url { url, .. } = &self.settings.way else { return Ok(()) };
        let admitted = self.surroundings.egress.admit_of(tenant, url);
        admitted.map_err(|error| ToolFault::Refused(error.to_string()))
    }

    pub(super) fn new(settings: McpServer, surroundings: McpSurroundings) -> Self {
        let (state, connecting) = Default::default();
        Self { settings, surroundings, state, connecting }
    }

    /// The connection as it is, if it lives.
    pub(super) fn current(&self) -> Option<Arc<Session>> {
        self.state().session.clone().filter(|session| session.is_alive())
    }

    pub(super) fn is_there(&self) -> bool {
        self.current().is_some()
    }

    /// A living connection, made now if there is none.
    pub(super) async fn session(self: &Arc<Self>) -> Result<Arc<Session>, McpError> {
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let _alone = self.connecting.lock().await;
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let before = self.state().failed.clone();
        if let Some(failed) = &before
            && failed.again_at > self.surroundings.clock.now()
        {
            return Err(failed.error.clone());
        }
        let connecting = connect::connect(&self.settings, &self.surroundings, Arc::downgrade(self));
        let connected = tokio::time::timeout(START_WITHIN, connecting)
            .await
            .unwrap_or_else(|_| Err(McpError("it did not answer in time".to_owned())));
        match connected {
            Ok(session) => {
                let session = Arc::new(session);
                *self.state() = State { session: Some(Arc::clone(&session)), failed: None };
                Ok(session)
            }
            Err(error) => {
                self.give_up(error.clone(), before.map_or(0, |failed| failed.times));
                Err(error)
            }
        }
    }

    fn give_up(&self, error: McpError, times: u32) {
        tracing::warn!(server = self.settings.name, %error, "MCP server not connected");
        let again_at =
            self.surroundings.clock.now().plus(backoff(SHORTEST_WAIT, LONGEST_WAIT, times));
        let failed = Some(Failed { error, times: times.saturating_add(1), again_at });
        *self.state() = State { session: None, failed };
    }

    pub(super) async fn close(&self) {
        let _alone = self.connecting.lock().await;
        let session = std::mem::take(&mut *self.state()).session;
        if let Some(session) = session {
            session.close().await;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

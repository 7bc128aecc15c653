//! Making heartbeats, pausing them, taking them away.

use callboard_protocol::{HeartbeatId, Owner, RosterId, WorkflowId};

use super::heartbeat::{Heartbeat, HeartbeatState, Probe};
use super::heartbeat_loop::{HeartbeatLoop, MIN_INTERVAL};
use crate::fire::Fire;
use crate::schedules::BookError;
use crate::store::{KeyMode, Scope, StoreError};

/// An observation moves a heartbeat twice; more moves than this have another cause.
const MOST_TRIES: usize = 4;

/// A heartbeat to be made.
#[derive(Debug, Clone)]
pub struct NewHeartbeat {
    pub id: HeartbeatId,
    pub owner: Owner,
    pub mode: KeyMode,
    pub workflow: WorkflowId,
    pub roster_id: Option<RosterId>,
    pub probe: Probe,
    /// Below the least that the host offers, it counts as that.
    pub interval_sec: u64,
    pub enabled: bool,
}

impl HeartbeatLoop {
    /// Makes a heartbeat. Once this returns, it is on disk; its first look only notes what is there.
    pub async fn add(&self, new: NewHeartbeat) -> Result<Heartbeat, BookError> {
        let engine = &self.inner.engine;
        let place = Scope::of_owner(&new.owner, new.mode);
        if engine.catalog().find(&place, &new.workflow).await?.is_none() {
            return Err(BookError::UnknownWorkflow(new.workflow));
        }
        if let Some(member) = &new.roster_id {
            let workflow = &new.workflow;
            let source = callboard_protocol::TriggerSource::Heartbeat;
            match engine.member_for_fire(&place, Some(member), workflow, source, None).await? {
                // Who is paused can be given work for later.
                Fire::For(_) | Fire::Unowned | Fire::Paused => {}
                refused @ (Fire::NoSuchMember | Fire::NotInPortfolio) => {
                    return Err(BookError::NotTheirs(refused.refusal().unwrap_or_default()));
                }
            }
        }
        let now = engine.clock().now();
        let heartbeat = Heartbeat {
            id: new.id,
            place,
            workflow: new.workflow,
            roster_id: new.roster_id,
            version: 1,
            wake_at: new.enabled.then_some(now),
            state: HeartbeatState {
                probe: new.probe,
                interval_sec: new.interval_sec.max(MIN_INTERVAL.as_secs()),
                enabled: new.enabled,
                principal: new.owner.principal,
                created_at: now,
                observed: None,
                last: None,
                changed_at: None,
                last_run: None,
            },
        };
        self.inner.heartbeats.add_heartbeat(heartbeat.clone()).await?;
        self.wake();
        Ok(heartbeat)
    }

    /// Pauses a heartbeat or lets it go on. What has changed meanwhile is seen as one change.
    pub async fn enable(
        &self,
        scope: &Scope,
        id: &HeartbeatId,
        enabled: bool,
    ) -> Result<Heartbeat, BookError> {
        for _ in 1..MOST_TRIES {
            match self.try_enable(scope, id, enabled).await {
                // A look has moved it on meanwhile, and will not do so again at once.
                Err(BookError::Store(StoreError::Moved { .. })) => {}
                settled => return settled,
            }
        }
        self.try_enable(scope, id, enabled).await
    }

    async fn try_enable(
        &self,
        scope: &Scope,
        id: &HeartbeatId,
        enabled: bool,
    ) -> Result<Heartbeat, BookError> {
        let mut heartbeat = self.find(scope, id).await?.ok_or(BookError::Unknown)?;
        heartbeat.state.enabled = enabled;
        heartbeat.wake_at = enabled.then(|| self.inner.engine.clock().now());
        self.inner.heartbeats.advance_heartbeat(heartbeat.clone(), None).await?;
        heartbeat.version += 1;
        self.wake();
        Ok(heartbeat)
    }

    pub async fn find(
        &self,
        scope: &Scope,
        id: &HeartbeatId,
    ) -> Result<Option<Heartbeat>, StoreError> {
        self.inner.heartbeats.heartbeat(scope, id).await
    }

    pub async fn list(&self, scope: &Scope) -> Result<Vec<Heartbeat>, StoreError> {
        self.inner.heartbeats.heartbeats(scope).await
    }

    /// Answers whether there was one.
    pub async fn remove(&self, scope: &Scope, id: &HeartbeatId) -> Result<bool, StoreError> {
        self.inner.heartbeats.remove_heartbeat(scope, id).await
    }
}

//! What goes on without the key that made it: found, and stopped.

use std::collections::BTreeSet;

use callboard_engine::{
    BookError, Made, ScheduleChange, ScheduleFilter, Scope, StoreError, TriggerError,
};
use callboard_protocol::{
    HeartbeatId, KeyId, Principal, RosterId, ScheduleId, SubscriptionState, WebhookId,
};
use serde::Serialize;

use super::{heartbeats, roster, schedules, triggers};
use crate::app::Host;
use crate::keys::Known;
use crate::problem::Problem;

/// How many schedules are read at a time.
const PAGE: usize = 200;

/// What a key made, and what the keys that it made have made, as far as it still does something.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GoesOn {
    keys: Vec<KeyId>,
    schedules: Vec<ScheduleId>,
    triggers: Vec<String>,
    heartbeats: Vec<HeartbeatId>,
    webhooks: Vec<WebhookId>,
    members: Vec<RosterId>,
}

impl GoesOn {
    /// Everything that this key or one below it made lives where the key does.
    pub(super) async fn of(host: &Host, known: &Known) -> Result<Self, Problem> {
        let scope = host.app.keys.scope_of(&known.key);
        let below = below(host, &known.key.id);
        let all = || below.iter().chain([known]);
        let makers: BTreeSet<KeyId> = all().map(|known| known.key.id.clone()).collect();
        let principals: BTreeSet<Principal> = all().map(Known::principal).collect();
        let is_made = |by: Option<&Principal>| by.is_some_and(|by| principals.contains(by));
        let mut found = Self::default();
        let counts = below.iter().filter(|known| known.key.revoked_at.is_none());
        found.keys = counts.map(|known| known.key.id.clone()).collect();
        for schedule in all_schedules(host, &scope).await? {
            if schedule.state.enabled && is_made(schedule.state.principal.as_ref()) {
                found.schedules.push(schedule.id);
            }
        }
        for trigger in host.app.triggers.list(&scope).await? {
            if trigger.state == SubscriptionState::Active
                && is_made(trigger.body.principal.as_ref())
            {
                found.triggers.push(trigger.id);
            }
        }
        for heartbeat in host.app.heartbeats.list(&scope).await? {
            if heartbeat.state.enabled && is_made(heartbeat.state.principal.as_ref()) {
                found.heartbeats.push(heartbeat.id);
            }
        }
        found.add_noted(host, &scope, &makers).await?;
        Ok(found)
    }

    async fn add_noted(
        &mut self,
        host: &Host,
        scope: &Scope,
        makers: &BTreeSet<KeyId>,
    ) -> Result<(), StoreError> {
        let mut noted = BTreeSet::new();
        for maker in makers {
            noted.extend(host.app.keys.noted_of(scope, maker).await?);
        }
        for webhook in host.app.deliveries.list(scope).await? {
            if noted.contains(&Made::Webhook(webhook.id.clone())) {
                self.webhooks.push(webhook.id);
            }
        }
        for member in host.app.engine.roster().members(scope).await? {
            let id = member.entry.roster_id;
            if member.entry.enabled && noted.contains(&Made::Member(id.clone())) {
                self.members.push(id);
            }
        }
        Ok(())
    }

    /// Revokes the keys, removes the webhooks, which know no pause, and pauses the rest. What somebody else has removed
    /// meanwhile is stopped, too.
    pub(super) async fn stop(self, host: &Host, known: &Known) -> Result<(), Problem> {
        let scope = host.app.keys.scope_of(&known.key);
        for id in &self.keys {
            if let Some(below) = host.app.keys.by_id(id) {
                host.app.keys.revoke(&below.key, host.now()).await?;
            }
        }
        for id in &self.webhooks {
            host.app.deliveries.remove(&scope, id).await?;
        }
        let off = ScheduleChange { enabled: Some(false), ..ScheduleChange::default() };
        for id in &self.schedules {
            match host.app.scheduler.change(&scope, id, off.clone()).await {
                Ok(_) | Err(BookError::Unknown) => {}
                Err(error) => return Err(schedules::problem(error)),
            }
        }
        for id in &self.heartbeats {
            match host.app.heartbeats.enable(&scope, id, false).await {
                Ok(_) | Err(BookError::Unknown) => {}
                Err(error) => return Err(heartbeats::unfit(error)),
            }
        }
        for id in &self.triggers {
            match host.app.triggers.set_state(&scope, id, SubscriptionState::Paused).await {
                Ok(_) | Err(TriggerError::Unknown | TriggerError::GivenUp) => {}
                Err(error) => return Err(triggers::problem(error)),
            }
        }
        for id in &self.members {
            roster::pause(host, &scope, id).await?;
        }
        Ok(())
    }
}

/// The keys that a key made, and those that they made, an operator's in other tenants included.
fn below(host: &Host, root: &KeyId) -> Vec<Known> {
    let all = host.app.keys.everywhere();
    let mut makers = BTreeSet::from([root.clone()]);
    let mut below = Vec::new();
    loop {
        let is_new = |known: &&Known| {
            let made_by = known.key.made_by.as_ref();
            made_by.is_some_and(|maker| makers.contains(maker)) && !makers.contains(&known.key.id)
        };
        let found: Vec<Known> = all.iter().filter(is_new).cloned().collect();
        if found.is_empty() {
            return below;
        }
        makers.extend(found.iter().map(|known| known.key.id.clone()));
        below.extend(found);
    }
}

async fn all_schedules(
    host: &Host,
    scope: &Scope,
) -> Result<Vec<callboard_engine::Schedule>, StoreError> {
    let mut all = Vec::new();
    let mut filter = ScheduleFilter { limit: PAGE, ..ScheduleFilter::default() };
    loop {
        let page = host.app.scheduler.list(scope, &filter).await?;
        filter.after = page.last().map(|last| last.id.clone());
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

//! Decides for whom a trigger fires, at the moment when it fires.
//!
//! Schedules and the trigger bridge ask [`Engine::member_for_fire`] on every fire, never once in advance: a member
//! that was paused a second ago must not start anything. The answer says what to do:
//!
//! - [`Fire::For`]: order the run with `acting: Some(…)`; it is attributed, and its agent acts as the member.
//! - [`Fire::Unowned`]: order the run with `acting: None`; nobody on the roster answers for the workflow.
//! - [`Fire::Paused`], [`Fire::NoSuchMember`], [`Fire::NotInPortfolio`]: order nothing. A schedule passes over
//!   the tick; a delivery is kept as refused, with the answer's own words as its reason.
//!
//! What is ordered becomes a run through [`Engine::prepare`], whose answer is written in the transaction that
//! settles the tick or the delivery.

use callboard_protocol::{
    AgentRosterEntry, RosterId, RosterRunInitiated, TriggerSource, WorkflowId,
};

use crate::engine::Engine;
use crate::store::{Scope, StoreError};

/// For whom a run is ordered, and what fired it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acting {
    pub member: AgentRosterEntry,
    pub source: TriggerSource,
    /// The subscription of a fire that came over the trigger bridge.
    pub subscription: Option<String>,
}

/// What a fire comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fire {
    For(Box<Acting>),
    /// No member owns the workflow, and none of its nodes names one.
    Unowned,
    /// Every member that could answer for it is paused.
    Paused,
    /// The member that the trigger names is not on the roster any more.
    NoSuchMember,
    /// The member that the trigger names does not own the workflow.
    NotInPortfolio,
}

impl Acting {
    /// A caller asked for the run; no trigger did.
    pub fn by_hand(member: AgentRosterEntry) -> Self {
        Self { member, source: TriggerSource::Manual, subscription: None }
    }

    /// What the run's log will say.
    pub(crate) fn attribution(&self, workflow: &WorkflowId) -> RosterRunInitiated {
        RosterRunInitiated {
            roster_id: self.member.roster_id.clone(),
            persona: self.member.persona.clone(),
            agent_id: self.member.agent_ref.agent_id.to_string(),
            workflow_id: workflow.clone(),
            trigger_source: self.source.as_str().to_owned(),
            trigger_subscription_id: self.subscription.clone(),
        }
    }
}

impl Fire {
    /// Why nothing is ordered; none where something is.
    pub fn refusal(&self) -> Option<&'static str> {
        match self {
            Self::For(_) | Self::Unowned => None,
            Self::Paused => Some("every member that could answer for it is paused"),
            Self::NoSuchMember => Some("the member is not on the roster"),
            Self::NotInPortfolio => Some("the member does not own the workflow"),
        }
    }
}

impl Engine {
    /// For whom a trigger fires a workflow now: the member that it names, or else the enabled owner that was
    /// hired first. `place` is where the trigger belongs.
    pub async fn member_for_fire(
        &self,
        place: &Scope,
        wanted: Option<&RosterId>,
        workflow: &WorkflowId,
        source: TriggerSource,
        subscription: Option<String>,
    ) -> Result<Fire, StoreError> {
        let roster = &self.inner.roster;
        let candidates = match wanted {
            Some(id) => match roster.member(place, id).await? {
                None => return Ok(Fire::NoSuchMember),
                Some(member) if !member.entry.owns(workflow) => return Ok(Fire::NotInPortfolio),
                Some(member) => vec![member],
            },
            None => roster.owners_of(place, workflow).await?,
        };
        if candidates.is_empty() {
            return self.named_for_fire(place, workflow, source, subscription).await;
        }
        let mut entries = candidates.into_iter().map(|candidate| candidate.entry);
        Ok(entries.find(|entry| entry.enabled).map_or(Fire::Paused, |member| {
            Fire::For(Box::new(Acting { member, source, subscription }))
        }))
    }

    /// For whom a trigger fires a workflow that nobody owns: for the member that its nodes name first. What would
    /// set somebody to work who is paused fires nothing.
    async fn named_for_fire(
        &self,
        place: &Scope,
        workflow: &WorkflowId,
        source: TriggerSource,
        subscription: Option<String>,
    ) -> Result<Fire, StoreError> {
        let entry = self.catalog().find(place, workflow).await?;
        let plan = entry.map(|entry| entry.plan);
        let of_nodes = plan.iter().flat_map(|plan| plan.agents());
        let of_nodes = of_nodes.map(|(_, agent)| agent.agent_id.as_str());
        let required = plan.iter().filter_map(|plan| plan.required_agent()).map(|(_, id)| id);
        let mut first = None;
        for id in of_nodes.chain(required).filter(|id| RosterId::is_meant_by(id)) {
            // One that is not on the roster is refused where the run is cast.
            let found = self.inner.roster.member(place, &RosterId::from(id)).await?;
            match found.map(|found| found.entry) {
                Some(member) if !member.enabled => return Ok(Fire::Paused),
                found => first = first.or(found),
            }
        }
        Ok(first.map_or(Fire::Unowned, |member| {
            Fire::For(Box::new(Acting { member, source, subscription }))
        }))
    }
}

//! A run's questions on their way to the address that was left with the run.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use callboard_core::{Birth, Entry, InterruptView, Run};
use callboard_protocol::{
    Dialect, Event, EventId, InterruptKind, NodeId, Object, RunId, Timestamp, WorkflowId,
};

use super::circuit::Circuit;
use super::delivery::{Delivery, TAKEN, YES};
use super::delivery_loop::DeliveryLoop;
use super::filter::EventFilter;
use super::parcel::enclose;
use super::webhook::{Care, Secret, Webhook};
use crate::deliver::Parcel;
use crate::engine::EngineError;
use crate::logs::LogPosition;
use crate::records::{Key, Kind, RecordChange};
use crate::store::{Realm, Recorded, Scope, StoreError};

/// What signs callbacks, and the tokens in them.
#[async_trait]
pub trait SignCallbacks: fmt::Debug + Send + Sync {
    /// A token that answers this one question for as long as tokens live, in the scheme of the run's major.
    async fn token(
        &self,
        realm: &Realm,
        run: &RunId,
        question: &InterruptView,
        said: (Timestamp, Dialect),
    ) -> Result<String, StoreError>;

    /// What the callbacks of runs of one place are signed with.
    async fn secret(&self, place: &Scope) -> Result<Secret, StoreError>;

    /// An event in the words of the protocol's second major, for a webhook that was registered under it.
    async fn project(
        &self,
        webhook: &Webhook,
        event: &Recorded,
    ) -> Result<Option<TranslatedEvent>, ProjectError>;

    /// The body of a callback in those words, for a run that was made through it.
    fn project_callback(&self, place: &Scope, body: Value) -> Value;
}

/// An event as the second major tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct TranslatedEvent {
    pub webhook_id: String,
    pub run_id: String,
    pub kind: String,
    /// The document.
    pub event: Value,
}

/// Why an event is not told.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The second major has no words or no seat for it, today and ever.
    #[error("payload_unprojectable")]
    Unprojectable,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A question to be brought to its run's own address: the body of a record that is there until it is settled. It is a
/// webhook for itself, so that nothing that happens to one question holds up another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Callback {
    pub run: RunId,
    /// The event that asks.
    pub sequence: u64,
    pub url: String,
    pub asked_at: Timestamp,
    /// Attempts that were settled.
    #[serde(default)]
    pub(super) attempts: u32,
    #[serde(default)]
    pub(super) circuit: Circuit,
    /// How often it was taken.
    #[serde(default)]
    pub(super) epoch: u64,
    /// Whether the last one who did has not settled it: then it is due when the lease ends.
    #[serde(default)]
    pub(super) is_taken: bool,
    /// Until when it is theirs, by the clock that only counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lease_until: Option<Timestamp>,
}

impl Callback {
    pub fn new(run: RunId, sequence: u64, url: String, asked_at: Timestamp) -> Self {
        let circuit = Circuit::default();
        Self {
            run,
            sequence,
            url,
            asked_at,
            attempts: 0,
            circuit,
            epoch: 0,
            is_taken: false,
            lease_until: None,
        }
    }

    /// As it is written with the append that asks. The run stays until it is settled.
    pub fn change(&self, place: &Scope) -> Result<RecordChange, StoreError> {
        self.put(place, self.asked_at)
    }

    pub(super) fn put(&self, place: &Scope, due_at: Timestamp) -> Result<RecordChange, StoreError> {
        let key = Key::of([self.id().as_str()]);
        let put = RecordChange::put(Kind::Callback, key, place.clone(), self)?;
        let put = put.due(Some(due_at)).retaining_run(&self.run);
        Ok(if self.is_taken { put.indexed(TAKEN, YES) } else { put })
    }

    fn id(&self) -> String {
        format!("cb_{}", EventId::of(&self.run, self.sequence))
    }

    pub(super) fn webhook(self, place: &Scope) -> Webhook {
        Webhook {
            id: self.id().into(),
            scope: place.clone(),
            url: self.url,
            events: EventFilter::none(),
            tags: Vec::new(),
            care: Care::Durable,
            fingerprint: String::new(),
            created_at: self.asked_at,
            since: LogPosition::default(),
            circuit: self.circuit,
            dialect: Dialect::V1,
        }
    }
}

/// The callbacks that these entries of a run ask for. A replay calls nobody.
pub(crate) fn callbacks(birth: &Birth, entries: &[Entry]) -> Result<Vec<RecordChange>, StoreError> {
    let url = birth.callback_url.as_ref().filter(|_| !birth.is_replay());
    let Some(url) = url else { return Ok(Vec::new()) };
    let place = Scope::of(birth);
    let asks = entries.iter().filter(
        |entry| matches!(&entry.event, Event::InterruptRequested(asked) if asked.kind.is_asked()),
    );
    let callback = |entry: &Entry| {
        Callback::new(birth.run_id.clone(), entry.sequence, url.clone(), entry.at).change(&place)
    };
    asks.map(callback).collect()
}

/// The key of the interrupt, which is its id.
#[derive(Deserialize)]
struct Asked {
    key: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    r#type: &'a str,
    /// The same in every attempt.
    event_id: EventId,
    run_id: &'a RunId,
    workflow_id: &'a WorkflowId,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<&'a RunId>,
    workspace_id: &'a str,
    node_id: NodeId,
    interrupt_id: String,
    kind: InterruptKind,
    data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_schema: Option<Object>,
    requested_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    requires_auth: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<Way>,
}

/// Where an answer goes, as the run's snapshot shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Way {
    callback_url: String,
    interrupt_token: String,
}

impl DeliveryLoop {
    /// The question as it stands now, with a token of its own; none if it is settled.
    pub(super) async fn pack_callback(
        &self,
        delivery: &Delivery,
        at: Timestamp,
    ) -> Result<Option<Parcel>, String> {
        let event = &delivery.event;
        let unreadable = "the question cannot be read";
        let asked: Asked =
            serde_json::from_str(&event.payload).map_err(|_| unreadable.to_owned())?;
        let run = match self.engine().open_visible(&delivery.webhook.scope, &event.run).await {
            Err(EngineError::UnknownRun(_)) => return Ok(None),
            run => run.map_err(|_| unreadable.to_owned())?,
        };
        let Some(question) = run.interrupts().find(|open| open.id == asked.key) else {
            return Ok(None);
        };
        let unsigned = |_| "the question cannot be signed".to_owned();
        let (signer, place) = (self.signer(), Scope::of(run.birth()));
        // Where a token is not enough to answer, none is handed out.
        let token = if question.requires_auth {
            None
        } else {
            let said = (at, run.birth().born().dialect());
            let signed = signer.token(&place.realm(), run.id(), &question, said).await;
            Some(signed.map_err(unsigned)?)
        };
        let secret = signer.secret(&place).await.map_err(unsigned)?;
        let body = serde_json::to_value(body(delivery, &run, question, token));
        let body = body.map_err(|_| unreadable.to_owned())?;
        let body = match run.birth().born().dialect() {
            Dialect::V1 => body,
            Dialect::V2 => signer.project_callback(&place, body),
        };
        enclose(delivery.names(), &secret, body.to_string(), at).map(Some)
    }
}

fn body<'a>(
    delivery: &'a Delivery,
    run: &'a Run,
    question: InterruptView,
    token: Option<String>,
) -> Body<'a> {
    let (event, birth) = (&delivery.event, run.birth());
    let workspace = delivery.workspace.as_ref().map(|workspace| workspace.as_str());
    let interrupt = token.map(|token| Way {
        callback_url: format!("/v1/interrupts/{token}"),
        interrupt_token: token,
    });
    Body {
        r#type: &event.kind,
        event_id: EventId::of(&event.run, event.sequence),
        run_id: &event.run,
        workflow_id: &birth.workflow_id,
        parent_run_id: birth.parent.as_ref().map(|parent| &parent.run_id),
        workspace_id: workspace.unwrap_or(delivery.tenant.as_str()),
        node_id: question.node.clone(),
        interrupt_id: question.id.clone(),
        kind: question.kind,
        resume_schema: question.resume_schema.clone(),
        requested_at: question.requested_at,
        expires_at: question.expires_at,
        requires_auth: question.requires_auth,
        data: question.into_protocol_data(),
        interrupt,
    }
}

//! Birth records and events: masked for readers, sealed where that hides something, opened for the fold.

use std::fmt;
use std::sync::Arc;

use callboard_core::{Birth, Cause, Entry, Head};
use callboard_engine::{Append, Lease, NewRun, Outcome, StoreError};
use callboard_protocol::{Event, NodeId, Object, RunId, Timestamp};

use super::unreadable;
use crate::seal::Seal;

/// A new run as it goes to the disk.
pub(crate) struct SealedRun {
    pub(crate) birth: Birth,
    /// The birth record as JSON, with the inputs masked where a mask was given.
    pub(crate) record: String,
    pub(crate) sealed_inputs: Option<Vec<u8>>,
    /// The delivered content; the record itself only says that there was a delivery.
    pub(crate) sealed_delivery: Option<Vec<u8>>,
    pub(crate) definition: Arc<str>,
    pub(crate) head: Head,
    pub(crate) lease: Option<Lease>,
    pub(crate) exclusive: bool,
    pub(crate) outcome: Option<Outcome>,
}

/// Where a birth record's inputs stand, for their seal.
fn inputs_place(run: &RunId) -> String {
    format!("{run}/inputs")
}

/// Where the content of the delivery that started a run stands, for its seal.
fn delivery_place(run: &RunId) -> String {
    format!("{run}/delivery")
}

/// Where an event's private payload stands, for its seal.
fn event_place(run: &RunId, sequence: u64) -> String {
    format!("{run}/{sequence}")
}

impl SealedRun {
    pub(crate) fn seal(new: NewRun, seal: &Seal) -> Result<Self, StoreError> {
        let NewRun { mut birth, masked_inputs, definition, head, lease, exclusive, outcome } = new;
        let run = birth.run_id.clone();
        let unwritable = |why: &dyn fmt::Display| {
            StoreError::Unavailable(format!("the birth record of {run} cannot be written: {why}"))
        };
        let hide = |place: String, content: &Object| {
            let text = serde_json::to_string(content).map_err(|error| unwritable(&error))?;
            seal.seal(&place, &text).map_err(|error| unwritable(&error))
        };
        let mut sealed_inputs = None;
        if let Some(masked) = masked_inputs {
            let inputs = std::mem::replace(&mut birth.inputs, masked);
            sealed_inputs = Some(hide(inputs_place(&run), &inputs)?);
        }
        let mut sealed_delivery = None;
        if let Some(delivery) = &mut birth.delivery {
            let content = std::mem::take(&mut delivery.event);
            sealed_delivery = Some(hide(delivery_place(&run), &content)?);
        }
        let record = serde_json::to_string(&birth).map_err(|error| unwritable(&error))?;
        Ok(Self {
            birth,
            record,
            sealed_inputs,
            sealed_delivery,
            definition,
            head,
            lease,
            exclusive,
            outcome,
        })
    }
}

/// A birth record as it is stored.
pub(crate) struct SealedBirth {
    pub(crate) record: String,
    pub(crate) inputs: Option<Vec<u8>>,
    pub(crate) delivery: Option<Vec<u8>>,
}

pub(crate) fn open_birth(
    seal: &Seal,
    run: &RunId,
    sealed: &SealedBirth,
) -> Result<Birth, StoreError> {
    let unopened =
        |error: &dyn fmt::Display| unreadable(format!("the birth record of {run}"), error);
    let mut birth: Birth =
        serde_json::from_str(&sealed.record).map_err(|error| unopened(&error))?;
    if let Some(inputs) = &sealed.inputs {
        let inputs = seal.open(&inputs_place(run), inputs).map_err(|error| unopened(&error))?;
        birth.inputs = serde_json::from_str(&inputs).map_err(|error| unopened(&error))?;
    }
    if let (Some(delivery), Some(content)) = (&mut birth.delivery, &sealed.delivery) {
        let content = seal.open(&delivery_place(run), content).map_err(|error| unopened(&error))?;
        delivery.event = serde_json::from_str(&content).map_err(|error| unopened(&error))?;
    }
    Ok(birth)
}

/// An append as it goes to the disk.
pub(crate) struct SealedAppend {
    /// Without its children.
    pub(crate) append: Append,
    /// The private payloads of the rows, in their order.
    pub(crate) sealed: Vec<Option<Vec<u8>>>,
    pub(crate) children: Vec<SealedRun>,
}

impl SealedAppend {
    pub(crate) fn seal(mut append: Append, seal: &Seal) -> Result<Self, StoreError> {
        let children = std::mem::take(&mut append.children).into_iter();
        let children =
            children.map(|child| SealedRun::seal(child, seal)).collect::<Result<_, _>>()?;
        let sealed = append.rows.iter().zip(append.expected..).map(|(row, sequence)| {
            let Some(private) = &row.private else { return Ok(None) };
            let sealed = seal.seal(&event_place(&append.run, sequence), private);
            sealed.map(Some).map_err(|error| {
                StoreError::Unavailable(format!(
                    "event {sequence} of {} cannot be sealed: {error}",
                    append.run
                ))
            })
        });
        let sealed = sealed.collect::<Result<_, _>>()?;
        Ok(Self { append, sealed, children })
    }

    /// How many events the log holds afterwards.
    pub(crate) fn version(&self) -> u64 {
        self.append.expected + self.append.rows.len() as u64
    }
}

/// One event as it is stored.
pub(crate) struct SealedEvent<'r> {
    /// The run that recorded it, for its seal: a fork's source, where the event stands before the fork.
    pub(crate) run: &'r RunId,
    pub(crate) sequence: u64,
    pub(crate) at: Timestamp,
    pub(crate) kind: &'r str,
    pub(crate) node: Option<NodeId>,
    pub(crate) payload: &'r str,
    pub(crate) sealed: Option<&'r [u8]>,
    pub(crate) cause: Option<Cause>,
}

pub(crate) fn open_entry(seal: &Seal, event: SealedEvent<'_>) -> Result<Entry, StoreError> {
    let SealedEvent { run, sequence, at, kind, node, payload, sealed, cause } = event;
    let unopened =
        |error: &dyn fmt::Display| unreadable(format!("event {sequence} of {run}"), error);
    let payload = match sealed {
        Some(sealed) => {
            let text =
                seal.open(&event_place(run, sequence), sealed).map_err(|error| unopened(&error))?;
            serde_json::from_str(&text)
        }
        None => serde_json::from_str(payload),
    };
    let payload = payload.map_err(|error| unopened(&error))?;
    Ok(Entry { sequence, at, event: Event::read(kind, node, payload), cause })
}

/// Marks a cause that is an event of the same log.
const OF_THE_LOG: char = '#';

pub(crate) fn cause_text(cause: &Cause) -> String {
    match cause {
        Cause::Event(sequence) => format!("{OF_THE_LOG}{sequence}"),
        Cause::Outside(id) => id.clone(),
    }
}

pub(crate) fn cause_of(text: String) -> Cause {
    let sequence = text.strip_prefix(OF_THE_LOG).and_then(|number| number.parse().ok());
    sequence.map_or(Cause::Outside(text), Cause::Event)
}

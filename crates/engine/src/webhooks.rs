//! Webhooks: which events each receives, and the loop that delivers them.
//!
//! The loop is one more reader of the log. It turns events after a stored cursor into deliveries, in one transaction
//! with the cursor, and sends what is due. A hint makes it quick; the records make it right. What a run asks goes to
//! the address that was left with the run in the same way; its callback is written with the append that asks.

mod callback;
mod circuit;
mod delivery;
mod delivery_loop;
mod fate;
mod filter;
mod letters;
mod parcel;
mod plan;
mod records;
mod send;
mod take;
mod webhook;

pub(crate) use callback::callbacks;
pub use callback::{Callback, ProjectError, SignCallbacks, TranslatedEvent};
pub use circuit::Circuit;
pub use delivery::{
    DeadLetter, Delivery, Fate, Others, Plan, Planned, Settlement, TakeRequest, Taken, Unplanned,
};
pub use delivery_loop::{DeliveryLoop, Registration, RegistrationError};
pub use fate::RetryPace;
pub use filter::{EventFilter, UnknownPattern};
pub use letters::{Letters, MOST_LETTERS, PendingDelivery, Resent};
pub use parcel::judge_delivery;
pub use records::Webhooks;
pub use webhook::{Care, Secret, Webhook};

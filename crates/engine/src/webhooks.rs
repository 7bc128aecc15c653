//! Webhooks: who wants to hear of which events, and the courier that brings them.
//!
//! The courier is one more reader of the log. It turns events after a stored cursor into delivery rows, in one
//! transaction with the cursor, and sends what is due. A hint makes it quick; the rows make it right. What a run asks
//! goes to the address that was left with the run in the same way; its rows are made in the append that asks.

mod callback;
mod circuit;
mod courier;
mod fate;
mod filter;
mod parcel;
mod plan;
mod port;
mod send;

pub(crate) use callback::callbacks;
pub use callback::{Callback, SignCallbacks};
pub use circuit::Circuit;
pub use courier::{Courier, Registration, RegistrationError};
pub use filter::{EventFilter, UnknownPattern};
pub use port::{
    Care, DeadLetter, Delivery, Fate, LogPosition, Logged, Others, Plan, Planned, Secret,
    Settlement, TakeRequest, Taken, Unplanned, Webhook, Webhooks,
};

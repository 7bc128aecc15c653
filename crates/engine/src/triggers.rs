//! The trigger bridge: subscriptions, and what comes in over them until it is a run or is given up.
//!
//! A delivery becomes a run in the transaction that keeps it, under the subscription's key for the thing delivered.
//! What cannot be a run yet is tried again from its row; nobody has to be elected for that.

mod bridge;
mod deliver;
mod port;
mod retry;
mod signature;
mod tell;

pub use bridge::{Bridge, BridgeError, NewSubscription};
pub(crate) use deliver::dedup_key;
pub use deliver::{Delivery as TriggerDelivery, Incoming};
pub use port::{
    Arrival, ArrivalState, DeadReason, DueArrivals, Kept, Settled, SigningSecret, SigningSecrets,
    Subscription, SubscriptionBody, Triggers, Verification,
};
pub use signature::{SignatureError, Signed};

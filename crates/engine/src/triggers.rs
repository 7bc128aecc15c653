//! The trigger bridge: subscriptions, and what comes in over them until it is a run or is given up.
//!
//! A delivery becomes a run in the transaction that keeps it, under the subscription's key for the thing delivered.
//! What cannot be a run yet is tried again from its row; nobody has to be elected for that.

mod audit;
mod deliver;
mod delivery;
mod ingest;
mod letters;
mod records;
mod retry;
mod signature;
mod subscription;

pub(crate) use deliver::dedup_key;
pub use deliver::{Delivery as TriggerDelivery, Incoming};
pub use delivery::{DeadReason, InboundDelivery, InboundState};
pub use ingest::{NewSubscription, TriggerError, TriggerIngest};
pub use letters::MOST_DELIVERIES;
pub use records::{DueDeliveries, Keeping, Triggers, queue_changes};
pub use signature::{SignatureError, Signed};
pub use subscription::{
    SigningSecret, SigningSecrets, Subscription, SubscriptionBody, Verification,
};

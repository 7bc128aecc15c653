//! The trigger bridge: subscriptions, and what comes in over them until it is a run or is given up.
//!
//! A delivery becomes a run in the transaction that keeps it, under the subscription's key for the thing delivered.
//! What cannot be a run yet is tried again from its row; nobody has to be elected for that.

mod attachments;
mod audit;
mod deliver;
mod delivery;
mod filter;
mod ingest;
mod letters;
mod mail;
mod preset;
mod proof;
mod records;
mod retry;
mod signature;
mod subscription;

pub use attachments::Attachment;
pub(crate) use deliver::dedup_key;
pub use deliver::{Delivery as TriggerDelivery, Incoming};
pub use delivery::{DeadReason, InboundDelivery, InboundState};
pub use filter::FilteredPosts;
pub use ingest::{NewSubscription, TriggerError, TriggerIngest};
pub use letters::MOST_DELIVERIES;
pub use mail::{MOST_MAIL_BYTES, Mail, MailError};
pub use preset::{Preset, SecretFrom, Terms, TokenPlace};
pub use proof::{Fields, Post};
pub use records::{DueDeliveries, Keeping, Triggers, queue_changes};
pub use signature::SignatureError;
pub use subscription::{
    SigningSecret, SigningSecrets, Subscription, SubscriptionBody, Verification,
};

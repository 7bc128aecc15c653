//! Planning: which webhooks receive which events.

use callboard_protocol::Timestamp;

use super::delivery::{Plan, Planned};
use super::delivery_loop::DeliveryLoop;
use super::webhook::{Care, Webhook};
use crate::logs::Logged;
use crate::store::StoreError;

/// Events looked at in one transaction. More would keep other writers waiting; fewer cost more commits.
const BATCH: u64 = 256;

/// Whether there is any webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    Nobody,
    Somebody,
}

impl DeliveryLoop {
    /// Makes delivery rows for everything that nobody has planned yet.
    pub(super) async fn plan_due(&self, now: Timestamp) -> Result<Audience, StoreError> {
        loop {
            let unplanned = self.webhooks().read_unplanned(BATCH).await?;
            if unplanned.webhooks.is_empty() {
                let audience =
                    if unplanned.has_callbacks { Audience::Somebody } else { Audience::Nobody };
                return Ok(audience);
            }
            let (from, to) = (unplanned.cursor, unplanned.until);
            if from == to {
                return Ok(Audience::Somebody);
            }
            let plan = Plan {
                from,
                to,
                at: now,
                deliveries: deliveries(&unplanned.webhooks, &unplanned.events, now),
            };
            let is_last = to.0 - from.0 < BATCH;
            // A faster host has planned the same; what is left is read again.
            let is_ours = self.webhooks().plan_deliveries(plan).await?;
            if is_ours && is_last {
                return Ok(Audience::Somebody);
            }
        }
    }
}

fn deliveries(webhooks: &[Webhook], events: &[Logged], now: Timestamp) -> Vec<Planned> {
    // A replay is not news: nothing of it leaves the host.
    let news = events.iter().filter(|event| !event.is_replay);
    news.flat_map(|event| {
        let listeners =
            webhooks.iter().filter(move |webhook| is_reached(webhook, now) && webhook.wants(event));
        listeners.map(|webhook| Planned::of(&webhook.id, event))
    })
    .collect()
}

/// While a circuit is open, best-effort deliveries are skipped and durable ones wait.
fn is_reached(webhook: &Webhook, now: Timestamp) -> bool {
    webhook.care == Care::Durable || !webhook.circuit.is_open(now)
}

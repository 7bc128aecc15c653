//! Sending: attempts that are due, one at a time per webhook, each with its outcome written down.

use std::sync::atomic::Ordering;
use std::time::Duration;

use callboard_protocol::{Dialect, Timestamp};

use super::delivery::{Delivery, Fate, TakeRequest};
use super::delivery_loop::DeliveryLoop;
use super::fate::settle;
use super::parcel::{WITHIN, pack, pack_projected};
use crate::deliver::DeliverError;
use crate::store::StoreError;

/// Attempts under way in one process. Each is a connection and some kilobytes; receivers that hang hold theirs
/// for five seconds.
const MOST_SENDING: usize = 64;

/// An attempt takes five seconds at most; the rest is for writing its outcome on a slow disk.
const LEASE: Duration = Duration::from_secs(30);

/// What an attempt that did not fail came to.
enum Sent {
    Taken,
    /// A question that was settled before it could be brought, or an event whose run is gone; nobody was contacted.
    Moot,
}

/// One of the places for attempts, given back however the attempt ends.
struct Seat(DeliveryLoop);

impl Seat {
    fn take(deliveries: DeliveryLoop) -> Self {
        deliveries.sending().fetch_add(1, Ordering::Relaxed);
        Self(deliveries)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.sending().fetch_sub(1, Ordering::Relaxed);
        // The webhook is free for its next delivery, and so is a place here.
        self.0.wake();
    }
}

impl DeliveryLoop {
    /// Begins every attempt that is due; answers when something becomes due next.
    pub(super) async fn send_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let most = MOST_SENDING.saturating_sub(self.sending().load(Ordering::Relaxed));
        if most == 0 {
            return Ok(None);
        }
        let request = TakeRequest { at: now, counted: self.counted(), lease: LEASE, most };
        let taken = self.webhooks().take_deliveries(&request).await?;
        for delivery in taken.deliveries {
            let seat = Seat::take(self.clone());
            self.spawn(async move { seat.0.attempt(delivery).await });
        }
        Ok(taken.next)
    }

    async fn attempt(&self, delivery: Delivery) {
        let outcome = self.post(&delivery).await;
        let result = match &outcome {
            Ok(Sent::Taken) => "delivered",
            Ok(Sent::Moot) => "moot",
            Err(_) => "failed",
        };
        metrics::counter!("callboard_webhook_attempts_total", "outcome" => result).increment(1);
        if let Err(reason) = &outcome {
            tracing::info!(
                webhook = %delivery.webhook.id,
                secret_fingerprint = delivery.webhook.fingerprint,
                attempt = delivery.attempts + 1,
                reason,
                "webhook not delivered"
            );
        }
        let settlement = settle(&delivery, outcome.map(drop), self.now(), self.pace());
        let is_callback = delivery.secret.is_none();
        if is_callback && matches!(settlement.fate, Fate::Dead { .. }) {
            tracing::warn!(webhook = %delivery.webhook.id, "callback given up; the question stays in the inbox");
        }
        let has_just_failed =
            settlement.circuit.has_failed() && !delivery.webhook.circuit.has_failed();
        match self.webhooks().settle_delivery(&delivery, &settlement).await {
            Ok(true) if has_just_failed => {
                tracing::warn!(webhook = %delivery.webhook.id, "webhook failed too often; it gets nothing more");
            }
            Ok(true) => {}
            Ok(false) => {
                tracing::debug!(webhook = %delivery.webhook.id, "webhook removed or taken over meanwhile");
            }
            Err(error) => {
                tracing::warn!(%error, webhook = %delivery.webhook.id, "outcome of a delivery not kept; it is made again");
            }
        }
    }

    /// One attempt; a failure says why, in words that hold nothing of the address or of the answer.
    async fn post(&self, delivery: &Delivery) -> Result<Sent, String> {
        let began = self.now();
        let parcel = match &delivery.secret {
            Some(secret) if delivery.webhook.dialect == Dialect::V2 => {
                let told = self.signer().project(&delivery.webhook, &delivery.event).await;
                let Some(told) = told.map_err(|error| error.to_string())? else {
                    return Ok(Sent::Moot);
                };
                pack_projected(delivery, &told, secret, began)?
            }
            Some(secret) => pack(delivery, secret, began)?,
            None => match Box::pin(self.pack_callback(delivery, began)).await? {
                Some(parcel) => parcel,
                None => return Ok(Sent::Moot),
            },
        };
        // Losing either branch is fine: an attempt that took too long has failed, whatever its outcome.
        let answer = tokio::select! {
            answer = self.deliver().post(parcel) => answer,
            () = self.sleep_until(began.plus(WITHIN)) => {
                Err(DeliverError::NoAnswer("no answer within 5 seconds".to_owned()))
            }
        };
        match answer {
            Ok(200..=299) => Ok(Sent::Taken),
            Ok(status) => Err(format!("answered {status}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

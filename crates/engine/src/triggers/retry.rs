//! The loop that tries again what could not be a run yet.

use std::time::Duration;

use callboard_core::backoff;
use callboard_protocol::{Backoff, Timestamp};

use super::audit;
use super::deliver::Attempted;
use super::delivery::{DeadReason, InboundDelivery, InboundState};
use super::ingest::{TriggerError, TriggerIngest};
use super::subscription::Subscription;
use crate::pace::Pace;
use crate::store::{NewRun, StoreError};

/// Deliveries looked at before the next scan.
const BATCH: usize = 64;
/// The longest sleep between two looks. Hints come from this process only; other hosts keep deliveries too.
const LONGEST_SLEEP: Duration = Duration::from_secs(2);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

impl TriggerIngest {
    pub fn start(&self) {
        let this = self.clone();
        self.inner.engine.inner.tasks.spawn(async move {
            let inner = &this.inner;
            let pace = Pace { what: "deliveries", wake: &inner.wake, longest_sleep: LONGEST_SLEEP };
            inner.engine.tick_until_stopped(pace, |now| this.tick(now)).await;
        });
    }

    /// Tries again what is due; answers when something is due next.
    pub async fn tick(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let due = self.inner.triggers.due_deliveries(now, BATCH).await?;
        // What was not to be tried again has been put in order.
        let mut has_moved = due.deliveries.len() < BATCH;
        for delivery in due.deliveries {
            let id = delivery.id.clone();
            match Box::pin(self.try_again(delivery, now)).await {
                // Another host was faster, and that is as good.
                Ok(()) | Err(TriggerError::Store(StoreError::Moved { .. })) => has_moved = true,
                Err(error) => {
                    tracing::warn!(%error, delivery = id, "delivery not tried again; trying later");
                }
            }
        }
        // What cannot move would come back at once, and again.
        Ok(if due.is_full && has_moved { Some(now) } else { due.next })
    }

    async fn try_again(
        &self,
        mut delivery: InboundDelivery,
        now: Timestamp,
    ) -> Result<(), TriggerError> {
        let opened = self.inner.triggers.open_subscription(&delivery.subscription).await?;
        let Some((subscription, _)) = opened else { return Ok(()) };
        if !subscription.is_active() {
            return Ok(());
        }
        let expected = delivery.version;
        delivery.version += 1;
        if delivery.attempts >= subscription.body.retry.max_attempts {
            return self.give_up(&subscription, delivery, expected, now).await;
        }
        delivery.attempts += 1;
        let attempted = match self.attempt(&subscription, &delivery).await {
            // A definition that this build cannot read stays so: it must not keep others from their turn.
            Err(TriggerError::Store(error @ StoreError::Unreadable { .. })) => {
                Attempted::NotYet(error.to_string())
            }
            attempted => attempted?,
        };
        let why = match attempted {
            Attempted::Run(prepared) => {
                delivery.state =
                    InboundState::Delivered { run: prepared.run.id().clone(), at: now };
                // The run keeps what came in.
                delivery.event = None;
                return Ok(self.settle(delivery, expected, Some(*prepared)).await?);
            }
            Attempted::NotYet(why) => why,
            Attempted::Unfit(why) => {
                delivery.error = Some(why);
                let prepared = self.bury(&subscription, &mut delivery, now)?;
                return Ok(self.settle(delivery, expected, Some(prepared)).await?);
            }
            Attempted::Paused(why) => {
                // A pause is no failure: it waits without using up an attempt.
                delivery.attempts -= 1;
                delivery.error = Some(why.to_owned());
                delivery.state = InboundState::Waiting { due_at: now.plus(FIRST_WAIT * 30) };
                return Ok(self.settle(delivery, expected, None).await?);
            }
            Attempted::Gone => "the member is not on the roster".to_owned(),
        };
        delivery.error = Some(why);
        if delivery.attempts < subscription.body.retry.max_attempts {
            let due_at = self.next_try(&subscription, delivery.attempts);
            delivery.state = InboundState::Waiting { due_at };
            return Ok(self.settle(delivery, expected, None).await?);
        }
        self.give_up(&subscription, delivery, expected, now).await
    }

    /// Gives an delivery up, and its subscription with it, in the transaction that states both.
    async fn give_up(
        &self,
        subscription: &Subscription,
        mut delivery: InboundDelivery,
        expected: u64,
        now: Timestamp,
    ) -> Result<(), TriggerError> {
        delivery.state = InboundState::Dead { reason: DeadReason::RetriesExhausted, at: now };
        let audit = audit::given_up(subscription, &delivery);
        let prepared = self.inner.engine.prepare_audit(audit, now)?;
        tracing::warn!(subscription = subscription.id, delivery = delivery.id, "delivery given up");
        metrics::counter!("callboard_trigger_dead_letters_total").increment(1);
        let triggers = self.inner.triggers.clone();
        let write = move |record: Box<NewRun>| async move {
            triggers.give_up(&delivery, expected, *record).await
        };
        self.inner.engine.persist_and_drive(prepared, None, write).await?;
        Ok(())
    }

    /// When to try again after so many attempts.
    pub(super) fn next_try(&self, subscription: &Subscription, attempts: u32) -> Timestamp {
        let wait = match subscription.body.retry.backoff {
            Backoff::None => Duration::ZERO,
            Backoff::Fixed => FIRST_WAIT,
            Backoff::Exponential => backoff(FIRST_WAIT, LONGEST_WAIT, attempts.saturating_sub(1)),
        };
        self.now().plus(wait)
    }
}

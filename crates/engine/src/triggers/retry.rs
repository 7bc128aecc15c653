//! The loop that tries again what could not be a run yet.

use std::time::Duration;

use callboard_protocol::{Backoff, SubscriptionState, Timestamp};

use super::bridge::{Bridge, BridgeError, before};
use super::deliver::Attempted;
use super::port::{Arrival, ArrivalState, DeadReason, Subscription};
use super::tell;
use crate::pace::Pace;
use crate::store::StoreError;

/// Arrivals looked at before the next scan.
const BATCH: usize = 64;
/// The longest sleep between two looks. Hints come from this process only; other hosts keep arrivals too.
const LONGEST_SLEEP: Duration = Duration::from_secs(2);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);
/// How long what was delivered is remembered, so that it is not delivered again. The protocol asks for a day.
const DELIVERED_KEPT: Duration = Duration::from_secs(7 * 86_400);

impl Bridge {
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
        let due = self.inner.triggers.due_arrivals(now, BATCH).await?;
        let is_full = due.arrivals.len() == BATCH;
        let mut has_moved = false;
        for arrival in due.arrivals {
            let id = arrival.id.clone();
            match Box::pin(self.try_again(arrival, now)).await {
                // Another host was faster, and that is as good.
                Ok(()) | Err(BridgeError::Store(StoreError::Moved { .. })) => has_moved = true,
                Err(error) => {
                    tracing::warn!(%error, delivery = id, "delivery not tried again; trying later");
                }
            }
        }
        let dead = Duration::from_secs(u64::from(Self::RETENTION_DAYS) * 86_400);
        let (delivered, dead) = (before(now, DELIVERED_KEPT), before(now, dead));
        self.inner.triggers.forget_arrivals(delivered, dead).await?;
        // What cannot move would come back at once, and again.
        Ok(if is_full && has_moved { Some(now) } else { due.next })
    }

    async fn try_again(&self, mut arrival: Arrival, now: Timestamp) -> Result<(), BridgeError> {
        let opened = self.inner.triggers.open_subscription(&arrival.subscription).await?;
        let Some((subscription, _)) = opened else { return Ok(()) };
        if subscription.state != SubscriptionState::Active {
            return Ok(());
        }
        let expected = arrival.version;
        arrival.version += 1;
        if arrival.attempts >= subscription.body.retry.max_attempts {
            return self.give_up(&subscription, arrival, expected, now).await;
        }
        arrival.attempts += 1;
        let attempted = match self.attempt(&subscription, &arrival).await {
            // A definition that this build cannot read stays so: it must not keep others from their turn.
            Err(BridgeError::Store(error @ StoreError::Unreadable { .. })) => {
                Attempted::NotYet(error.to_string())
            }
            attempted => attempted?,
        };
        let why = match attempted {
            Attempted::Run(newborn) => {
                arrival.state = ArrivalState::Delivered { run: newborn.run.id().clone(), at: now };
                return Ok(self.settle(arrival, expected, Some(*newborn), false).await?);
            }
            Attempted::NotYet(why) => why,
            Attempted::Unfit(why) => {
                arrival.error = Some(why);
                let newborn = self.bury(&subscription, &mut arrival, now)?;
                return Ok(self.settle(arrival, expected, Some(newborn), false).await?);
            }
            Attempted::Paused(why) => {
                // A pause is no failure: it waits without using up an attempt.
                arrival.attempts -= 1;
                arrival.error = Some(why.to_owned());
                arrival.state = ArrivalState::Waiting { due_at: now.plus(FIRST_WAIT * 30) };
                return Ok(self.settle(arrival, expected, None, false).await?);
            }
            Attempted::Gone => "the member is not on the roster".to_owned(),
        };
        arrival.error = Some(why);
        if arrival.attempts < subscription.body.retry.max_attempts {
            let due_at = self.next_try(&subscription, arrival.attempts);
            arrival.state = ArrivalState::Waiting { due_at };
            return Ok(self.settle(arrival, expected, None, false).await?);
        }
        self.give_up(&subscription, arrival, expected, now).await
    }

    /// Gives an arrival up, and its subscription with it, in the transaction that tells of both.
    async fn give_up(
        &self,
        subscription: &Subscription,
        mut arrival: Arrival,
        expected: u64,
        now: Timestamp,
    ) -> Result<(), BridgeError> {
        arrival.state = ArrivalState::Dead { reason: DeadReason::RetriesExhausted, at: now };
        let telling = tell::given_up(subscription, &arrival);
        let newborn = self.inner.engine.telling(telling, now)?;
        tracing::warn!(subscription = subscription.id, delivery = arrival.id, "delivery given up");
        metrics::counter!("callboard_trigger_dead_letters_total").increment(1);
        Ok(self.settle(arrival, expected, Some(newborn), true).await?)
    }

    /// When to try again after so many attempts.
    pub(super) fn next_try(&self, subscription: &Subscription, attempts: u32) -> Timestamp {
        let wait = match subscription.body.retry.backoff {
            Backoff::None => Duration::ZERO,
            Backoff::Fixed => FIRST_WAIT,
            Backoff::Exponential => FIRST_WAIT
                .saturating_mul(1 << (attempts.saturating_sub(1)).min(20))
                .min(LONGEST_WAIT),
        };
        self.now().plus(wait)
    }
}

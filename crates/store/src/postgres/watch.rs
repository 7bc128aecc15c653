//! Runs that are being followed here and move on another host: looked at regularly, all in one statement, because a
//! hint may get lost. Now and then the clock is compared as well.

use std::sync::{Arc, Weak};
use std::time::Duration;

use callboard_engine::{Clock as _, SystemClock};

use super::{Inner, read};

/// Clocks of machines drift by a millisecond or two meanwhile.
const CLOCK_EVERY: Duration = Duration::from_secs(30);

/// Looks until the store is closed or gone.
pub(super) fn start(inner: &Arc<Inner>) {
    let store = Arc::downgrade(inner);
    let (closing, hints) = (inner.closing.clone(), Arc::clone(&inner.hints));
    let look_until_gone = async move {
        let mut compared = SystemClock.counted();
        while let Some(every) = look(&store).await {
            if SystemClock.counted().since(compared) >= CLOCK_EVERY {
                adjust_clock(&store).await;
                compared = SystemClock.counted();
            }
            // Who is told that it missed something looks at once.
            let _woken = tokio::time::timeout(every, hints.missed.notified()).await;
        }
    };
    inner.tasks.spawn(closing.run_until_cancelled_owned(look_until_gone));
}

/// Answers how soon to look again. What cannot be looked at now is looked at the next time.
async fn look(store: &Weak<Inner>) -> Option<Duration> {
    let inner = store.upgrade()?;
    let watched = inner.changes.watched();
    if !watched.is_empty()
        && let Ok(session) = inner.session().await
        && let Ok(versions) = read::versions(&session, &watched).await
    {
        for (run, version) in versions {
            inner.changes.announce(&run, version);
        }
    }
    Some(inner.polls_every())
}

/// Without the database the clock goes on by itself.
async fn adjust_clock(store: &Weak<Inner>) {
    let Some(inner) = store.upgrade() else { return };
    if let Ok(session) = inner.session().await {
        let _unanswered = inner.clock.adjust(&session).await;
    }
}

//! Runs that are being followed here and move on another host: looked at once a second, all in one statement. Now and
//! then the clock is compared as well.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Inner, read};

const EVERY: Duration = Duration::from_secs(1);
/// Clocks of machines drift by less than a millisecond meanwhile.
const LOOKS_PER_CLOCK: u32 = 10;

/// Looks until the store is closed or gone.
pub(super) fn start(inner: &Arc<Inner>) {
    let store = Arc::downgrade(inner);
    let closing = inner.closing.clone();
    let look_until_gone = async move {
        let mut looks: u32 = 0;
        while look(&store).await.is_some() {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS_PER_CLOCK) {
                adjust_clock(&store).await;
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    inner.tasks.spawn(closing.run_until_cancelled_owned(look_until_gone));
}

/// What cannot be looked at now is looked at the next time.
async fn look(store: &Weak<Inner>) -> Option<()> {
    let inner = store.upgrade()?;
    let watched = inner.changes.watched();
    if watched.is_empty() {
        return Some(());
    }
    if let Ok(session) = inner.session().await
        && let Ok(versions) = read::versions(&session, &watched).await
    {
        for (run, version) in versions {
            inner.changes.announce(&run, version);
        }
    }
    Some(())
}

/// Without the database the clock goes on by itself.
async fn adjust_clock(store: &Weak<Inner>) {
    let Some(inner) = store.upgrade() else { return };
    if let Ok(session) = inner.session().await {
        let _unanswered = inner.clock.adjust(&session).await;
    }
}

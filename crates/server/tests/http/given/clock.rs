//! A clock on the runtime's virtual time: where a test pauses it, waiting costs nothing and happens in order.

use async_trait::async_trait;
use callboard_engine::Clock;
use callboard_protocol::Timestamp;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct VirtualClock {
    began: Instant,
}

/// The moment at which every test begins.
const BEGAN: i64 = 1_763_251_200_000;

impl VirtualClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now() }
    }
}

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(BEGAN).plus(self.began.elapsed())
    }

    async fn sleep_until(&self, at: Timestamp) {
        tokio::time::sleep(at.since(self.now())).await;
    }
}

//! Trying again what two got into each other's way with.

use std::time::Duration;

use super::fault::Fault;

/// Each time somebody has come through.
const MOST_TRIES: u32 = 8;

#[derive(Default)]
pub(super) struct Patience(u32);

impl Patience {
    /// Whether the same is to be tried again, after a while that is not everybody's.
    pub(super) async fn lasts(&mut self, fault: &Fault) -> bool {
        if !fault.may_pass() || self.0 >= MOST_TRIES {
            return false;
        }
        self.0 += 1;
        let mut random = [0; 1];
        // Without randomness all wait alike, which only takes longer.
        let _filled = getrandom::fill(&mut random);
        let most = 1 << self.0.min(6);
        tokio::time::sleep(Duration::from_millis(1 + u64::from(random[0]) % most)).await;
        true
    }
}

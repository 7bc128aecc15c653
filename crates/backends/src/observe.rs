//! What heartbeats observe of an address, through the guarded client.

use async_trait::async_trait;
use serde_json::json;
use sha2::{Digest, Sha256};

use callboard_engine::{MAX_RUNTIME, Observe, ObserveError, Probe};
use callboard_protocol::{Object, Tenant, hex};

use crate::egress::{Answer, Egress, Method, Outgoing};

/// As much of a page as is compared for changes.
const MOST_BYTES: usize = 1024 * 1024;

#[async_trait]
impl Observe for Egress {
    async fn observe(&self, tenant: &Tenant, probe: &Probe) -> Result<Object, ObserveError> {
        let Probe::Http { url } = probe;
        let agent = concat!("callboard/", env!("CARGO_PKG_VERSION"));
        let outgoing = Outgoing {
            method: Method::Get,
            url: url.clone(),
            headers: vec![("user-agent".to_owned(), agent.to_owned())],
            body: Vec::new(),
            within: MAX_RUNTIME,
            most: MOST_BYTES,
        };
        let answer = self.send_of(tenant, outgoing).await;
        answer.map(|answer| seen(&answer)).map_err(|error| ObserveError(error.to_string()))
    }
}

/// The status and a digest: enough to compare, nothing to read.
fn seen(answer: &Answer) -> Object {
    let digest = Sha256::digest(&answer.body);
    let digest = hex(&digest[..8]);
    Object::from_iter([
        ("status".to_owned(), json!(answer.status)),
        ("digest".to_owned(), json!(digest)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_tells_pages_apart_and_says_nothing_of_them() {
        let of = |status, body: &[u8]| {
            let headers = Default::default();
            seen(&Answer { status, headers, body: body.to_vec(), is_cut: false })
        };
        assert_eq!(of(200, b"secret"), of(200, b"secret"));
        assert_ne!(of(200, b"secret"), of(200, b"other"));
        assert_ne!(of(200, b""), of(503, b""));
        assert!(!json!(of(200, b"secret")).to_string().contains("secret"));
    }
}

//! Published node types that reach outside of the run: each makes its calls through the effect records, the guarded
//! way out and the host's secrets, so that no crash repeats a call whose outcome is known.

mod files;
mod given;
mod hmac;
mod http;
mod kv;
mod mcp;
mod team;
mod tool;

use std::sync::Arc;

use callboard_engine::Activity;

use self::http::messages;
use crate::egress::Egress;

pub use http::messages::Integrations;
pub use team::DeclaredNode;
pub use tool::{TOOL, ToolNodes};

/// Every such type, with who performs it.
pub fn acting_nodes(
    egress: &Egress,
    integrations: &Integrations,
) -> Vec<(&'static str, Arc<dyn Activity>)> {
    let files: Arc<dyn Activity> = Arc::new(files::RunFiles);
    let hmac: Arc<dyn Activity> = Arc::new(hmac::KeyedHash);
    let fetch = http::Fetch { egress: egress.clone() };
    let http: Arc<dyn Activity> = Arc::new(fetch.clone());
    let integrations = integrations.clone();
    let messages: Arc<dyn Activity> = Arc::new(messages::Messages { fetch, integrations });
    let values: Arc<dyn Activity> = Arc::new(kv::KeptValues);
    vec![
        ("core.crypto.hmac-sign", Arc::clone(&hmac)),
        ("core.crypto.hmac-verify", hmac),
        ("core.files.delete", Arc::clone(&files)),
        ("core.files.list", Arc::clone(&files)),
        ("core.files.read", Arc::clone(&files)),
        ("core.files.stat", Arc::clone(&files)),
        ("core.files.write", files),
        ("core.openwop.http.fetch", Arc::clone(&http)),
        ("core.openwop.http.graphql-mutation", Arc::clone(&http)),
        ("core.openwop.http.graphql-query", Arc::clone(&http)),
        ("core.openwop.http.openapi-call", Arc::clone(&http)),
        ("core.openwop.http.pagination-cursor", Arc::clone(&http)),
        ("core.openwop.http.pagination-link-header", Arc::clone(&http)),
        ("core.openwop.http.pagination-offset", http),
        (messages::CHAT, Arc::clone(&messages)),
        (messages::EMAIL, Arc::clone(&messages)),
        (messages::SLACK, Arc::clone(&messages)),
        (messages::replies::EMAIL, Arc::clone(&messages)),
        (messages::replies::GITHUB, Arc::clone(&messages)),
        (messages::replies::SLACK, messages),
        ("core.storage.kv-atomic-increment", Arc::clone(&values)),
        ("core.storage.kv-cas", Arc::clone(&values)),
        ("core.storage.kv-delete", Arc::clone(&values)),
        ("core.storage.kv-get", Arc::clone(&values)),
        ("core.storage.kv-list", Arc::clone(&values)),
        ("core.storage.kv-set", values),
    ]
}

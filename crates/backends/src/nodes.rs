//! Published node types that reach outside of the run: each makes its calls through the effect records, the guarded
//! way out and the host's secrets, so that no crash repeats a call whose outcome is known.

mod files;
mod given;
mod hmac;
mod http;
mod tool;

use std::sync::Arc;

use callboard_engine::Activity;

use crate::egress::Egress;

pub use tool::{TOOL, ToolNodes};

/// Every such type, with who performs it.
pub fn acting_nodes(egress: &Egress) -> Vec<(&'static str, Arc<dyn Activity>)> {
    let files: Arc<dyn Activity> = Arc::new(files::RunFiles);
    let hmac: Arc<dyn Activity> = Arc::new(hmac::KeyedHash);
    let http: Arc<dyn Activity> = Arc::new(http::Fetch { egress: egress.clone() });
    vec![
        ("core.crypto.hmac-sign", Arc::clone(&hmac)),
        ("core.crypto.hmac-verify", hmac),
        ("core.files.list", Arc::clone(&files)),
        ("core.files.read", Arc::clone(&files)),
        ("core.files.stat", Arc::clone(&files)),
        ("core.files.write", files),
        ("core.openwop.http.fetch", Arc::clone(&http)),
        ("core.openwop.http.graphql-mutation", Arc::clone(&http)),
        ("core.openwop.http.graphql-query", http),
    ]
}

//! `GET /host/effect-seams`: every way out of this host that a node can take, and what keeps a replay from taking it again.

use std::io::Read as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_protocol::hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::answer::Answer;
use crate::app::Host;
use crate::keys::Caller;
use crate::problem::Problem;

/// Bytes of the program that are read at once.
const PIECE: usize = 64 * 1024;
/// The outcome of the call is recorded before it is used; a replay finds it there and asks nobody.
const RECORDED: &str = "recorded-outcome";
/// What a replay records is posted to nobody.
const UNPOSTED: &str = "replay-not-delivered";

pub(crate) async fn read(State(host): State<Arc<Host>>, _: Caller) -> Result<Answer, Problem> {
    let build = host.build.get_or_try_init(digest_of_program).await?;
    let manifest = json!({
        "manifestVersion": "1",
        "host": {
            "name": "callboard",
            "build": { "kind": "artifact-sha256", "id": build },
        },
        "seams": seams(&host),
    });
    Answer::json(StatusCode::OK, &manifest)
}

fn seams(host: &Host) -> Vec<Value> {
    let is_live = host.app.config.agents.as_ref().is_some_and(|said| said.live_runtime.is_some());
    let has_tools = !host.app.tools.sources.is_empty();
    let rows = [
        ("http-nodes", "http", RECORDED, true),
        ("model-calls", "provider-sdk", RECORDED, true),
        ("coding-agents", "provider-sdk", RECORDED, is_live),
        ("tools", "http", RECORDED, has_tools),
        ("webhooks", "webhook-fanout", UNPOSTED, true),
        ("run-callbacks", "http", UNPOSTED, true),
    ];
    let exist = rows.into_iter().filter(|(.., exists)| *exists);
    exist
        .map(|(seam, kind, guarded_by, _)| {
            json!({
                "seam": seam, "kind": kind, "guarded": true, "guardedBy": guarded_by,
                // A branch goes on live from where it leaves its source.
                "branchReFires": true,
            })
        })
        .collect()
}

/// Tells this build from every other.
async fn digest_of_program() -> Result<String, Problem> {
    let digest = tokio::task::spawn_blocking(|| {
        let mut hasher = Sha256::new();
        let mut program = std::fs::File::open(std::env::current_exe()?)?;
        let mut piece = vec![0; PIECE];
        loop {
            match program.read(&mut piece)? {
                0 => return Ok::<_, std::io::Error>(hex(hasher.finalize())),
                read => hasher.update(&piece[..read]),
            }
        }
    });
    let digest = digest.await.map_err(|error| Problem::internal(&error))?;
    digest.map_err(|error| Problem::internal(&error))
}

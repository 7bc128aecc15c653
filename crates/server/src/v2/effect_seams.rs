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

/// A way out that a node of this host can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seam {
    /// Every node that asks over HTTP: fetches, interfaces described by OpenAPI, messages to people, types of a team's own.
    HttpNodes,
    ModelCalls,
    CodingAgents,
    /// Tools of agents and of nodes; servers of the Model Context Protocol are among them.
    Tools,
    Webhooks,
    RunCallbacks,
}

impl Seam {
    const ALL: [Self; 6] = [
        Self::HttpNodes,
        Self::ModelCalls,
        Self::CodingAgents,
        Self::Tools,
        Self::Webhooks,
        Self::RunCallbacks,
    ];

    /// The one of this name, if this host has it.
    pub fn find(host: &Host, name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|seam| seam.name() == name && seam.is_here(host))
    }

    fn name(self) -> &'static str {
        match self {
            Self::HttpNodes => "http-nodes",
            Self::ModelCalls => "model-calls",
            Self::CodingAgents => "coding-agents",
            Self::Tools => "tools",
            Self::Webhooks => "webhooks",
            Self::RunCallbacks => "run-callbacks",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::HttpNodes | Self::Tools | Self::RunCallbacks => "http",
            Self::ModelCalls | Self::CodingAgents => "provider-sdk",
            Self::Webhooks => "webhook-fanout",
        }
    }

    fn guarded_by(self) -> &'static str {
        match self {
            Self::Webhooks | Self::RunCallbacks => UNPOSTED,
            Self::HttpNodes | Self::ModelCalls | Self::CodingAgents | Self::Tools => RECORDED,
        }
    }

    fn is_here(self, host: &Host) -> bool {
        let app = &host.app;
        match self {
            Self::CodingAgents => !app.config.coding_agents.is_empty(),
            Self::Tools => !app.tools.sources.is_empty(),
            Self::HttpNodes | Self::ModelCalls | Self::Webhooks | Self::RunCallbacks => true,
        }
    }
}

fn seams(host: &Host) -> Vec<Value> {
    let exist = Seam::ALL.into_iter().filter(|seam| seam.is_here(host));
    exist
        .map(|seam| {
            json!({
                "seam": seam.name(), "kind": seam.kind(), "guarded": true,
                "guardedBy": seam.guarded_by(),
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

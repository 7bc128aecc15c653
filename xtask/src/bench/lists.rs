//! Lists of runs with each filter, among a thousand runs and among many more. What they find is older than everything
//! that is added, or is not there at all: the most that a list can have to look through.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::definitions::NOOP;
use super::load::{self, percentile};
use super::measure::{KEY, put, register_some, run_of};
use super::{Scale, definitions};
use crate::child::Host;
use crate::say;
use crate::wire::{Connection, Request};

/// Each fails at once.
const FAILING: &str = "bench-failing";
/// How many of the first runs a filter finds: more than a page holds.
const RARE: usize = 30;
const FEW: usize = 1_000;
/// Requests of a kind; their median counts.
const TIMES: usize = 200;

const FILTERS: [(&str, &str); 9] = [
    ("none", ""),
    ("status=completed", "&status=completed"),
    ("status=failed", "&status=failed"),
    ("status and workflowId", "&status=failed&workflowId=bench-failing"),
    ("workflowId", "&workflowId=bench-failing"),
    ("tag", "&tag=rare"),
    ("agentId", "&agentId=bench.nobody"),
    ("rosterId", "&rosterId=host:nobody"),
    ("until", "&until="),
];

/// The median time of a page of twenty, among a thousand runs and among all.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) runs: usize,
    pub(crate) filters: Vec<(&'static str, [Duration; 2])>,
}

pub(crate) async fn measure(
    binary: &Path,
    folder: &Path,
    arguments: &[&str],
    scale: Scale,
) -> Result<Lists> {
    let home = folder.join("lists");
    std::fs::create_dir(&home)?;
    let host = Host::start(binary, &home, arguments).await?;
    register_some(host.address, &[NOOP]).await?;
    put(host.address, &definitions::failing(FAILING)).await?;
    let rare = json!({ "workflowId": FAILING, "tags": ["rare"] });
    load::drive(host.address, &rare, 8, RARE).await?;
    load::drive(host.address, &run_of(NOOP), 64, FEW - RARE).await?;
    let boundary = now(host.address).await?;
    let few = time_all(host.address, &boundary).await?;
    say::line(format_args!("creating {} runs to list", scale.listed));
    load::drive(host.address, &run_of(NOOP), 64, scale.listed - FEW).await?;
    let many = time_all(host.address, &boundary).await?;
    host.stop().await?;
    let filters = FILTERS.iter().zip(few).zip(many);
    let filters = filters.map(|(((name, _), few), many)| (*name, [few, many])).collect();
    Ok(Lists { runs: scale.listed, filters })
}

/// When the newest run was created, as the host says it.
async fn now(address: SocketAddr) -> Result<String> {
    let request = Request::get("/v1/host/callboard/runs?limit=1").bearer(KEY);
    let page = Connection::open(address).await?.send(&request).await?.json()?;
    Ok(page["runs"][0]["createdAt"].as_str().unwrap_or_default().to_owned())
}

async fn time_all(address: SocketAddr, boundary: &str) -> Result<Vec<Duration>> {
    let mut connection = Connection::open(address).await?;
    let mut medians = Vec::new();
    for (name, filter) in FILTERS {
        let value = if name == "until" { boundary } else { "" };
        let path = format!("/v1/host/callboard/runs?limit=20{filter}{value}");
        let request = Request::get(path).bearer(KEY).render();
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let started = Instant::now();
            let (status, body) = connection.exchange(&request).await?;
            times.push(started.elapsed());
            ensure!(status == 200, "list by {name} answered {status}: {body}");
        }
        times.sort();
        medians.push(percentile(&times, 0.5));
    }
    Ok(medians)
}

//! This host beside another that speaks the same protocol: the same clients do the same with both, by turns.
//!
//! The other host is started by whoever compares, since everybody knows best how theirs is started: it is given by its
//! address. Both run the same workflow, whose definition is read from a file; the other host must know it already.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bench::measure::{KEY, put};
use crate::bench::paths::{CALLERS, Cost, Target, Use, load};
use crate::bench::report::{grouped, time};
use crate::child::{self, Host, Profile};
use crate::{say, workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The address of the other host, such as 127.0.0.1:3737
    #[arg(long, value_name = "HOST:PORT")]
    reference: String,
    /// What the other host takes as a key
    #[arg(long, value_name = "KEY", default_value = "compare")]
    reference_key: String,
    /// The process of the other host, where it runs on this machine, to see its processor time
    #[arg(long, value_name = "PID")]
    reference_process: Option<u32>,
    /// The definition of the workflow that both run
    #[arg(long, value_name = "FILE")]
    workflow: PathBuf,
    /// How often each thing is done in a turn
    #[arg(long, default_value_t = 2_000)]
    times: usize,
    /// The binary to measure; built in the release profile when not given
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
}

/// What every host of the protocol offers.
const USES: [Use; 4] = [Use::Create, Use::Follow, Use::Snapshots, Use::Read];
/// The best of so many turns counts: other load on the machine can only slow one down.
const TURNS: usize = 3;

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let root = workspace::root()?;
    let binary = match &options.bin {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => child::build(&root, Profile::Release)?,
    };
    let folder = tempfile::tempdir_in(workspace::target(&root)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    say::line(runtime.block_on(compare(options, &binary, folder.path()))?);
    Ok(ExitCode::SUCCESS)
}

async fn compare(options: &Options, binary: &Path, folder: &Path) -> Result<String> {
    let text = std::fs::read_to_string(&options.workflow);
    let text = text.with_context(|| options.workflow.display().to_string())?;
    let definition: Value = serde_json::from_str(&text).context("the workflow is no JSON")?;
    let workflow = definition["id"].as_str().context("the workflow has no id")?;
    let address = address_of(&options.reference)?;
    let other = Target::new(address, options.reference_process, &options.reference_key, workflow);
    let other = other.prepare().await.context("the other host")?;
    let host = Host::start(binary, folder, &["--api-key", KEY]).await?;
    put(host.address, &definition).await?;
    let own = Target::new(host.address, Some(host.id()?), KEY, workflow).prepare().await?;
    let mut costs = [[Cost::default(); 2]; USES.len()];
    for (used, costs) in USES.into_iter().zip(&mut costs) {
        say::line(format_args!("{}, concurrency {CALLERS}", used.name()));
        for _ in 0..TURNS {
            for (target, cost) in [&own, &other].into_iter().zip(costs.iter_mut()) {
                cost.keep_best(load(target, used, options.times).await?);
            }
        }
    }
    host.stop().await?;
    Ok(table(&costs))
}

fn address_of(text: &str) -> Result<SocketAddr> {
    let plain = text.trim_start_matches("http://").trim_end_matches('/');
    let mut found = plain.to_socket_addrs().with_context(|| text.to_owned())?;
    found.next().with_context(|| format!("{text} leads nowhere"))
}

fn table(costs: &[[Cost; 2]; USES.len()]) -> String {
    let mut table =
        "| use | this host | the other | times its rate |\n|---|---|---|---|\n".to_owned();
    for (used, [own, other]) in USES.iter().zip(costs) {
        let factor = own.per_second / other.per_second;
        table.push_str(&format!(
            "| {} | {} | {} | {factor:.1} |\n",
            used.name(),
            cell(own),
            cell(other)
        ));
    }
    table
}

/// Without processor time where it cannot be seen.
fn cell(cost: &Cost) -> String {
    let rate = format!(
        "{}/s, p50 / p99 {} / {}",
        grouped(cost.per_second),
        time(cost.p50),
        time(cost.p99)
    );
    match cost.processor.is_zero() {
        true => rate,
        false => format!("{rate}, {} of processor", time(cost.processor)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn hosts_stand_side_by_side() {
        let cost = |per_second: f64, processor: u64| Cost {
            per_second,
            processor: Duration::from_micros(processor),
            p50: Duration::from_millis(1),
            p99: Duration::from_millis(2),
        };
        let table = table(&[[cost(5_000.0, 80), cost(500.0, 0)]; USES.len()]);
        let line = "| create | 5,000/s, p50 / p99 1.0 ms / 2.0 ms, 80.0 \u{b5}s of processor | 500/s, p50 / p99 1.0 ms / 2.0 ms | 10.0 |";
        assert!(table.lines().any(|found| found == line), "{table}");
        assert_eq!(table.lines().count(), 2 + USES.len());
    }

    #[test]
    fn an_address_may_be_written_as_a_url() {
        let expected: SocketAddr = ([127, 0, 0, 1], 3737).into();
        for text in ["127.0.0.1:3737", "http://127.0.0.1:3737/"] {
            assert_eq!(address_of(text).ok(), Some(expected), "{text}");
        }
        assert!(address_of("nothing").is_err());
    }
}

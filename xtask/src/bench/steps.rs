//! What steps that only compute cost: in a chain, for each item of a list, and in the cases of a test.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Scale;
use super::definitions::{CHAIN, EACH, NOOP, PURE};
use super::load::{self, percentile};
use super::measure::run_of;
use crate::say;

/// Cases of the file that is timed.
pub(crate) const CASES: usize = 100;

/// The cost of steps, each beside what it is compared with, from the same minute.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// A run of ten nodes that do nothing, and one of ten that compute.
    pub(crate) chain: [Duration; 2],
    /// A run of one node, and one that goes through the items of a list.
    pub(crate) each: [Duration; 2],
    /// All cases of a file, with the start of the program.
    pub(crate) cases: Duration,
}

pub(crate) async fn measure(
    address: SocketAddr,
    binary: &Path,
    folder: &Path,
    scale: Scale,
) -> Result<Steps> {
    say::line("steps");
    let mut steps = Steps { cases: Duration::MAX, ..Steps::default() };
    let mut best = [Duration::MAX; 4];
    // By turns, and the best of each counts: a neighbour on the machine can only slow one of them down.
    for _ in 0..scale.turns.max(3) {
        let orders =
            [(CHAIN, scale.runs[0]), (PURE, scale.runs[0]), (NOOP, scale.runs[0]), (EACH, 20)];
        for (place, (workflow, runs)) in orders.into_iter().enumerate() {
            let sample = load::drive(address, &run_of(workflow), 1, runs).await?;
            best[place] = best[place].min(percentile(&sample.ends, 0.5));
        }
        steps.cases = steps.cases.min(cases(binary, folder)?);
    }
    steps.chain = [best[0], best[1]];
    steps.each = [best[2], best[3]];
    Ok(steps)
}

/// Times `callboard workflows test` with a file of small cases.
fn cases(binary: &Path, folder: &Path) -> Result<Duration> {
    let workflow = "id: hello\nvariables: { name: string }\nnodes:\n  greet:\n    type: core.identity\n    inputs: { greeting: 'Hello, ${vars.name}!' }\n";
    fs::write(folder.join("hello.yaml"), workflow)?;
    let mut text = "workflow: hello.yaml\ncases:\n".to_owned();
    for case in 0..CASES {
        text.push_str(&format!(
            "  - name: case {case}\n    inputs: {{ name: n{case} }}\n    expect: {{ outputs: {{ greeting: 'Hello, n{case}!' }} }}\n"
        ));
    }
    let file = folder.join("hello.test.yaml");
    fs::write(&file, text)?;
    let started = Instant::now();
    let status = std::process::Command::new(binary)
        .args(["workflows", "test"])
        .arg(&file)
        .stdout(Stdio::null())
        .status()
        .context("the binary under test")?;
    ensure!(status.success(), "the cases do not pass");
    Ok(started.elapsed())
}

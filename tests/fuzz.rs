//! Definitions, expressions, schemas and bodies that nobody would write: no decision about them exceeds its work.
//!
//! A short run is part of every `cargo test`. `CALLBOARD_FUZZ_SECONDS=600 cargo test --test fuzz` goes on for ten
//! minutes with other inputs each time. The corpus in `fuzz/corpus` is shared with the targets for `cargo fuzz`, which do the same
//! with what they find themselves.

#[path = "fuzz/generate.rs"]
mod generate;
#[path = "fuzz/targets.rs"]
mod targets;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

/// Cases between two looks at the clock.
const ROUND: u32 = 24;
/// No single input may take this long, however slow the machine is. Work is counted exactly; this is only for what is
/// not counted.
const WATCHDOG: Duration = Duration::from_secs(120);

type Target = fn(&[u8]);

#[test]
fn definitions() -> Result<()> {
    fuzz("definition", targets::definition, generate::definitions().boxed())
}

#[test]
fn expressions() -> Result<()> {
    fuzz("expression", targets::expression, generate::expressions().boxed())
}

#[test]
fn schemas() -> Result<()> {
    fuzz("schema", targets::schema, generate::schemas().boxed())
}

#[test]
fn bodies() -> Result<()> {
    fuzz("body", targets::body, generate::bodies().boxed())
}

#[expect(
    clippy::print_stderr,
    reason = "how much a long run has tried is what one wants to know of it"
)]
fn fuzz(name: &str, target: Target, made: BoxedStrategy<Vec<u8>>) -> Result<()> {
    let corpus = corpus(name)?;
    for input in &corpus {
        timed(target, input);
    }
    let inputs = prop_oneof![2 => made, 1 => generate::mutated(corpus)];
    let seconds = std::env::var("CALLBOARD_FUZZ_SECONDS").ok().and_then(|it| it.parse().ok());
    let ends = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    // The short run is the same every time; the long one looks elsewhere each time, and says where.
    let first = match ends {
        None => 1,
        Some(_) => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    let mut cases = 0;
    for seed in first.. {
        let config = ProptestConfig {
            cases: ROUND,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(seed),
            ..ProptestConfig::default()
        };
        let round = TestRunner::new(config).run(&inputs, |input| {
            timed(target, &input);
            Ok(())
        });
        round.map_err(|error| anyhow::anyhow!("{name}, seed {seed}: {error}"))?;
        cases += ROUND;
        if ends.is_none_or(|ends| Instant::now() >= ends) {
            break;
        }
    }
    eprintln!("{name}: {cases} inputs, from seed {first}");
    Ok(())
}

fn timed(target: Target, input: &[u8]) {
    let begun = Instant::now();
    target(input);
    assert!(begun.elapsed() < WATCHDOG, "took {:?}", begun.elapsed());
}

/// The inputs that are kept, in the order of their names.
fn corpus(name: &str) -> Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let listed = std::fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let mut files: Vec<_> = listed.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
    files.sort();
    anyhow::ensure!(!files.is_empty(), "no inputs in {}", folder.display());
    files.iter().map(|file| Ok(std::fs::read(file)?)).collect()
}

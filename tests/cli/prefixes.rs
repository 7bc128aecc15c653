//! Runs are named by as much of their id as no other run shares.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::terminal::Terminal;

#[test]
fn a_run_is_found_by_the_beginning_of_its_id() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let at = terminal.at(host.url());
    let begin = || -> Result<String> {
        let output = at.command(&["run", "noop", "--json"]).output()?;
        let created: Value = serde_json::from_slice(&output.stdout)?;
        Ok(created["runId"].as_str().context("an id")?.to_owned())
    };
    let (first, second) = (begin()?, begin()?);
    let common = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
    let shown = at.command(&["runs", "show", &first[..common + 1], "--json"]).output()?;
    let shown: Value = serde_json::from_slice(&shown.stdout)?;
    ensure!(shown["runId"] == first.as_str(), "{shown}");
    let ambiguous = at.run(&["runs", "show", &first[..common]])?;
    ensure!(
        ambiguous.starts_with("exit: 2\n") && ambiguous.contains("2 runs begin with"),
        "{ambiguous}"
    );
    let unknown = at.run(&["runs", "show", "run_ffffffff"])?;
    ensure!(unknown.starts_with("exit: 3\n"), "{unknown}");
    let kept = at.run(&["runs", "keep", &second[..common + 1]])?;
    ensure!(kept.starts_with("exit: 0\n"), "{kept}");
    Ok(())
}

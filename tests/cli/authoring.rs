//! Writing a workflow: from nothing to a run, and everything that is wrong at once.

use anyhow::{Result, ensure};
use insta::assert_snapshot;
use serde_json::Value;

use crate::terminal::Terminal;

const WRITTEN: &str = "\
id: letters
variables: { name: string }
nodes:
  greet:
    type: core.identity
    inputs: { greeting: \"Hello, ${vars.name}!\" }
  close: { type: core.noop, after: greet }
";

#[test]
fn a_first_workflow_takes_no_refusal() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    for template in ["hello", "approval", "agent", "schedule"] {
        let id = format!("my-{template}");
        user.output(&["workflows", "new", &id, "--template", template])?;
        let file = format!("{id}.yaml");
        user.output(&["workflows", "validate", &file])?;
        user.output(&["workflows", "apply", &file])?;
    }
    let input = "{\"name\": \"Ada\"}";
    let shown = user.output(&["run", "my-hello", "--input", input, "--follow"])?;
    ensure!(shown.contains("Hello, Ada!"), "{shown}");
    Ok(())
}

#[test]
fn what_is_wrong_is_shown_at_once() -> Result<()> {
    let terminal = Terminal::new()?;
    let wrong = WRITTEN.replace("vars.name", "vars.nam").replace("core.noop", "core.nop");
    terminal.write("wrong.yaml", &wrong)?;
    terminal.write("letters.yaml", WRITTEN)?;
    assert_snapshot!(
        "authoring_validate",
        terminal.run(&["workflows", "validate", "wrong.yaml", "letters.yaml"])?
    );
    assert_snapshot!(
        "authoring_expanded",
        terminal.run(&["workflows", "show", "--expanded", "letters.yaml"])?
    );
    assert_snapshot!("authoring_graph", terminal.run(&["workflows", "graph", "letters.yaml"])?);
    assert_snapshot!(
        "authoring_mermaid",
        terminal.run(&["workflows", "graph", "letters.yaml", "--format", "mermaid"])?
    );
    let svg = terminal.output(&["workflows", "graph", "letters.yaml", "--format", "svg"])?;
    ensure!(svg.starts_with("<svg") && svg.contains("greet"), "{svg}");
    assert_snapshot!(
        "authoring_new_bad_id",
        terminal.run(&["workflows", "new", "My Flow", "--template", "hello"])?
    );
    assert_snapshot!(
        "authoring_new_template",
        terminal.run(&["workflows", "new", "flow", "--template", "helo"])?
    );
    Ok(())
}

#[test]
fn node_types_are_listed_and_shown() -> Result<()> {
    let terminal = Terminal::new()?;
    assert_snapshot!("nodes_show", terminal.run(&["nodes", "show", "core.delay"])?);
    assert_snapshot!("nodes_unknown", terminal.run(&["nodes", "show", "core.dealy"])?);
    let listed: Value = serde_json::from_str(&terminal.output(&["nodes", "list", "--json"])?)?;
    ensure!(listed["nodes"].as_array().is_some_and(|nodes| nodes.len() > 20), "{listed}");
    let schema: Value = serde_json::from_str(&terminal.output(&["workflows", "schema"])?)?;
    ensure!(schema["$defs"]["node"]["allOf"].is_array(), "{schema}");
    Ok(())
}

#[test]
fn a_folder_may_hold_yaml() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("workflows/letters.yaml", WRITTEN)?;
    terminal.write("workflows/half.yaml", "id: half\nnodes:\n  a: { type:")?;
    let host = terminal.host(&[])?;
    let log = host.log();
    ensure!(log.contains("half.yaml") && log.contains("skipped"), "{log}");
    let user = terminal.at(host.url());
    user.output(&["run", "letters", "--input", "{\"name\": \"Ada\"}", "--follow"])?;
    Ok(())
}

//! Writing a workflow: from nothing to a run, and everything that is wrong at once.

use anyhow::{Context, Result, ensure};
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

/// A step of a team's own, a tool, and an agent, of which two are spelt wrong.
const NAMES: &str = "\
id: names
nodes:
  greet: { type: acme.greet, inputs: { name: Ada } }
  sort: { agent: community.callboard.starter.triagr, inputs: { message: Hi } }
  keep: { type: callboard.tool, config: { tool: openwop:core.files.wrte }, after: [greet, sort] }
";

#[test]
fn names_that_only_a_host_or_its_configuration_knows_are_judged_by_them() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("names.yaml", NAMES)?;
    let unknown = terminal.run(&["workflows", "validate", "names.yaml"])?;
    ensure!(unknown.starts_with("exit: 1") && unknown.contains("acme.greet"), "{unknown}");

    let config = "[nodes.\"acme.greet\"]\nworkflow = \"below\"\ndescription = \"Greets\"\n";
    terminal.write("callboard.toml", config)?;
    terminal.output(&["workflows", "validate", "names.yaml"])?;
    let listed = terminal.output(&["nodes", "list"])?;
    ensure!(listed.contains("acme.greet") && listed.contains("Greets"), "{listed}");
    let shown = terminal.output(&["nodes", "show", "acme.greet"])?;
    ensure!(shown.contains("type: acme.greet"), "{shown}");
    let near = terminal.run(&["nodes", "show", "acme.gret"])?;
    ensure!(near.contains("did you mean \"acme.greet\"?"), "{near}");

    let packs = concat!(env!("CARGO_MANIFEST_DIR"), "/packs/starter");
    let config = terminal.folder().join("callboard.toml");
    let config = config.to_str().context("a plain path")?;
    let host = terminal.host(&["--packs", packs, "--config", config])?;
    terminal.write("callboard.toml", "")?;
    let user = terminal.at(host.url());
    let offline = user.run(&["workflows", "validate", "names.yaml"])?;
    ensure!(offline.starts_with("exit: 1") && offline.contains("acme.greet"), "{offline}");
    let judged = user.run(&["workflows", "validate", "names.yaml", "--url", host.url()])?;
    assert_snapshot!("authoring_names_of_a_host", judged);
    let listed = user.output(&["nodes", "list", "--url", host.url()])?;
    ensure!(listed.contains("acme.greet"), "{listed}");
    let applied = user.run(&["workflows", "apply", "names.yaml"])?;
    assert_snapshot!("authoring_applied_with_warnings", applied);
    Ok(())
}

#[test]
fn tools_are_found_by_their_names() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let listed = user.output(&["tools", "list"])?;
    ensure!(listed.contains("openwop:core.files.write"), "{listed}");
    let listed: Value = serde_json::from_str(&user.output(&["tools", "list", "--json"])?)?;
    ensure!(listed["tools"].as_array().is_some_and(|tools| tools.len() > 5), "{listed}");
    assert_snapshot!("tools_show", user.run(&["tools", "show", "openwop:core.files.write"])?);
    assert_snapshot!("tools_unknown", user.run(&["tools", "show", "openwop:core.files.wrte"])?);
    Ok(())
}

#[test]
fn a_test_starts_the_runs_of_workflows_that_lie_beside() -> Result<()> {
    let terminal = Terminal::new()?;
    let above = "nodes:\n  call:\n    type: core.flow.sub-workflow-invoke\n    inputs: { workflowRef: below }\n";
    terminal.write("above.yaml", above)?;
    terminal
        .write("below.yaml", "nodes:\n  say: { type: core.identity, inputs: { said: hi } }\n")?;
    let case = "workflow: above.yaml\ncases:\n  - name: said\n    expect: { events: [node.dispatched call, run.completed] }\n";
    terminal.write("above.test.yaml", case)?;
    let shown = terminal.output(&["workflows", "test", "above.test.yaml"])?;
    ensure!(shown.contains("1 passed, 0 failed"), "{shown}");
    Ok(())
}

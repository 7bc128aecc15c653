//! What people write, and the canonical definition that it stands for.
#![cfg(test)]

use callboard_authoring::{Format, Source, read, starters};
use serde_json::{Value, json};

fn yaml(text: &str) -> Value {
    let reading = read(Source { text, format: Format::Yaml, id: None });
    let problems: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, [""; 0], "{text}");
    serde_json::from_str(&reading.canonical.unwrap()).unwrap()
}

#[test]
fn the_shortest_workflow_has_everything_that_the_schema_wants() {
    let canonical = yaml("id: hello\nnodes:\n  greet: { type: core.noop }\n");
    assert_eq!(
        canonical,
        json!({
            "id": "hello", "name": "hello", "version": "1.0",
            "nodes": [{
                "id": "greet", "typeId": "core.noop", "name": "greet",
                "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {},
            }],
            "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
        })
    );
}

#[test]
fn an_id_that_is_left_out_is_the_files_name() {
    let text = "nodes:\n  greet: { type: core.noop }\n";
    let reading = read(Source { text, format: Format::Yaml, id: Some("from-file") });
    let canonical: Value = serde_json::from_str(&reading.canonical.unwrap()).unwrap();
    assert_eq!((&canonical["id"], &canonical["name"]), (&json!("from-file"), &json!("from-file")));
}

#[test]
fn a_version_keeps_the_digits_that_were_written() {
    let version = |written: &str| {
        yaml(&format!("id: v\nversion: {written}\nnodes:\n  a: {{ type: core.noop }}\n"))["version"]
            .clone()
    };
    assert_eq!(version("1.10"), "1.10");
    assert_eq!(version("2"), "2");
    assert_eq!(version("\"1.0-beta\""), "1.0-beta");
}

#[test]
fn templates_become_port_values() {
    let canonical = yaml(
        r#"
id: letters
variables:
  name: string
  count: { default: 3 }
nodes:
  write-it:
    agent: community.callboard.starter.writer
    inputs: { topic: "${vars.name}" }
  send:
    type: core.identity
    inputs:
      plain: hello
      number: 5
      whole: ${vars.count}
      draft: ${nodes.write-it.answer}
      deep: ${nodes.write-it.answer.title}
      first: ${inputs.name}
      sum: ${vars.count + 1}
      text: Dear ${vars.name}, you have ${vars.count * 2} "letters".
      escaped: costs $${5}
      body: { to: "${vars.name}", list: [1, "${nodes.write-it.answer}", null, true] }
      own: { type: variable, variableName: other, optional: true }
      object: { type: letter }
"#,
    );
    let inputs = &canonical["nodes"][1]["inputs"];
    let expected = json!({
        "plain": { "type": "static", "value": "hello" },
        "number": { "type": "static", "value": 5 },
        "whole": { "type": "variable", "variableName": "count" },
        "draft": { "type": "connection", "nodeId": "write-it", "outputKey": "answer" },
        "deep": { "type": "expression", "expression": "nodes[\"write-it\"].answer.title" },
        "first": { "type": "expression", "expression": "inputs.name" },
        "sum": { "type": "expression", "expression": "vars.count + 1" },
        "text": { "type": "expression", "expression":
            "\"Dear \" ~ vars.name ~ \", you have \" ~ (vars.count * 2) ~ \" \\\"letters\\\".\"" },
        "escaped": { "type": "static", "value": "costs ${5}" },
        "body": { "type": "expression", "expression":
            "{\"to\": (vars.name), \"list\": [1, (nodes[\"write-it\"].answer), none, true]}" },
        "own": { "type": "variable", "variableName": "other", "optional": true },
        "object": { "type": "static", "value": { "type": "letter" } },
    });
    assert_eq!(inputs, &expected);
    assert_eq!(
        canonical["variables"],
        json!([{ "name": "name", "type": "string" }, { "name": "count", "type": "number", "defaultValue": 3 }])
    );
    assert_eq!(
        canonical["nodes"][0]["agent"],
        json!({ "agentId": "community.callboard.starter.writer" })
    );
    // Who reads a node comes after it.
    assert_eq!(
        canonical["edges"],
        json!([{ "id": "write-it-send", "sourceNodeId": "write-it", "targetNodeId": "send" }])
    );
}

#[test]
fn edges_can_be_written_in_four_ways() {
    let canonical = yaml(
        r#"
id: ways
nodes:
  a: { type: core.noop, next: b }
  b: { type: core.noop, after: a }
  c:
    type: core.identity
    after: [{ node: b, rule: any_failed, label: saved }]
  d: { type: core.conditional, config: { condition: "true" } }
  e: { type: core.noop, after: { node: d, when: "${result}" } }
  f: { type: core.noop }
edges:
  - c -> d -> f
  - { id: own, from: e, to: f, when: { type: equals, left: x, right: 1 }, rule: any_success }
"#,
    );
    assert_eq!(
        canonical["edges"],
        json!([
            { "id": "c-d", "sourceNodeId": "c", "targetNodeId": "d" },
            { "id": "d-f", "sourceNodeId": "d", "targetNodeId": "f" },
            { "id": "own", "sourceNodeId": "e", "targetNodeId": "f", "triggerRule": "any_success",
              "condition": { "type": "equals", "left": "x", "right": 1 } },
            { "id": "a-b", "sourceNodeId": "a", "targetNodeId": "b" },
            { "id": "b-c", "sourceNodeId": "b", "targetNodeId": "c", "triggerRule": "any_failed", "label": "saved" },
            { "id": "d-e", "sourceNodeId": "d", "targetNodeId": "e",
              "condition": { "type": "expression", "expression": "result" } },
        ])
    );
}

#[test]
fn triggers_can_be_short() {
    let canonical = yaml(
        "id: t\ntriggers:\n  - manual\n  - schedule: \"0 9 * * *\"\n  - schedule: { cron: \"0 8 * * *\", timezone: Europe/Berlin }\nnodes:\n  a: { type: core.noop }\n",
    );
    assert_eq!(
        canonical["triggers"],
        json!([
            { "id": "manual", "type": "manual", "enabled": true },
            { "id": "schedule", "type": "schedule", "enabled": true, "config": { "cron": "0 9 * * *" } },
            { "id": "schedule-2", "type": "schedule", "enabled": true,
              "config": { "cron": "0 8 * * *", "timezone": "Europe/Berlin" } },
        ])
    );
}

#[test]
fn canonical_json_is_kept_to_the_letter() {
    let text = r#"{"version":"1.0", "id":"kept","name":"Kept",
      "nodes":[{"id":"n","typeId":"core.noop","name":"N","position":{"x":1,"y":2},"config":{"whatever":1},"inputs":{}}],
      "edges":[],"triggers":[],"variables":[],"metadata":{"mine":true},"settings":{}}"#;
    let reading = read(Source { text, format: Format::Json, id: None });
    assert!(reading.problems.is_empty(), "{:?}", reading.problems);
    assert_eq!(reading.canonical.as_deref(), Some(text));
}

#[test]
fn json_may_be_as_short_as_yaml() {
    let text = r#"{"id": "hello", "nodes": {"greet": {"type": "core.noop"}}}"#;
    let reading = read(Source { text, format: Format::Json, id: None });
    let canonical: Value = serde_json::from_str(&reading.canonical.unwrap()).unwrap();
    assert_eq!(canonical, yaml("id: hello\nnodes:\n  greet: { type: core.noop }\n"));
}

#[test]
fn what_is_expanded_expands_to_itself() {
    for starter in starters() {
        let first = yaml(&starter.text("again"));
        let text = callboard_authoring::pretty(&first);
        let second = read(Source { text: &text, format: Format::Json, id: None });
        assert!(second.problems.is_empty(), "{}: {:?}", starter.name, second.problems);
        assert_eq!(second.canonical.as_deref(), Some(text.as_str()), "{}", starter.name);
    }
}

#[test]
fn the_examples_of_all_node_types_can_be_read() {
    for node in callboard_authoring::node_types() {
        let indented: String = node.example.lines().map(|line| format!("  {line}\n")).collect();
        let own = node.example.split(':').next().unwrap_or_default();
        let rest = [
            ("lead", "{ type: core.orchestrator.supervisor, config: { mockDecisions: [] } }"),
            ("workers", "{ type: core.dispatch }"),
            ("write", "{ agent: a.b.c }"),
            ("sort", "{ agent: a.b.c }"),
            ("one", "{ type: core.noop }"),
            ("other", "{ type: core.noop }"),
            ("ask", "{ type: core.noop }"),
            ("pay", "{ type: core.noop }"),
        ];
        let rest: String = rest
            .iter()
            .filter(|(id, _)| *id != own)
            .map(|(id, node)| format!("  {id}: {node}\n"))
            .collect();
        yaml(&format!(
            "id: example\nvariables: {{ name: string, amount: number, answer: string, letter: string, letters: array }}\nnodes:\n{indented}{rest}"
        ));
    }
}

#[test]
fn the_steps_of_a_body_may_be_as_short_as_other_nodes() {
    let text = "\
id: loud
variables: { people: array, greeting: string }
nodes:
  first: { type: core.noop }
  names:
    type: callboard.each
    inputs: { items: '${vars.people}' }
    config:
      collect: text
      body:
        - id: loud
          type: core.openwop.data.string-case
          config: { mode: upper }
          inputs: { text: '${item.name}' }
        - type: core.openwop.data.string-format
          inputs:
            template: '{{greeting}} {{name}}'
            context: { greeting: '${vars.greeting}', name: '${steps.loud.text}' }
";
    let canonical = yaml(text);
    let body = &canonical["nodes"][1]["config"]["body"];
    assert_eq!(
        body[0]["inputs"]["text"],
        json!({ "type": "expression", "expression": "item.name" })
    );
    let built = "{\"greeting\": (vars.greeting), \"name\": (steps.loud.text)}";
    assert_eq!(body[1]["inputs"]["context"], json!({ "type": "expression", "expression": built }));
}

//! What is wrong with a text: all of it at once, each with its place and what would be right.
#![cfg(test)]

use callboard_authoring::{Format, Problem, ProblemKind, Source, read};

fn problems(text: &str, format: Format) -> Vec<Problem> {
    let reading = read(Source { text, format, id: None });
    reading.problems.iter().cloned().collect()
}

fn said(text: &str) -> Vec<String> {
    problems(text, Format::Yaml).iter().map(ToString::to_string).collect()
}

#[test]
fn all_problems_are_told_at_once_with_their_places() {
    let text = "\
id: My Flow
verison: 1
variables:
  message: strng
nodes:
  write:
    type: core.identiy
    inputs:
      text: ${vars.mesage}
      draft: ${nodes.wriet.answer}
    confg: {}
  wait:
    type: core.delay
    config:
      durationMs: soon
      duration: 5
    after: writ
  gate:
    after: wait
";
    insta::assert_snapshot!(said(text).join("\n"), @r#"
    1:5: id: "My Flow" must be 1 to 128 of a-z, 0-9, _ and -, and begin with a letter; did you mean `my-flow`?
    2:1: verison: unknown key "verison"; did you mean `version`?
    4:12: variables.message: "strng" is not one of string, number, boolean, object, array; did you mean `string`?
    7:11: nodes.write.type: this host runs no node type "core.identiy"; did you mean `core.identity`?
    9:13: nodes.write.inputs.text: there is no variable "mesage"; did you mean `vars.message`?
    10:14: nodes.write.inputs.draft: there is no node "wriet"; did you mean `write`?
    11:5: nodes.write.confg: unknown key "confg"; did you mean `config`?
    15:19: nodes.wait.config.durationMs: must be a number, not a text
    16:7: nodes.wait.config.duration: unknown key "duration"; did you mean `durationMs`?
    17:12: nodes.wait.after: there is no node "writ"; did you mean `write`?
    18:3: nodes.gate: needs `type`, or `agent` (`callboard nodes list` shows all types)
    "#);
}

#[test]
fn a_published_type_that_is_not_run_is_refused_with_the_reason() {
    for (type_id, why) in [
        ("core.files.pdf-merge", "reads no PDF"),
        ("core.files.sftp", "over HTTP only"),
        ("core.flow.error-handler-rollback", "no step says how it is undone"),
        ("core.openwop.integration.sms-send", "no provider here"),
        ("core.openwop.mcp.server-trigger", "calls tools, resources and prompts"),
    ] {
        let said = said(&format!("id: a\nnodes:\n  x: {{ type: {type_id} }}\n")).join("\n");
        assert!(said.contains(type_id) && said.contains(why), "{said}");
    }
}

#[test]
fn each_kind_of_broken_text_says_what_and_where() {
    let cases = [
        ("half a file", "id: a\nnodes:\n  x: { type: core.noop"),
        ("a key twice", "id: a\nnodes:\n  x: { type: core.noop }\nid: b\n"),
        ("a tab", "id: a\nnodes:\n\tx: { type: core.noop }\n"),
        ("no map", "- a\n- b\n"),
        ("nothing", ""),
        ("no nodes", "id: a\n"),
        ("empty nodes", "id: a\nnodes: {}\n"),
        ("a node that is nothing", "id: a\nnodes:\n  x:\n"),
        ("nodes of the wrong kind", "id: a\nnodes: 5\n"),
        ("two documents", "id: a\nnodes: { x: { type: core.noop } }\n---\nid: b\n"),
    ];
    let told: Vec<String> =
        cases.iter().map(|(what, text)| format!("{what}\n  {}", said(text).join("\n  "))).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    half a file
      3:6: unclosed bracket '{'
    a key twice
      4:1: the key "id" stands here twice
    a tab
      3:2: tabs disallowed within this context (block indentation) (YAML is indented with spaces; this line begins with a tab)
    no map
      1:1: a workflow is a map with `nodes`, not a list
    nothing
      1:1: a workflow is a map with `nodes`, not nothing
    no nodes
      1:1: needs `nodes` (nodes: the steps: a map of id: node, or a list)
    empty nodes
      2:8: nodes: a workflow needs a node (nodes: { hello: { type: core.noop } })
    a node that is nothing
      3:4: nodes.x: must be a map, not nothing
    nodes of the wrong kind
      2:8: nodes: must be a map or a list (a map each), not a number
    two documents
      4:1: another document begins here; a file holds one
    "#);
}

#[test]
fn half_a_json_file_and_a_key_twice_say_where() {
    let said = |text: &str| -> Vec<String> {
        problems(text, Format::Json).iter().map(ToString::to_string).collect()
    };
    assert_eq!(said("{\"id\": \"a\",\n \"nodes\": ["), ["2:11: EOF while parsing a list"]);
    assert_eq!(said("{\"id\": \"a\",\n \"id\": \"b\"}"), ["2:3: the key \"id\" stands here twice"]);
}

#[test]
fn anchors_may_not_explode() {
    let mut text = String::from("id: a\nx0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n");
    for level in 1..12 {
        let below = format!("*x{}", level - 1);
        let items = vec![below; 10].join(", ");
        text.push_str(&format!("x{level}: &x{level} [{items}]\n"));
    }
    let found = problems(&text, Format::Yaml);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, ProblemKind::Syntax);
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = format!("id: a\nx: {}{}\n", "[".repeat(500), "]".repeat(500));
    assert_eq!(problems(&deep, Format::Yaml)[0].kind, ProblemKind::Syntax);
    let deep = format!("{{\"x\": {}{}}}", "[".repeat(100), "]".repeat(100));
    assert_eq!(problems(&deep, Format::Json)[0].kind, ProblemKind::Syntax);
    let large = format!("# {}\n", "x".repeat(callboard_authoring::MOST_BYTES));
    assert_eq!(problems(&large, Format::Yaml)[0].kind, ProblemKind::Syntax);
}

#[test]
fn no_list_of_problems_is_endless() {
    let nodes: String = (0..500).map(|number| format!("  n{number}: {{ typ: x }}\n")).collect();
    let text = format!("id: a\nnodes:\n{nodes}");
    let reading = read(Source { text: &text, format: Format::Yaml, id: None });
    assert_eq!(reading.problems.iter().count(), 50);
    assert!(reading.problems.more() > 400);
}

#[test]
fn a_cycle_with_two_ways_in_is_named_where_it_was_written() {
    let text = "\
id: a
nodes:
  one: { type: core.noop, next: [x, y] }
  x: { type: core.noop, after: y }
  y: { type: core.noop, after: x }
";
    assert_eq!(said(text), ["4:32: nodes.x.after: edge y-x closes a cycle with two ways in"]);
}

#[test]
fn only_a_type_that_nobody_runs_leaves_a_definition() {
    let text = "id: a\nnodes:\n  x: { type: vendor.acme.thing }\n";
    let reading = read(Source { text, format: Format::Yaml, id: None });
    assert!(reading.canonical.is_some());
    assert!(reading.problems.are_only_node_types() && !reading.problems.is_empty());
    let near = problems("id: a\nnodes:\n  x: { type: approvalGate }\n", Format::Yaml);
    assert_eq!(near[0].did_you_mean.as_deref(), Some("core.approvalGate"));
}

#[test]
fn a_template_that_names_nothing_is_a_problem() {
    for (template, expected) in [
        ("${vars.nope}", "there is no variable \"nope\""),
        ("${nodes.nope.x}", "there is no node \"nope\""),
        ("${nodes.a.other}", "node \"a\" has no output \"other\""),
        ("${something}", "\"something\" names nothing that there is"),
        ("${inputs.nope}", "no variable \"nope\" is declared"),
        ("${vars.text + nope}", "\"nope\" names nothing that there is"),
        ("${1 +}", "is no expression"),
        ("${", "`${` has no `}`"),
        ("${}", "`${}` names nothing"),
        ("x ${vars.nope} y", "there is no variable \"nope\""),
    ] {
        let text = format!(
            "id: a\nvariables: {{ text: string }}\nnodes:\n  a:\n    type: core.identity\n    inputs: {{ one: 1 }}\n  b:\n    type: core.identity\n    inputs:\n      port: \"{template}\"\n"
        );
        let found = problems(&text, Format::Yaml);
        assert_eq!(found.len(), 1, "{template}: {found:?}");
        assert!(found[0].message.contains(expected), "{template}: {}", found[0]);
        assert_eq!(found[0].path, "nodes.b.inputs.port");
        assert_eq!(found[0].spot.map(|spot| (spot.line, spot.column)), Some((10, 13)));
    }
}

#[test]
fn a_value_of_the_wrong_kind_is_found_in_every_node_type() {
    for node in callboard_authoring::node_types() {
        for field in node.config {
            if field.shape.words().contains("any value") {
                continue;
            }
            // No field takes a list of lists.
            let text = format!(
                "id: a\nnodes:\n  x:\n    type: {}\n    config:\n      {}: [[[]]]\n",
                node.type_id, field.name
            );
            let found = problems(&text, Format::Yaml);
            let path = format!("nodes.x.config.{}", field.name);
            assert!(
                found.iter().any(|problem| problem.path.starts_with(&path)
                    && problem.message.contains("must be")),
                "{text}: {found:?}"
            );
        }
    }
}

#[test]
fn nothing_that_is_read_breaks_the_reader() {
    // Every beginning of a text, and every text with one thing of another kind in it.
    let text = "id: a\nversion: 1\nvariables: { m: string }\ntriggers: [manual]\nedges: [a -> b]\nnodes:\n  a: { type: core.noop, after: b, inputs: { x: 1 } }\n  b: { type: core.identity, next: [a], config: { tag: x } }\n";
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        problems(&text[..end], Format::Yaml);
    }
    for wrong in ["null", "5", "[]", "{}", "[5]", "true", "\"\"", "{type: 5}", "[[]]"] {
        for key in ["id", "version", "variables", "triggers", "edges", "nodes", "metadata"] {
            let text = format!("{key}: {wrong}\nname: x\n");
            assert!(!problems(&text, Format::Yaml).is_empty(), "{text}");
        }
        for key in ["type", "agent", "after", "next", "inputs", "config", "name", "id", "position"]
        {
            problems(
                &format!("id: a\nnodes:\n  x: {{ type: core.noop }}\n  y: {{ {key}: {wrong} }}\n"),
                Format::Yaml,
            );
            problems(&format!("id: a\nnodes:\n  - {{ {key}: {wrong} }}\n"), Format::Yaml);
        }
    }
}

/// The config of a published type is judged by its pack's schema, where it was written.
#[test]
fn the_config_of_a_published_type_is_checked_where_it_stands() {
    let text = "\
id: a
nodes:
  get:
    type: core.openwop.http.fetch
    config:
      methd: GET
  few:
    type: core.flow.limit
    config:
      count: -1
  names:
    type: callboard.each
    inputs: { items: [] }
    config:
      body:
        - { type: core.openwop.data.string-case, inputs: { text: '${itm.name}' } }
";
    insta::assert_snapshot!(said(text).join("\n"), @r#"
    6:7: nodes.get.config.methd: unknown key "methd"; did you mean `method`?
    10:14: nodes.few.config.count: must be a whole number of at least 0
    16:66: nodes.names.config.body[0].inputs.text: "itm" names nothing that there is (a template begins with vars, nodes, inputs or ctx)
    "#);
    // What only the schema knows is told at the place in the text, too.
    let text =
        "id: a\nnodes:\n  few:\n    type: core.flow.if\n    config: { predicate: { op: eq } }\n";
    insta::assert_snapshot!(said(text).join("\n"), @r#"5:26: nodes.few.config.predicate: "path" is a required property"#);
}

/// An approval would show its reader the template itself.
#[test]
fn a_template_in_a_config_is_a_problem() {
    let text = "\
id: gate
variables: { team: string }
nodes:
  look:
    type: core.approvalGate
    config:
      title: Post this to ${vars.team}?
      description: It costs $${5}.
";
    insta::assert_snapshot!(said(text).join("\n"), @"7:14: nodes.look.config.title: a template is filled in inputs only (write it as `title` of `inputs`, where the type takes it)");
    let moved = text.replace("      title: Post this to ${vars.team}?\n", "")
        + "    inputs: { title: \"Post this to ${vars.team}?\" }\n";
    assert_eq!(said(&moved), [""; 0]);
}

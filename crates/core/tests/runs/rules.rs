//! The five trigger rules, the run's result and the order of nodes (F3, F6, F7, F8).

use serde_json::json;

use crate::given::{Do, given};
use crate::story::{check, check_within, play};

/// F3: started, completed, completed.
#[test]
fn f3_a_noop_run_tells_four_events() {
    let expected = ["run.started", "node.started n", "node.completed n", "run.completed"];
    check(&given("n:noop"), &[(0, Do::Start)], &expected);
}

/// F6: the node fails, then the run, with the node's error.
#[test]
fn f6_a_failing_node_fails_its_run() {
    let expected = [
        "run.started",
        "node.started f",
        "node.failed f conformance_test_failure",
        "run.failed conformance_test_failure",
    ];
    let played = check(&given("f:fail"), &[(0, Do::Start)], &expected);
    let payload = played.payload("run.failed");
    assert_eq!(payload["error"]["message"], "Intentional conformance failure");
    assert_eq!(payload["failedNodeId"], "f");
    assert_eq!(played.snapshot().error.expect("an error").code, "conformance_test_failure");
    let said = given("f:fail").config("f", json!({ "code": "mine", "message": "words" }));
    assert_eq!(play(&said, &[(0, Do::Start)]).payload("run.failed")["error"]["code"], "mine");
}

/// The protocol's error object has no room for empty texts.
#[test]
fn f6_a_failure_without_words_gets_the_default_ones() {
    let flow = given("f:fail").config("f", json!({ "code": "", "message": "" }));
    let error = play(&flow, &[(0, Do::Start)]).payload("run.failed")["error"].clone();
    assert_eq!(
        error,
        json!({ "code": "conformance_test_failure", "message": "Intentional conformance failure" })
    );
}

/// F7: topological, ties by id, whatever the order in the file.
#[test]
fn f7_nodes_complete_in_the_order_of_the_graph() {
    let flow = given("d:noop c:noop b:noop a:noop").edges("d>c d>b b>a c>a");
    let expected = ["node.completed d", "node.completed b", "node.completed c", "node.completed a"];
    check_within(&flow, &[(0, Do::Start)], &expected);
}

/// What a target with two upstreams does. `+` completes, `-` fails, `0` is skipped.
const TABLE: [(&str, &str, &str); 30] = [
    ("all_success", "++", "run"),
    ("all_success", "+-", "skip"),
    ("all_success", "+0", "run"),
    ("all_success", "--", "skip"),
    ("all_success", "-0", "skip"),
    ("all_success", "00", "skip"),
    ("any_success", "++", "run"),
    ("any_success", "+-", "run"),
    ("any_success", "+0", "run"),
    ("any_success", "--", "skip"),
    ("any_success", "-0", "skip"),
    ("any_success", "00", "skip"),
    ("all_complete", "++", "run"),
    ("all_complete", "+-", "run"),
    ("all_complete", "+0", "run"),
    ("all_complete", "--", "run"),
    ("all_complete", "-0", "run"),
    ("all_complete", "00", "run"),
    ("none_failed", "++", "run"),
    ("none_failed", "+-", "skip"),
    ("none_failed", "+0", "run"),
    ("none_failed", "--", "skip"),
    ("none_failed", "-0", "skip"),
    ("none_failed", "00", "run"),
    ("any_failed", "++", "skip"),
    ("any_failed", "+-", "run"),
    ("any_failed", "+0", "skip"),
    ("any_failed", "--", "run"),
    ("any_failed", "-0", "run"),
    ("any_failed", "00", "skip"),
];

/// F8: the whole table, each mix in both orders.
#[test]
fn f8_each_rule_over_each_mix_of_upstreams() {
    for (rule, mix, expected) in TABLE {
        let reversed: String = mix.chars().rev().collect();
        for mix in [mix, &reversed] {
            let kind = |end: char| if end == '-' { "fail" } else { "noop" };
            let ends: Vec<char> = mix.chars().collect();
            let mut flow = given(&format!("a:{} b:{} t:noop", kind(ends[0]), kind(ends[1])))
                .edges(&format!("a>t:{rule} b>t:{rule}"));
            for (node, end) in ["a", "b"].into_iter().zip(&ends) {
                if *end == '0' {
                    flow = flow.node(node, json!({ "disabled": true }));
                }
            }
            let told = play(&flow, &[(0, Do::Start)]).lines;
            let wanted = if expected == "run" { "node.completed t" } else { "node.skipped t" };
            assert!(told.contains(&wanted.to_owned()), "{rule} over {mix}: {told:#?}");
        }
    }
}

/// F8: any_success and any_failed do not wait for the rest; the others do.
#[test]
fn f8_only_the_any_rules_start_before_all_upstreams_ended() {
    for (rule, kind, is_early) in [
        ("any_success", "noop", true),
        ("any_failed", "fail", true),
        ("all_success", "noop", false),
        ("all_complete", "noop", false),
        ("none_failed", "noop", false),
    ] {
        let flow =
            given(&format!("a:{kind} slow:ai t:noop")).edges(&format!("a>t:{rule} slow>t:{rule}"));
        let early = play(&flow, &[(0, Do::Start)]);
        assert_eq!(early.count("node.completed") > usize::from(kind == "noop"), is_early, "{rule}");
        let late = play(&flow, &[(0, Do::Start), (5, Do::Done("slow", json!({})))]);
        assert!(late.lines.contains(&"run.completed".to_owned()), "{rule}: {:#?}", late.lines);
    }
}

/// F8: none_failed rules its target out with the first failure.
#[test]
fn f8_none_failed_skips_at_the_first_failure() {
    let flow = given("f:fail slow:ai t:noop").edges("f>t:none_failed slow>t:none_failed");
    let played = play(&flow, &[(0, Do::Start)]);
    assert!(played.lines.contains(&"node.skipped t".to_owned()));
}

/// F8: an any_failed route rescues the run, and the failure reaches its handler as `error`.
#[test]
fn f8_a_rescue_completes_the_run() {
    let flow = given("a:fail b:ai c:noop").edges("a>b:any_failed a>c");
    let steps = [(0, Do::Start), (1, Do::Done("b", json!({ "ok": true })))];
    let expected = [
        "run.started",
        "node.started a",
        "node.failed a conformance_test_failure",
        "node.started b",
        "node.skipped c",
        "node.completed b",
        "run.completed",
    ];
    let played = check(&flow, &steps, &expected);
    assert_eq!(played.payload("run.completed")["outputs"], json!({ "ok": true }));
    let owed = play(&flow, &[(0, Do::Start)]);
    let task = owed.run.tasks().next().expect("b is owed");
    assert_eq!(task.inputs["error"]["code"], "conformance_test_failure");
}

/// F8: a failure that nothing handles fails the run, even when another path reached its end.
#[test]
fn f8_an_unhandled_failure_outweighs_a_completed_sink() {
    let flow = given("a:fail b:noop z:noop").edges("a>b");
    let expected = [
        "node.failed a conformance_test_failure",
        "node.skipped b",
        "node.completed z",
        "run.failed conformance_test_failure",
    ];
    let told = check_within(&flow, &[(0, Do::Start)], &expected[..1]).lines;
    assert_eq!(told.last().expect("lines"), expected[3]);
    assert!(told.contains(&expected[1].to_owned()) && told.contains(&expected[2].to_owned()));
}

#[test]
fn f8_a_rescue_that_fails_fails_the_run_with_its_own_error() {
    let flow =
        given("a:fail b:fail").edges("a>b:any_failed").config("b", json!({ "code": "second" }));
    let played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(played.payload("run.failed")["error"]["code"], "second");
}

#[test]
fn f8_a_run_whose_sinks_are_all_skipped_fails() {
    let disabled = given("a:noop").node("a", json!({ "disabled": true }));
    let expected = ["run.started", "node.skipped a", "run.failed no_path_completed"];
    check(&disabled, &[(0, Do::Start)], &expected);
    let flow = given("a:noop b:noop").edges("a>b").node("b", json!({ "disabled": true }));
    check_within(&flow, &[(0, Do::Start)], &["node.completed a", "run.failed no_path_completed"]);
}

/// Where incoming edges disagree, the one with the smallest id decides.
#[test]
fn f8_the_smallest_edge_id_decides_the_rule() {
    let flow = |first: &str, second: &str| {
        given("a:noop f:fail t:noop").edges(&format!("a>t:{first} f>t:{second}"))
    };
    let runs = |first: &str, second: &str| {
        play(&flow(first, second), &[(0, Do::Start)]).lines.contains(&"node.completed t".to_owned())
    };
    assert!(runs("all_complete", "all_success"));
    assert!(!runs("all_success", "all_complete"));
    let renamed = flow("all_success", "all_complete").edge(0, json!({ "id": "z" }));
    let told = play(&renamed, &[(0, Do::Start)]).lines;
    assert!(told.contains(&"node.completed t".to_owned()), "{told:#?}");
}

/// The run's outputs are the completed sinks' outputs, merged in the order of node ids.
#[test]
fn outputs_of_sinks_merge_in_the_order_of_their_ids() {
    let flow = given("z:identity a:identity")
        .ports("z", json!({ "x": { "type": "static", "value": 2 } }))
        .ports(
            "a",
            json!({ "x": { "type": "static", "value": 1 }, "y": { "type": "static", "value": 3 } }),
        );
    let played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(played.payload("run.completed")["outputs"], json!({ "x": 2, "y": 3 }));
}

#[test]
fn a_merge_in_mode_any_starts_with_the_first_of_its_upstreams() {
    let flow =
        given("a:noop slow:ai m:merge").edges("a>m slow>m").config("m", json!({ "mode": "any" }));
    let told = play(&flow, &[(0, Do::Start)]).lines;
    assert!(told.contains(&"node.completed m".to_owned()), "{told:#?}");
    let flow = flow.config("m", json!({ "mode": "all" }));
    let told = play(&flow, &[(0, Do::Start)]).lines;
    assert!(!told.contains(&"node.completed m".to_owned()), "{told:#?}");
}

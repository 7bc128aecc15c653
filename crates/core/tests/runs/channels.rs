//! Channels: reducers, time-to-live, size, access, and what a write tells (F15–F20, F23, F25).

use serde_json::{Value, json};

use crate::given::{Do, Given, at, given};
use crate::story::{check_within, play};

/// A chain of writers of one declared channel, one value each.
fn writers(declaration: Value, values: &[Value]) -> Given {
    let nodes: Vec<String> =
        (0..values.len()).map(|place| format!("w{place}:channelWrite")).collect();
    let edges: Vec<String> =
        (1..values.len()).map(|place| format!("w{}>w{place}", place - 1)).collect();
    let flow = given(&nodes.join(" "))
        .edges(&edges.join(" "))
        .top(json!({ "channels": { "c": declaration } }));
    values.iter().enumerate().fold(flow, |flow, (place, value)| {
        flow.config(&format!("w{place}"), json!({ "channelName": "c", "value": value }))
    })
}

fn folded(declaration: Value, values: &[Value]) -> Value {
    let played = play(&writers(declaration, values), &[(0, Do::Start)]);
    assert_eq!(played.lines.last().expect("lines"), "run.completed", "{:#?}", played.lines);
    played.channel("c")
}

/// F15: the seven reducers, and a vendor's, which folds like replace.
#[test]
fn f15_each_reducer_folds_as_tabled() {
    let vote = |user: &str, action: &str| json!({ "userId": user, "action": action });
    let cases = [
        ("replace", json!([1, { "x": 2 }]), json!({ "x": 2 })),
        ("append", json!([1, "two", [3]]), json!([1, "two", [3]])),
        (
            "merge",
            json!([{ "a": 1, "b": { "x": 1 } }, { "b": { "y": 2 } }]),
            json!({ "a": 1, "b": { "y": 2 } }),
        ),
        ("counter", json!([5, -2, 0.5]), json!(3.5)),
        ("counter", json!([5, -7]), json!(-2)),
        (
            "votes",
            json!([vote("u", "accept"), vote("v", "accept"), vote("u", "reject")]),
            json!([vote("v", "accept"), vote("u", "reject")]),
        ),
        (
            "feedback",
            json!([{ "feedback": "a", "iteration": 1 }, { "feedback": "a", "iteration": 1 }]),
            json!([{ "feedback": "a", "iteration": 1 }, { "feedback": "a", "iteration": 1 }]),
        ),
        (
            "message",
            json!([{ "messageId": "1", "t": 1 }, { "messageId": "2" }, { "messageId": "1", "t": 9 }]),
            json!([{ "messageId": "1", "t": 1 }, { "messageId": "2" }]),
        ),
        ("vendor.acme.mix", json!([1, 2]), json!(2)),
    ];
    for (reducer, values, expected) in cases {
        let values = values.as_array().expect("a list").clone();
        assert_eq!(folded(json!({ "reducer": reducer }), &values), expected, "{reducer}");
    }
}

/// A channel that nobody wrote holds its default, or what its reducer starts from.
#[test]
fn f15_a_channel_starts_from_its_default() {
    for (declaration, expected) in [
        (json!({ "reducer": "append" }), json!([])),
        (json!({ "reducer": "counter" }), json!(0)),
        (json!({ "reducer": "merge" }), json!({})),
        (json!({ "reducer": "replace" }), Value::Null),
        (json!({ "reducer": "counter", "default": 40 }), json!(40)),
    ] {
        let flow = given("n:noop").top(json!({ "channels": { "c": declaration } }));
        assert_eq!(play(&flow, &[(0, Do::Start)]).channel("c"), expected);
    }
    assert_eq!(folded(json!({ "reducer": "counter", "default": 40 }), &[json!(2)]), json!(42));
}

/// F15: a value that does not suit the reducer fails its node before anything is written.
#[test]
fn f15_a_value_of_the_wrong_kind_is_not_written() {
    for (reducer, value) in [
        ("merge", json!(1)),
        ("counter", json!("1")),
        ("votes", json!({})),
        ("message", json!("m")),
    ] {
        let flow = writers(json!({ "reducer": reducer }), &[value]);
        let played = check_within(&flow, &[(0, Do::Start)], &["node.failed w0 validation_error"]);
        assert_eq!(played.count("channel.written"), 0);
    }
}

/// F16: the event carries the write's input, the reducer in force, its time and version.
#[test]
fn f16_a_write_tells_its_input_and_not_what_it_came_to() {
    let flow =
        writers(json!({ "reducer": "append", "schemaVersion": 3 }), &[json!("x"), json!("y")]);
    let played = play(&flow, &[(9, Do::Start)]);
    let written: Vec<Value> = played
        .log
        .iter()
        .filter(|entry| entry.event.kind() == "channel.written")
        .map(|entry| entry.event.payload())
        .collect();
    let expected = json!({ "channel": "c", "value": "y", "reducer": "append", "writtenAt": at(9),
        "nodeId": "w1", "schemaVersion": 3 });
    assert_eq!(written[1], expected);
}

/// F17: entries stand in the order of the log.
#[test]
fn f17_entries_keep_the_order_of_the_log() {
    let values: Vec<Value> = (0..20).map(Value::from).collect();
    assert_eq!(folded(json!({ "reducer": "append" }), &values), Value::Array(values.clone()));
}

/// F18: pruned at the next write, by that write's recorded time; entries are wrapped.
#[test]
fn f18_old_entries_go_when_a_new_one_is_written() {
    for (reducer, value) in [
        ("append", json!("v")),
        ("feedback", json!({ "feedback": "f" })),
        ("votes", json!({ "userId": "u" })),
    ] {
        let flow = given("a:channelWrite wait:delay b:channelWrite")
            .edges("a>wait wait>b")
            .config("a", json!({ "channelName": "c", "value": value }))
            .config("wait", json!({ "durationMs": 300 }))
            .config("b", json!({ "channelName": "c", "value": { "userId": "other" } }))
            .top(json!({ "channels": { "c": { "reducer": reducer, "ttlMs": 200 } } }));
        let first = play(&flow, &[(0, Do::Start), (250, Do::Continue)]);
        let entry = json!({ "value": value, "_ts": at(0).as_millis() });
        assert_eq!(first.channel("c"), json!([entry]), "{reducer}: reading does not prune");
        let second = play(&flow, &[(0, Do::Start), (300, Do::Continue)]);
        let newest = json!({ "value": { "userId": "other" }, "_ts": at(300).as_millis() });
        assert_eq!(second.channel("c"), json!([newest]), "{reducer}");
    }
}

/// F18: an entry exactly as old as its time-to-live still stands; one millisecond more and it goes.
#[test]
fn f18_the_bound_itself_still_stands() {
    let flow = |wait: u64| {
        given("a:channelWrite wait:delay b:channelWrite")
            .edges("a>wait wait>b")
            .config("a", json!({ "channelName": "c", "value": 1, "ttlMs": 200 }))
            .config("wait", json!({ "durationMs": wait }))
            .config("b", json!({ "channelName": "c", "value": 2, "ttlMs": 200 }))
    };
    let entries = |wait: i64| {
        let played = play(&flow(wait.unsigned_abs()), &[(0, Do::Start), (wait, Do::Continue)]);
        played.variable("c").as_array().expect("a list").len()
    };
    assert_eq!((entries(200), entries(201)), (2, 1));
}

/// F18: an undeclared channel takes everything from its writers and is read as a variable.
#[test]
fn f18_an_undeclared_channel_is_seen_among_the_variables() {
    let write = |value: &str| json!({ "channelName": "events", "reducer": "append", "ttlMs": 200, "value": value });
    let flow = given("a:channelWrite b:channelWrite wait:delay d:channelWrite")
        .edges("a>b b>wait wait>d")
        .config("a", write("a"))
        .config("b", write("b"))
        .config("wait", json!({ "ms": 300 }))
        .config("d", write("d"));
    let played = play(&flow, &[(0, Do::Start), (300, Do::Continue)]);
    assert_eq!(played.variable("events"), json!([{ "value": "d", "_ts": at(300).as_millis() }]));
}

/// Votes replace a voter's earlier vote also where entries are wrapped.
#[test]
fn f18_votes_with_a_time_to_live_still_replace() {
    let values = [json!({ "userId": "u", "action": "a" }), json!({ "userId": "u", "action": "b" })];
    let entries = folded(json!({ "reducer": "votes", "ttlMs": 1000 }), &values);
    assert_eq!(entries, json!([{ "value": values[1], "_ts": at(0).as_millis() }]));
}

/// F19: the size counts after pruning, so an old entry does not push out a fresh one.
#[test]
fn f19_size_is_bounded_after_pruning() {
    let flow = given("a:channelWrite wait:delay b:channelWrite c:channelWrite")
        .edges("a>wait wait>b b>c")
        .config("a", json!({ "channelName": "ch", "value": "old" }))
        .config("wait", json!({ "durationMs": 300 }))
        .config("b", json!({ "channelName": "ch", "value": "b" }))
        .config("c", json!({ "channelName": "ch", "value": "c" }))
        .top(json!({ "channels": { "ch": { "reducer": "append", "ttlMs": 200, "maxSize": 2 } } }));
    let played = play(&flow, &[(0, Do::Start), (300, Do::Continue)]);
    let kept: Vec<Value> = played
        .channel("ch")
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["value"].clone())
        .collect();
    assert_eq!(kept, ["b", "c"]);
    let values: Vec<Value> = (0..5).map(Value::from).collect();
    assert_eq!(folded(json!({ "reducer": "append", "maxSize": 3 }), &values), json!([2, 3, 4]));
}

/// F19: where writes do not add up to a list, a value over the size is refused.
#[test]
fn f19_a_large_value_is_refused_where_nothing_can_be_dropped() {
    for (reducer, value) in
        [("replace", json!([1, 2, 3])), ("merge", json!({ "a": 1, "b": 2, "c": 3 }))]
    {
        let flow = writers(json!({ "reducer": reducer, "maxSize": 2 }), &[value]);
        check_within(&flow, &[(0, Do::Start)], &["node.failed w0 validation_error"]);
    }
}

/// F20: public, private, lists of node ids, of types, and of types by prefix; for both sides.
#[test]
fn f20_access_is_granted_by_the_declaration_alone() {
    for (access, may_write) in [
        (json!("public"), true),
        (json!("private"), false),
        (json!({ "writers": ["w0"] }), true),
        (json!({ "writers": ["other"] }), false),
        (json!({ "writers": [] }), false),
        (json!({ "writers": ["core.*"] }), true),
        (json!({ "writers": ["core.channel*"] }), true),
        (json!({ "writers": ["vendor.*"] }), false),
        (json!({ "readers": ["nobody"] }), true),
    ] {
        let flow = writers(json!({ "reducer": "append", "access": access }), &[json!(1)]);
        let wanted =
            if may_write { "run.completed" } else { "node.failed w0 channel_access_denied" };
        check_within(&flow, &[(0, Do::Start)], &[wanted]);
    }
}

#[test]
fn f20_a_denial_names_the_channel_the_node_and_the_side() {
    let flow = writers(json!({ "reducer": "append", "access": "private" }), &[json!(1)]);
    let error = play(&flow, &[(0, Do::Start)]).payload("node.failed")["error"].clone();
    let expected = json!({ "channel": "c", "requestedBy": { "nodeId": "w0", "typeId": "core.channelWrite" }, "allowed": "writers" });
    assert_eq!(error["details"], expected);
    for (readers, expected) in
        [(json!(["r"]), "run.completed"), (json!(["x*"]), "node.failed r channel_access_denied")]
    {
        let reading = given("r:getVariable").config("r", json!({ "name": "c" })).top(
            json!({ "channels": { "c": { "reducer": "append", "access": { "readers": readers } } } }),
        );
        check_within(&reading, &[(0, Do::Start)], &[expected]);
    }
}

/// F23: a declared channel is not a variable, whoever tries.
#[test]
fn f23_a_channel_is_not_written_through_variables() {
    let channels = json!({ "channels": { "c": { "reducer": "append" } } });
    let set = given("s:setVariable")
        .config("s", json!({ "name": "c", "value": 1 }))
        .top(channels.clone());
    check_within(&set, &[(0, Do::Start)], &["node.failed s validation_error"]);
    let echo = given("i:identity")
        .ports("i", json!({ "c": { "type": "static", "value": 1 } }))
        .top(channels.clone());
    check_within(&echo, &[(0, Do::Start)], &["node.failed i validation_error"]);
    let other = given("s:setVariable")
        .config("s", json!({ "name": "d", "value": 1 }))
        .top(channels.clone());
    check_within(&other, &[(0, Do::Start)], &["variable.changed d 1", "run.completed"]);
    let declared = given("n:noop")
        .top(channels.clone())
        .top(json!({ "variables": [{ "name": "c", "type": "array" }] }));
    assert_eq!(declared.plan().expect_err("twice").path, "variables[0].name");
    let namesake = given("c:ai r:ai")
        .edges("c>r")
        .top(channels)
        .ports("r", json!({ "seen": { "type": "variable", "variableName": "c" } }));
    let played = play(&namesake, &[(0, Do::Start), (1, Do::Done("c", json!({ "text": "x" })))]);
    assert_eq!(played.run.tasks().next().expect("r is owed").inputs["seen"], json!([]));
    assert_eq!(played.channel("c"), json!([]));
}

/// F25: the same message twice is one message.
#[test]
fn f25_messages_fold_once_by_their_id() {
    let flow = given("probe:identity")
        .config("probe", json!({ "emitDuplicateMessageId": true }))
        .top(json!({ "channels": { "messages": { "reducer": "message" } } }));
    let played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(played.count("channel.written"), 2);
    assert_eq!(played.channel("messages").as_array().expect("a list").len(), 1);
}

/// A declared schema holds for what a write comes to.
#[test]
fn a_write_that_would_break_the_schema_is_refused() {
    let declaration = json!({ "reducer": "append", "schema": { "type": "array", "items": { "type": "number" } } });
    assert_eq!(folded(declaration.clone(), &[json!(1), json!(2)]), json!([1, 2]));
    let flow = writers(declaration, &[json!(1), json!("two")]);
    let played = check_within(&flow, &[(0, Do::Start)], &["node.failed w1 validation_error"]);
    assert_eq!(played.channel("c"), json!([1]));
}

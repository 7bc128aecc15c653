//! What expressions and conditions mean, and what they may cost.

use serde_json::json;

use super::*;

fn evaluated(expression: &str, names: &Object) -> Result<Value, Failure> {
    let mut all = Names::default();
    all.extend(names);
    evaluate(expression, &all, &mut Work::default())
}

fn check(condition: Value, outputs: Value, expected: bool) {
    let condition: EdgeCondition =
        serde_json::from_value(condition).unwrap_or_else(|error| panic!("{error}"));
    let Value::Object(outputs) = outputs else { panic!("outputs are an object") };
    assert_eq!(
        holds(&condition, &outputs, Names::default, &mut Work::default()),
        Ok(expected),
        "{condition:?} over {outputs:?}"
    );
}

#[test]
fn each_condition_type_judges_the_sources_outputs() {
    let outputs =
        json!({ "status": "ok", "n": 3, "tags": ["a", "b"], "deep": { "x": [{ "y": true }] } });
    for (condition, expected) in [
        (json!({ "type": "equals", "left": "status", "right": "ok" }), true),
        (json!({ "type": "equals", "left": "output.status", "right": "ok" }), true),
        (json!({ "type": "equals", "left": "n", "right": 3.0 }), true),
        (json!({ "type": "equals", "left": "deep.x.0.y", "right": true }), true),
        (json!({ "type": "equals", "left": "nowhere", "right": "ok" }), false),
        (json!({ "type": "notEquals", "left": "status", "right": "ok" }), false),
        (json!({ "type": "notEquals", "left": "nowhere", "right": "ok" }), true),
        (json!({ "type": "contains", "left": "tags", "right": "b" }), true),
        (json!({ "type": "contains", "left": "status", "right": "o" }), true),
        (json!({ "type": "contains", "left": "deep", "right": "x" }), true),
        (json!({ "type": "contains", "left": "n", "right": 3 }), false),
        (json!({ "type": "regex", "left": "status", "right": "^o.$" }), true),
        (json!({ "type": "regex", "left": "n", "right": "3" }), false),
        (json!({ "type": "expression", "expression": "n > 2 and output.status == 'ok'" }), true),
        (json!({ "type": "expression", "expression": "missing" }), false),
    ] {
        check(condition, outputs.clone(), expected);
    }
}

#[test]
fn a_broken_or_greedy_expression_is_a_failure_and_not_a_panic() {
    for expression in ["a.b.c.d()", "range(1000000)", "1 +", "x|nothing", "x is nothing"] {
        assert!(evaluated(expression, &Object::new()).is_err(), "{expression}");
    }
    let condition = EdgeCondition {
        kind: Some(ConditionType::Regex),
        left: Some("s".into()),
        right: Some("(".into()),
        expression: None,
    };
    let outputs = Object::from_iter([("s".to_owned(), json!("x"))]);
    assert!(holds(&condition, &outputs, Names::default, &mut Work::default()).is_err());
}

const MEANT: &[&str] = &[
    "n + 1",
    "n - 1",
    "n * 2",
    "n / 2",
    "n // 2",
    "n % 2",
    "n ** 2",
    "-n",
    "not n",
    "1 < n < 5",
    "n == 3 and t",
    "none or 'x'",
    "n in list",
    "n not in list",
    "'a' in t",
    "t ~ n ~ list",
    "'a' + t",
    "list + [9]",
    "[1] * 3",
    "'ab' * 2",
    "3 * 'x'",
    "list[0]",
    "list[-1]",
    "list[1:]",
    "list[::-1]",
    "t[:2]",
    "map['a']",
    "map.b.1",
    "rows[0].k",
    "missing",
    "map.missing",
    "'x' if n > 2 else 'y'",
    "'x' if n > 5",
    "{'a': n, 'b': [t]}",
    "(1, 2)",
    "range(3)",
    "dict(a=1)",
    "t|upper|length",
    "list|sort|join('-')",
    "list|sort(reverse=true)|first",
    "rows|map(attribute='k')|list",
    "list|map('string')|join",
    "t|split(',')|list",
    "t|lines|list",
    "t|replace('a', 'z')",
    "t|indent(2)",
    "t|indent(width=2, first=true)",
    "'%.2f|%s'|format(1.5, n)",
    "list|batch(2, 0)|list",
    "list|slice(2)|list",
    "map|items|list",
    "map|dictsort",
    "rows|selectattr('v')|list",
    "list|select('odd')|list",
    "list|sum",
    "list|max",
    "missing|default('d')",
    "'<a>'|escape",
    "n is odd",
    "n is divisibleby(3)",
    "missing is defined",
    "list|zip(list)|list",
    "rows|groupby('k')",
    "list|reverse|list",
    "list|unique|list",
    "map|string",
    "list|chain([1])|list",
    "'2'|int + 1",
    "t|title",
    "''|trim('a')",
    "[]|sort|unique|list",
    "{}|dictsort",
];

/// What minijinja itself makes of an expression is what it comes to here, one step at a time.
#[test]
fn every_kind_of_step_means_what_it_means_to_minijinja() {
    let names = json!({
        "n": 3, "t": "a,b\nc", "list": [3, 1, 2], "rows": [{ "k": "x", "v": 1 }, { "k": "y" }],
        "map": { "a": 1, "b": [1, 2] }, "none": null,
    });
    let Value::Object(names) = names else { panic!("names are an object") };
    for expression in MEANT {
        let whole = minijinja::Environment::new()
            .compile_expression(expression)
            .and_then(|it| it.eval(minijinja::value::Serde(&names)))
            .unwrap_or_else(|error| panic!("{expression}: {error}"));
        let whole = match whole.is_undefined() {
            true => Value::Null,
            false => serde_json::to_value(whole).unwrap_or_else(|error| panic!("{error}")),
        };
        assert_eq!(evaluated(expression, &names), Ok(whole), "{expression}");
    }
}

const GREEDY: &[&str] = &[
    "v ~ v",
    "v + v",
    "[v, v]",
    "{'a': v, 'b': v}",
    "'a' * 100000000",
    "l * 1000000",
    "([[l] * 1000] * 1000) * 1000",
    "'a'|indent(20000000000)",
    "'a\nb'|indent(width=20000000000)",
    "['a']|map('indent', 20000000000)|list",
    "v|replace('a', v)",
    "v|replace('', 'abc')",
    "range(100000)|join(l[0])",
    "v|list",
    "range(100000)|join(d=l[0])",
    "[1]|batch(2000000000, 0)",
    "[1]|slice(2000000000)",
    "'%2000000000d'|format(1)",
    "'%*d'|format(2000000000, 1)",
    "v|split('')",
    "v|escape",
    "range(100000)|map('replace', '', l[0])",
    "range(90000)|select('in', range(90000))",
    "[v]|string",
    "debug()",
    "v|pprint",
];

/// Each of these made gigabytes, or ended the process, where steps alone were counted.
#[test]
fn no_expression_makes_more_than_a_run_can_keep() {
    let names =
        json!({ "v": "a".repeat(9 << 20), "s": "\\".repeat(64), "l": ["x".repeat(1 << 20)] });
    let Value::Object(names) = names else { panic!("names are an object") };
    let quoted = (0..60).fold("s".to_owned(), |inner, _| format!("([{inner}] ~ '')"));
    let long = [
        quoted,
        "v ~ ".repeat(1_000) + "v",
        "-".repeat(4_000) + "v",
        "not ".repeat(1_000) + "v",
        "v".to_owned() + &"|string".repeat(400),
        "1 ~ ".repeat(500_000) + "v",
    ];
    for expression in GREEDY.iter().copied().chain(long.iter().map(String::as_str)) {
        let shown: String = expression.chars().take(40).collect();
        assert!(evaluated(expression, &names).is_err(), "{shown}");
    }
}

/// Each of these was many seconds of processor where only what an expression makes was paid for.
#[test]
fn what_looks_at_much_again_and_again_is_cut_off() {
    let names = json!({
        "l": vec![1; 600_000], "t": "ab".repeat(2 << 20), "m": { "a": vec![1; 600_000] },
        "rows": (0..40_000).map(|at| json!({ "k": at })).collect::<Vec<_>>(),
    });
    let Value::Object(names) = names else { panic!("names are an object") };
    let mut all = Names::default();
    all.extend(&names);
    for part in [
        "2 in l",
        "l == m.a",
        "l|length",
        "l|max",
        "l is in([l])",
        "t in t",
        "t|length",
        "t == t",
        "t <= t <= t",
        "t|lower|length",
        "t|string|first",
        "t|trim('b')|length",
        "t is endingwith(t)",
        "rows|sort(attribute='k')|first",
        "rows|selectattr('k')|length",
    ] {
        let text = format!("[{}]|length", vec![part; 4_000 / (part.len() + 2)].join(", "));
        let mut work = Work::default();
        let failure = evaluate(&text, &all, &mut work).expect_err(part);
        let is_cut_off = failure.code == WORK_LIMIT_EXCEEDED || failure.code == "expression_error";
        assert!(is_cut_off, "{part}: {failure:?}");
        assert!(work.spent() <= crate::work::STEP, "{part}");
    }
}

/// Taking a part of something large is not reading all of it.
#[test]
fn a_name_is_followed_without_reading_what_is_beside_it() {
    let names = json!({ "m": { "l": vec![json!({ "k": [7, 8] }); 100_000], "n": null } });
    let Value::Object(names) = names else { panic!("names are an object") };
    let mut all = Names::default();
    all.extend(&names);
    for (text, expected) in [
        ("m.l[5].k[-1]", json!(8)),
        ("m['l'][m.l[0].k[0]]['k'][0]", json!(7)),
        ("m.l[100000]", json!(null)),
        ("m.missing", json!(null)),
        ("m.l[-100001]", json!(null)),
        ("m.n", json!(null)),
    ] {
        let mut work = Work::default();
        assert_eq!(evaluate(text, &all, &mut work), Ok(expected), "{text}");
        assert!(work.spent() < 20_000, "{text}: {}", work.spent());
    }
    assert!(evaluate("m.missing.x", &all, &mut Work::default()).is_err());
}

#[test]
fn conditions_share_the_work_of_what_they_compare() {
    let outputs = json!({ "t": "ab".repeat(1 << 20), "l": vec![1; 500_000] });
    let Value::Object(outputs) = outputs else { panic!("outputs are an object") };
    for (condition, most) in [
        (json!({ "type": "contains", "left": "l", "right": 2 }), 20),
        (json!({ "type": "equals", "left": "t", "right": "x" }), 80),
        (json!({ "type": "regex", "left": "t", "right": "(a|b)*a(a|b){100}c" }), 1),
    ] {
        let condition: EdgeCondition = serde_json::from_value(condition).expect("a condition");
        let mut work = Work::default();
        let mut judged = || holds(&condition, &outputs, Names::default, &mut work);
        let failure = (0..most).find_map(|_| judged().err()).expect("a limit");
        assert_eq!(failure.code, WORK_LIMIT_EXCEEDED);
    }
}

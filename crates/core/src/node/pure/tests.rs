//! The order that types are found by.

use super::*;

#[test]
fn types_are_sorted_so_that_each_is_found() {
    assert!(PURE.is_sorted_by(|a, b| a.0 < b.0));
    for (place, (type_id, _, _)) in PURE.iter().enumerate() {
        assert_eq!(PureNode::find(type_id), Some(PureNode(place)));
    }
    assert_eq!(PureNode::find("core.flow.iff"), None);
}

#[test]
fn a_predicate_with_a_regular_expression_is_not_short() {
    let config = |op: &str| {
        let config = serde_json::json!({ "predicate": { "path": "", "op": op, "value": "a+" } });
        config.as_object().cloned().unwrap_or_default()
    };
    let choose = PureNode::find("core.flow.if").unwrap();
    assert!(choose.is_short(&config("eq")));
    assert!(!choose.is_short(&config("regex")));
}

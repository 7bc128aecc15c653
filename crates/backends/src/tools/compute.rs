//! Tools that only compute: digests, checks against a schema, lists taken apart or put together.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use callboard_agents::{Schema, ToolCard, ToolFault};
use callboard_protocol::{Object, hex};

use super::{Compute, text};

pub(super) static TOOLS: &[(ToolCard, Compute)] = &[
    (
        pure(
            "openwop:core.openwop.data.json-schema-validate",
            "Validate JSON",
            "Checks a value against a JSON Schema (2020-12). Returns { valid, errors: [{ message }] }.",
            r#"{"type":"object","required":["value","schema"],"properties":{"value":{},"schema":{"type":"object"}},"additionalProperties":false}"#,
        ),
        validate,
    ),
    (
        pure(
            "openwop:core.crypto.hash",
            "Hash",
            "Computes a digest of data. Returns { digest, algorithm }.",
            r#"{"type":"object","required":["data"],"properties":{
                "data":{"type":"string"},
                "algorithm":{"type":"string","enum":["sha256","sha384","sha512"],"default":"sha256"},
                "inputEncoding":{"type":"string","enum":["utf8","hex","base64","base64url"],"default":"utf8"},
                "outputEncoding":{"type":"string","enum":["hex","base64","base64url"],"default":"hex"}
            },"additionalProperties":false}"#,
        ),
        hash,
    ),
    (
        pure(
            "openwop:core.flow.aggregate-text",
            "Join texts",
            "Joins one text per item: the item itself, the field at path, or a template with {{field}} in it. Returns { text, count }.",
            r#"{"type":"object","required":["items"],"properties":{
                "items":{"type":"array"},
                "separator":{"type":"string","default":""},
                "path":{"type":"string","description":"Fields separated by dots."},
                "template":{"type":"string"}
            },"additionalProperties":false}"#,
        ),
        aggregate_text,
    ),
    (
        pure(
            "openwop:core.flow.split-in-batches",
            "Split in batches",
            "Takes the first batchSize items off a list. Returns { batch, remaining, done, batchSize, remainingCount }.",
            r#"{"type":"object","required":["array","batchSize"],"properties":{
                "array":{"type":"array"},
                "batchSize":{"type":"integer","minimum":1}
            },"additionalProperties":false}"#,
        ),
        split_in_batches,
    ),
];

const fn pure(
    id: &'static str,
    title: &'static str,
    description: &'static str,
    input: &'static str,
) -> ToolCard {
    ToolCard { id, title, description, input, ..ToolCard::PURE }
}

fn validate(arguments: &Object) -> Result<Value, ToolFault> {
    let [value, schema] =
        ["value", "schema"].map(|name| arguments.get(name).unwrap_or(&Value::Null));
    let schema = Schema::compile(schema.to_string().as_bytes())
        .map_err(|why| ToolFault::Refused(format!("the schema cannot be used: {why}")))?;
    let violations = schema.violations(value);
    let errors: Vec<Value> =
        violations.iter().map(|message| json!({ "message": message })).collect();
    Ok(json!({ "valid": errors.is_empty(), "errors": errors }))
}

fn hash(arguments: &Object) -> Result<Value, ToolFault> {
    let algorithm = text(arguments, "algorithm").unwrap_or("sha256");
    let data = text(arguments, "data").unwrap_or_default();
    let data = decode(data, text(arguments, "inputEncoding").unwrap_or("utf8"))?;
    let digest = match algorithm {
        "sha384" => Sha384::digest(&data).to_vec(),
        "sha512" => Sha512::digest(&data).to_vec(),
        _ => Sha256::digest(&data).to_vec(),
    };
    let digest = match text(arguments, "outputEncoding").unwrap_or("hex") {
        "base64" => BASE64_STANDARD.encode(digest),
        "base64url" => BASE64_URL_SAFE_NO_PAD.encode(digest),
        _ => hex(digest),
    };
    Ok(json!({ "digest": digest, "algorithm": algorithm }))
}

fn decode(data: &str, encoding: &str) -> Result<Vec<u8>, ToolFault> {
    let wrong = |_| ToolFault::Refused(format!("data is not {encoding}"));
    match encoding {
        "base64" => BASE64_STANDARD.decode(data).map_err(wrong),
        "base64url" => BASE64_URL_SAFE_NO_PAD.decode(data.trim_end_matches('=')).map_err(wrong),
        "hex" => decode_hex(data).ok_or_else(|| ToolFault::refused("data is not hex")),
        _ => Ok(data.as_bytes().to_vec()),
    }
}

fn decode_hex(data: &str) -> Option<Vec<u8>> {
    let digits = data.chars().map(|c| c.to_digit(16)).collect::<Option<Vec<u32>>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |[high, low]: &[u32; 2]| u8::try_from(high * 16 + low).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

fn aggregate_text(arguments: &Object) -> Result<Value, ToolFault> {
    let items = arguments.get("items").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let piece = |item: &Value| match text(arguments, "template") {
        Some(template) => fill(template, item),
        None => spell(at(item, text(arguments, "path").unwrap_or_default())),
    };
    let pieces: Vec<String> = items.iter().map(piece).collect();
    let joined = pieces.join(text(arguments, "separator").unwrap_or_default());
    Ok(json!({ "text": joined, "count": pieces.len() }))
}

/// The value at fields separated by dots; no path is the value itself.
fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    if path.is_empty() {
        return Some(value);
    }
    path.split('.').try_fold(value, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    })
}

fn spell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn fill(template: &str, item: &Value) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else { break };
        filled.push_str(before);
        filled.push_str(&spell(at(item, name.trim())));
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

fn split_in_batches(arguments: &Object) -> Result<Value, ToolFault> {
    let items = arguments.get("array").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let size = arguments.get("batchSize").and_then(Value::as_u64).unwrap_or(1);
    let size = usize::try_from(size).unwrap_or(usize::MAX).min(items.len());
    let (batch, remaining) = items.split_at(size);
    Ok(json!({
        "batch": batch,
        "remaining": remaining,
        "done": remaining.is_empty(),
        "batchSize": batch.len(),
        "remainingCount": remaining.len(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(compute: Compute, arguments: Value) -> Result<Value, String> {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        compute(&arguments).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_value_is_judged_by_the_schema_that_comes_with_it() {
        let schema = json!({ "type": "object", "required": ["a"] });
        let judged = run(validate, json!({ "value": { "a": 1 }, "schema": schema })).unwrap();
        assert_eq!(judged, json!({ "valid": true, "errors": [] }));
        let judged = run(validate, json!({ "value": {}, "schema": schema })).unwrap();
        assert_eq!(
            (&judged["valid"], judged["errors"].as_array().unwrap().len()),
            (&json!(false), 1)
        );
    }

    #[test]
    fn a_schema_that_is_none_or_asks_for_too_much_is_refused() {
        for schema in [json!({ "type": 3 }), json!({ "$ref": "https://elsewhere.test/s.json" })] {
            let refused = run(validate, json!({ "value": 1, "schema": schema })).unwrap_err();
            assert!(refused.starts_with("the schema cannot be used: "), "{refused}");
        }
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let expected = json!({ "digest": abc, "algorithm": "sha256" });
        assert_eq!(run(hash, json!({ "data": "abc" })), Ok(expected.clone()));
        for (data, encoding) in [("616263", "hex"), ("YWJj", "base64"), ("YWJj", "base64url")] {
            let found = run(hash, json!({ "data": data, "inputEncoding": encoding }));
            assert_eq!(found, Ok(expected.clone()), "{encoding}");
        }
        let long = run(hash, json!({ "data": "abc", "algorithm": "sha512" })).unwrap();
        assert!(long["digest"].as_str().unwrap().starts_with("ddaf35a193617aba"), "{long}");
        let url = run(hash, json!({ "data": "abc", "outputEncoding": "base64url" })).unwrap();
        assert_eq!(url["digest"], "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
        for data in ["61626", "6162zz", "é1"] {
            let wrong = run(hash, json!({ "data": data, "inputEncoding": "hex" }));
            assert_eq!(wrong, Err("data is not hex".to_owned()), "{data}");
        }
    }

    #[test]
    fn texts_are_joined_by_path_by_template_or_as_they_are() {
        let items = json!([{ "a": { "b": "x" }, "n": 1 }, { "a": { "b": null } }, {}]);
        for (arguments, expected) in [
            (json!({ "items": items, "path": "a.b", "separator": "|" }), "x||"),
            (json!({ "items": items, "template": "<{{ a.b }}:{{n}}>" }), "<x:1><:><:>"),
            (json!({ "items": items, "template": "{{ a.b" }), "{{ a.b{{ a.b{{ a.b"),
            (json!({ "items": ["one", 2, [3]], "separator": " " }), "one 2 [3]"),
            (json!({ "items": [["z"]], "path": "0" }), "z"),
            (json!({ "items": [] }), ""),
        ] {
            let joined = run(aggregate_text, arguments.clone()).unwrap();
            assert_eq!(joined["text"], expected, "{arguments}");
        }
    }

    #[test]
    fn a_batch_is_taken_off_the_front() {
        let taken = run(split_in_batches, json!({ "array": [1, 2, 3], "batchSize": 2 }));
        let expected = json!({
            "batch": [1, 2], "remaining": [3], "done": false, "batchSize": 2, "remainingCount": 1
        });
        assert_eq!(taken, Ok(expected));
        let last = run(split_in_batches, json!({ "array": [3], "batchSize": u64::MAX })).unwrap();
        assert_eq!((&last["batch"], &last["done"]), (&json!([3]), &json!(true)));
    }
}

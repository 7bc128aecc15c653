//! Forms from JSON Schema, and values from forms: objects, texts, numbers, choices, switches, lists; the rest as JSON.
//!
//! A field is named by the JSON pointer of what it holds. What is wrong is said at its field.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::value::{cut, flag, items, text, whole};
use crate::visit::Fields;

/// Begins the names of fields, so that no schema can name one of ours.
const PREFIX: &str = "v";
/// The whole value as JSON, which goes before the fields.
const RAW: &str = "raw";
/// Deeper and larger than this a form helps nobody; JSON does.
const DEEPEST: usize = 4;
const MOST_FIELDS: usize = 100;
const MOST_CHOICES: usize = 200;
/// Errors that are shown.
const MOST_WRONG: usize = 20;

/// What is wrong, by the pointer of the place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wrong(pub(crate) BTreeMap<String, String>);

/// How a part of a value is asked for.
enum Control<'s> {
    Group(&'s Map<String, Value>),
    Choice(&'s [Value]),
    Switch,
    Number(&'static str),
    Line(&'static str),
    Lines,
    Json,
}

fn control(schema: &Value, depth: usize) -> Control<'_> {
    let choices = items(schema, "/enum");
    if !choices.is_empty() && choices.len() <= MOST_CHOICES {
        return Control::Choice(choices);
    }
    match text(schema, "/type") {
        "object" => match schema["properties"].as_object() {
            Some(properties)
                if depth < DEEPEST && !properties.is_empty() && properties.len() <= MOST_FIELDS =>
            {
                Control::Group(properties)
            }
            _ => Control::Json,
        },
        "boolean" => Control::Switch,
        "integer" => Control::Number("1"),
        "number" => Control::Number("any"),
        "string" => Control::Line(match text(schema, "/format") {
            "date" => "date",
            "email" => "email",
            "uri" => "url",
            _ if whole(schema, "/maxLength").is_none_or(|most| most > 200) => "text",
            _ => "line",
        }),
        "array" if matches!(text(schema, "/items/type"), "string" | "integer" | "number") => {
            Control::Lines
        }
        _ => Control::Json,
    }
}

/// The fields for a schema, filled with a value.
pub(crate) fn fields(schema: &Value, value: Option<&Value>, wrong: &Wrong) -> Markup {
    let raw = value.map(|value| serde_json::to_string_pretty(value).unwrap_or_default());
    html! {
        @if let Some(wrong) = wrong.0.get("") { p.wrong role="alert" { (wrong) } }
        @match control(schema, 0) {
            Control::Group(properties) => (group(schema, properties, value, "", wrong, 0)),
            _ => (field(schema, "Value", value, ("", false), wrong, 0)),
        }
        details.fold {
            summary { "Write it as JSON instead" }
            label.hidden for=(RAW) { "The whole value as JSON" }
            textarea id=(RAW) name=(RAW) rows="6" spellcheck="false" placeholder=(cut(&raw.unwrap_or_default(), 2000)) {}
        }
    }
}

fn group(
    schema: &Value,
    properties: &Map<String, Value>,
    value: Option<&Value>,
    at: &str,
    wrong: &Wrong,
    depth: usize,
) -> Markup {
    let required: Vec<&str> = items(schema, "/required").iter().filter_map(Value::as_str).collect();
    html! {
        @for (name, schema) in properties {
            @let at = format!("{at}/{}", escaped(name));
            @let inner = value.and_then(|value| value.get(name)).or_else(|| schema.get("default"));
            (field(schema, name, inner, (&at, required.contains(&name.as_str())), wrong, depth + 1))
        }
    }
}

fn field(
    schema: &Value,
    name: &str,
    value: Option<&Value>,
    (at, required): (&str, bool),
    wrong: &Wrong,
    depth: usize,
) -> Markup {
    let title = text(schema, "/title");
    let title = if title.is_empty() { name } else { title };
    let id = format!("{PREFIX}{at}");
    let control = control(schema, depth);
    html! {
        @if let Control::Group(properties) = control {
            fieldset { legend { (title) } (hint(schema)) (said(wrong, at)) (group(schema, properties, value, at, wrong, depth)) }
        } @else {
            div.field {
                label for=(id) { (title) @if required { " " span.muted { "required" } } }
                (hint(schema))
                (said(wrong, at))
                (input(schema, &control, value, &id, required))
            }
        }
    }
}

fn hint(schema: &Value) -> Markup {
    html! { @if !text(schema, "/description").is_empty() { p.hint { (text(schema, "/description")) } } }
}

fn said(wrong: &Wrong, at: &str) -> Markup {
    html! { @if let Some(wrong) = wrong.0.get(at).filter(|_| !at.is_empty()) { p.wrong role="alert" { (wrong) } } }
}

fn input(
    schema: &Value,
    control: &Control<'_>,
    value: Option<&Value>,
    id: &str,
    required: bool,
) -> Markup {
    let plain = value
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .unwrap_or_default();
    html! {
        @match control {
            Control::Choice(choices) => select id=(id) name=(id) {
                @if !required { option value="" {} }
                @for (choice, place) in choices.iter().zip(0..) {
                    option value=(place) selected[value == Some(choice)] { (choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)) }
                }
            },
            Control::Switch => select id=(id) name=(id) {
                @if !required { option value="" {} }
                option value="true" selected[value == Some(&json!(true))] { "yes" }
                option value="false" selected[value == Some(&json!(false))] { "no" }
            },
            Control::Number(step) => input id=(id) name=(id) type="number" step=(step) value=(plain) required[required]
                min=[schema["minimum"].as_f64()] max=[schema["maximum"].as_f64()];,
            Control::Line("text") => textarea id=(id) name=(id) rows="3" required[required] { (plain) },
            Control::Line(kind) => input id=(id) name=(id) type=(if *kind == "line" { "text" } else { kind }) value=(plain) required[required]
                maxlength=[whole(schema, "/maxLength")];,
            Control::Lines => {
                textarea id=(id) name=(id) rows="3" required[required] { (lines(value)) }
                p.hint { "One in each line." }
            },
            Control::Json | Control::Group(_) => textarea id=(id) name=(id) rows="5" spellcheck="false" placeholder="JSON" required[required] {
                (value.map(|value| serde_json::to_string_pretty(value).unwrap_or_default()).unwrap_or_default())
            },
        }
    }
}

fn lines(value: Option<&Value>) -> String {
    let list = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<String> = list
        .iter()
        .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
        .collect();
    texts.join("\n")
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The value that a form holds. Err: a part of it is no value at all.
pub(crate) fn read(schema: &Value, form: &Fields) -> Result<Value, Wrong> {
    let raw = form.get(RAW).trim();
    if !raw.is_empty() {
        return serde_json::from_str(raw)
            .map_err(|error| wrong_at("", format!("This is no JSON: {error}")));
    }
    let mut wrong = Wrong::default();
    let value = part(schema, form, "", 0, &mut wrong);
    if wrong.0.is_empty() { Ok(value.unwrap_or(json!({}))) } else { Err(wrong) }
}

fn part(schema: &Value, form: &Fields, at: &str, depth: usize, wrong: &mut Wrong) -> Option<Value> {
    let said = form.get(&format!("{PREFIX}{at}"));
    match control(schema, depth) {
        Control::Group(properties) => {
            let mut object = Map::new();
            for (name, schema) in properties {
                let at = format!("{at}/{}", escaped(name));
                if let Some(value) = part(schema, form, &at, depth + 1, wrong) {
                    object.insert(name.clone(), value);
                }
            }
            let is_optional = depth > 0 && object.is_empty();
            (!is_optional).then_some(Value::Object(object))
        }
        Control::Line(_) if said.is_empty() => None,
        // Browsers send lines as mail does.
        Control::Line(_) => Some(json!(said.replace("\r\n", "\n"))),
        Control::Choice(choices) => {
            said.parse::<usize>().ok().and_then(|place| choices.get(place)).cloned()
        }
        Control::Switch => said.parse::<bool>().ok().map(Value::Bool),
        Control::Lines => {
            let is_text = text(schema, "/items/type") == "string";
            let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
            let values: Vec<Value> =
                lines.map(|line| if is_text { json!(line) } else { literal(line) }).collect();
            (!values.is_empty()).then_some(Value::Array(values))
        }
        Control::Number(_) | Control::Json if said.trim().is_empty() => None,
        Control::Number(_) => Some(literal(said.trim())),
        Control::Json => match serde_json::from_str(said) {
            Ok(value) => Some(value),
            Err(error) => {
                wrong.0.insert(at.to_owned(), format!("This is no JSON: {error}"));
                None
            }
        },
    }
}

/// A number where it is one; otherwise what was typed, for the schema to refuse.
fn literal(text: &str) -> Value {
    serde_json::from_str::<Value>(text).ok().filter(Value::is_number).unwrap_or_else(|| json!(text))
}

fn wrong_at(at: &str, why: String) -> Wrong {
    Wrong(BTreeMap::from([(at.to_owned(), why)]))
}

/// What the schema has against a value. A schema that is none has nothing: the host judges.
pub(crate) fn check(schema: &Value, value: &Value) -> Wrong {
    let Ok(validator) = jsonschema::options().build(schema) else { return Wrong::default() };
    let mut wrong = Wrong::default();
    for error in validator.iter_errors(value).take(MOST_WRONG) {
        let at = error.instance_path().to_string();
        let missing = missing_property(&error);
        let at = missing.map_or(at.clone(), |name| format!("{at}/{}", escaped(&name)));
        let why = if flag(schema, "/writeOnly") {
            "is not allowed".to_owned()
        } else {
            cut(&error.to_string(), 300)
        };
        wrong.0.entry(at).or_insert(why);
    }
    wrong
}

fn missing_property(error: &jsonschema::ValidationError<'_>) -> Option<String> {
    match error.kind() {
        jsonschema::error::ValidationErrorKind::Required { property } => {
            property.as_str().map(str::to_owned)
        }
        _ => None,
    }
}

/// The variables of a workflow as the schema of what it is started with.
pub(crate) fn of_variables(definition: &Value) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for variable in items(definition, "/variables").iter().take(MOST_FIELDS) {
        let name = text(variable, "/name");
        let mut schema = variable
            .get("schema")
            .filter(|schema| schema.is_object())
            .cloned()
            .unwrap_or_else(|| json!({}));
        let kind = text(variable, "/type");
        if schema.get("type").is_none()
            && matches!(kind, "string" | "number" | "integer" | "boolean" | "object" | "array")
        {
            schema["type"] = json!(kind);
        }
        for (from, to) in
            [("defaultValue", "default"), ("default", "default"), ("description", "description")]
        {
            if let Some(value) = variable.get(from) {
                schema[to] = value.clone();
            }
        }
        properties.insert(name.to_owned(), schema);
        if flag(variable, "/required") {
            required.push(json!(name));
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pairs: &[(&str, &str)]) -> Fields {
        Fields(
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        )
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["name", "size"],
            "properties": {
                "name": { "type": "string", "minLength": 2, "title": "Name" },
                "size": { "type": "integer", "maximum": 9 },
                "kind": { "enum": ["a", 7, null] },
                "fast": { "type": "boolean" },
                "tags": { "type": "array", "items": { "type": "string" } },
                "in/side": { "type": "object", "properties": { "deep": { "type": "number" } } },
                "odd": {},
            },
        })
    }

    #[test]
    fn a_form_becomes_the_value_that_the_schema_describes() {
        let form = sent(&[
            ("v/name", "Sally"),
            ("v/size", "7"),
            ("v/kind", "1"),
            ("v/fast", "true"),
            ("v/tags", "x\r\n\r\n y "),
            ("v/in~1side/deep", "0.5"),
            ("v/odd", "[1]"),
        ]);
        let value = read(&schema(), &form);
        let expected = json!({ "name": "Sally", "size": 7, "kind": 7, "fast": true, "tags": ["x", "y"], "in/side": { "deep": 0.5 }, "odd": [1] });
        assert_eq!(value, Ok(expected));
        assert_eq!(read(&schema(), &sent(&[("raw", " [2] "), ("v/name", "x")])), Ok(json!([2])));
    }

    /// K-13
    #[test]
    fn what_the_schema_refuses_is_said_at_its_field() {
        let schema = schema();
        let value = read(&schema, &sent(&[("v/name", "x"), ("v/kind", "99")])).unwrap();
        let wrong = check(&schema, &value);
        assert_eq!(wrong.0.keys().collect::<Vec<_>>(), ["/name", "/size"]);
        let shown = fields(&schema, Some(&value), &wrong).into_string();
        assert_eq!(shown.matches("class=\"wrong\"").count(), 2, "{shown}");
        let broken = read(&schema, &sent(&[("v/odd", "{")])).unwrap_err();
        assert!(broken.0.contains_key("/odd"));
    }

    /// K-07
    #[test]
    fn schemas_are_text() {
        let evil = "\"><script>alert(1)</script>";
        let schema = json!({ "type": "object", "properties": { evil: { "type": "string", "title": evil, "description": evil, "default": evil }, "c": { "enum": [evil] } } });
        let shown = fields(&schema, Some(&json!({ "c": evil })), &Wrong::default()).into_string();
        assert!(!shown.contains("<script"), "{shown}");
    }

    #[test]
    fn a_workflow_asks_for_its_variables() {
        let definition = json!({ "variables": [{ "name": "message", "type": "string", "required": true }, { "name": "n", "type": "any", "defaultValue": 3 }] });
        let schema = of_variables(&definition);
        assert_eq!(schema["required"], json!(["message"]));
        assert_eq!(schema["properties"]["n"], json!({ "default": 3 }));
    }
}

//! `/v1/openapi.json`: the table of operations, written as OpenAPI 3.1.

mod events;
mod tags;

use axum::body::Bytes;
use axum::http::StatusCode;
use callboard_protocol::{Dialect, Object};
use serde_json::{Value, json};

use crate::operations::{Access, Gives, Media, Need, Operation, Parameter};
use crate::routes::operations;
use crate::v2::version::WELL_KNOWN;

/// The component schemas, by hand: they describe the wire, which changes by decision and not by refactoring.
const SCHEMAS: &str = include_str!("openapi/schemas.json");

pub(crate) fn document(version: &str, dialect: Dialect) -> Bytes {
    let mut schemas: Object = serde_json::from_str(SCHEMAS).unwrap_or_default();
    events::add_to(&mut schemas);
    let paths = paths(dialect);
    let tags = tags::described(&paths);
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Callboard",
            "version": version,
            "summary": match dialect {
                Dialect::V1 => "Durable runs over the OpenWOP v1 protocol.",
                Dialect::V2 => "Durable runs over the OpenWOP v2 protocol.",
            },
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    });
    Bytes::from(document.to_string())
}

fn paths(dialect: Dialect) -> Object {
    let mut paths = Object::new();
    for operation in operations() {
        let path = match dialect {
            Dialect::V1 => operation.is_in_first().then(|| operation.path.to_owned()),
            Dialect::V2 if operation.path == WELL_KNOWN => Some(operation.path.to_owned()),
            Dialect::V2 => operation.second_path(),
        };
        let Some(path) = path else { continue };
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[operation.method.as_str().to_ascii_lowercase()] = describe(operation, dialect);
    }
    paths
}

fn describe(operation: &Operation, dialect: Dialect) -> Value {
    let mut parameters: Vec<Value> = path_parameters(operation.path).map(path_parameter).collect();
    parameters.extend(operation.query.iter().map(query_parameter));
    parameters.extend(operation.is_remembered().then(idempotency_key));
    parameters.extend(matches!(operation.gives, Gives::Events(_)).then(last_event_id));
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [tags::of(operation.path)],
        "parameters": parameters,
        "responses": responses(operation, dialect),
    });
    match operation.access {
        Access::Public | Access::Link => described["security"] = json!([]),
        Access::Anyone(scope) => {
            described["security"] = json!([{ "bearer": [] }, {}]);
            described["x-openwop-scope"] = json!(scope);
        }
        Access::Scope(scope) => {
            described["security"] = json!([{ "bearer": [] }]);
            described["x-openwop-scope"] = json!(scope);
        }
        Access::OneOf(scopes) => {
            described["security"] = json!([{ "bearer": [] }]);
            described["x-openwop-scope"] = json!(scopes.join(" or "));
        }
    }
    if let Some(schema) = operation.takes {
        described["requestBody"] = request_body(operation, dialect, schema);
    }
    described
}

/// Generators know JSON and plain bytes; of anything else the words must do.
fn request_body(operation: &Operation, dialect: Dialect, schema: &'static str) -> Value {
    let content = match operation.media {
        Media::Json => json_content(schema_in(dialect, schema)),
        Media::Definition => json_content(schema),
        Media::Archive => json!({ "application/octet-stream": { "schema": reference(schema) } }),
    };
    let mut body = json!({ "required": operation.body == Need::Required, "content": content });
    if operation.media == Media::Definition {
        body["description"] = "YAML is taken too, as application/yaml, and then as people \
            write it: with defaults and short forms."
            .into();
    }
    body
}

/// The schemas are those of the first major; the second publishes its own.
fn schema_in(dialect: Dialect, schema: &'static str) -> &'static str {
    match dialect {
        Dialect::V1 => schema,
        Dialect::V2 => "Object",
    }
}

fn responses(operation: &Operation, dialect: Dialect) -> Value {
    let mut success = json!({ "description": operation.summary });
    match operation.gives {
        Gives::Nothing => {}
        Gives::Json(schema) => success["content"] = json_content(schema_in(dialect, schema)),
        Gives::Text => {
            success["content"] = json!({ "text/plain": { "schema": { "type": "string" } } })
        }
        Gives::Events(schema) => {
            success["content"] = json_content(schema_in(dialect, schema));
            success["content"]["text/event-stream"] = json!({ "schema": { "type": "string" } });
        }
    }
    let mut responses = json!({ operation.success.as_str(): success.clone() });
    // What can be sent again: a definition, a pack, and a secret.
    let again = ["WorkflowDefinition", "Archive", "FetchPack", "PutSecret", "PutRole"];
    let is_repeatable = operation.takes.is_some_and(|schema| again.contains(&schema));
    if operation.success == StatusCode::CREATED && is_repeatable {
        responses["200"] = success;
    }
    responses["default"] = json!({ "description": "The request was not carried out.", "content": json_content("ErrorEnvelope") });
    responses
}

fn json_content(schema: &str) -> Value {
    json!({ "application/json": { "schema": reference(schema) } })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

fn path_parameter(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
}

fn query_parameter(parameter: &Parameter) -> Value {
    let schema: Value = serde_json::from_str(parameter.schema).unwrap_or_default();
    let mut described = json!({ "name": parameter.name, "in": "query", "description": parameter.summary, "schema": schema });
    if parameter.need == Need::Required {
        described["required"] = true.into();
    }
    described
}

fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A repetition under the same key within a day gets the first answer again.",
        "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
    })
}

fn last_event_id() -> Value {
    json!({
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The id of the last event that was seen; the stream goes on after it.",
        "schema": { "type": "string" },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|field| references(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_has_a_schema_and_every_schema_a_reference() {
        let document: Value =
            serde_json::from_slice(&document("1.0.0", Dialect::V1)).unwrap_or_default();
        let mut used = BTreeSet::new();
        references(&document, &mut used);
        let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
        let known: BTreeSet<String> =
            schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
        assert_eq!(used, known);
    }

    /// A generator takes an object without either for one that is always empty.
    fn open_or_described(at: &str, value: &Value, faults: &mut Vec<String>) {
        if value["type"] == "object"
            && value.get("properties").is_none()
            && value.get("additionalProperties").is_none()
        {
            faults.push(at.to_owned());
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields.iter().filter(|(name, _)| *name != "examples") {
                    open_or_described(&format!("{at}.{name}"), field, faults);
                }
            }
            Value::Array(items) => {
                items.iter().for_each(|item| open_or_described(at, item, faults))
            }
            _ => {}
        }
    }

    #[test]
    fn every_object_says_what_it_holds_or_that_it_is_free() {
        let document: Value =
            serde_json::from_slice(&document("1.0.0", Dialect::V1)).unwrap_or_default();
        let mut faults = Vec::new();
        open_or_described("", &document["components"]["schemas"], &mut faults);
        assert_eq!(faults, Vec::<String>::new());
    }

    #[test]
    fn path_parameters_are_found_before_a_verb_too() {
        assert_eq!(path_parameters("/v1/runs/{runId}:pause").collect::<Vec<_>>(), ["runId"]);
        assert_eq!(path_parameters("/v1/runs:bulk-cancel").count(), 0);
    }
}

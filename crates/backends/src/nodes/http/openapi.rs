//! `core.openwop.http.openapi-call`: an operation of an OpenAPI document as the request that it describes.

use serde_json::{Value, json};

use callboard_engine::{Call, CallFailure};
use callboard_protocol::Object;

use super::super::given::{failed, invalid};
use super::request::{Request, encoded};

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

pub(super) fn request(call: &Call) -> Result<Request, CallFailure> {
    let wanted = call.config.get("operationId").and_then(Value::as_str).unwrap_or_default();
    let document = object(call, "openapi")?;
    let (path, method) = find(&document, wanted).ok_or_else(|| {
        failed("operation_not_found", format!("the document has no operation {wanted:?}"))
    })?;
    let base = match call.config.get("baseUrl") {
        Some(base) => base.as_str(),
        None => document.get("servers").and_then(|all| all.get(0)?.get("url")?.as_str()),
    };
    let base = base.ok_or_else(|| invalid("config.baseUrl must say where the operation is"))?;
    let path = filled(&path, &object(call, "pathParams")?)?;
    let query: Vec<String> = object(call, "queryParams")?
        .iter()
        .flat_map(|(name, value)| {
            let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            let name = encoded(name);
            values
                .into_iter()
                .filter_map(move |value| Some(format!("{name}={}", encoded(&plain(&value)?))))
        })
        .collect();
    let mut url = format!("{}{path}", base.trim_end_matches('/'));
    if !query.is_empty() {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(&query.join("&"));
    }
    let mut config = Object::new();
    config.insert("url".to_owned(), url.into());
    config.insert("method".to_owned(), method.to_uppercase().into());
    config.insert("headers".to_owned(), object(call, "headers")?.into());
    if let Some(secret) = call.config.get("credentialsRef") {
        config.insert("credentialsRef".to_owned(), secret.clone());
    }
    let body = call.inputs.get("body").cloned().unwrap_or(Value::Null);
    Request::of(&config, &Object::from_iter([("body".to_owned(), body)]))
}

/// The path and the method of an operation.
fn find(document: &Object, wanted: &str) -> Option<(String, &'static str)> {
    let paths = document.get("paths")?.as_object()?;
    paths.iter().find_map(|(path, operations)| {
        let is_wanted = |method: &&str| {
            operations.get(method).and_then(|it| it.get("operationId")) == Some(&json!(wanted))
        };
        METHODS.into_iter().find(is_wanted).map(|method| (path.clone(), method))
    })
}

/// A path with its parameters, each as one part of it: no value can lead to another path.
fn filled(template: &str, parameters: &Object) -> Result<String, CallFailure> {
    let mut path = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, after) = behind
            .split_once('}')
            .ok_or_else(|| invalid("the operation's path has a parameter without its end"))?;
        let value = parameters.get(name).and_then(plain).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| invalid(format!("the input pathParams has no {name}")))?;
        if matches!(value.as_str(), "." | "..") {
            return Err(invalid(format!("the path parameter {name} leads to another path")));
        }
        path.push_str(before);
        path.push_str(&encoded(&value));
        rest = after;
    }
    path.push_str(rest);
    Ok(path)
}

/// A value as one part of an address.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn object(call: &Call, port: &str) -> Result<Object, CallFailure> {
    match call.inputs.get(port) {
        None if port != "openapi" => Ok(Object::new()),
        Some(Value::Object(fields)) => Ok(fields.clone()),
        _ => Err(invalid(format!("the input {port} must be an object"))),
    }
}

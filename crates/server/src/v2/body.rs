//! Bodies of requests: closed as the second major closes them, and turned into those that handlers take.

use callboard_protocol::Object;
use serde_json::Value;

use super::configurable;
use crate::problem::Problem;

/// Makes a body of the first major from one of the second.
pub(crate) type Takes = fn(Object) -> Result<Object, Problem>;

/// `POST /runs`. Which other members there may be is the first major's to say: they are the same.
pub(crate) fn create(mut body: Object) -> Result<Object, Problem> {
    nest(&mut body)?;
    Ok(body)
}

/// `POST /runs/{runId}:fork`.
pub(crate) fn fork(mut body: Object) -> Result<Object, Problem> {
    if let Some(Value::Object(overlay)) = body.get_mut("runOptionsOverlay") {
        nest(overlay)?;
    }
    Ok(body)
}

/// What answers a question: nothing but `resumeValue`.
pub(crate) fn answer(body: Object) -> Result<Object, Problem> {
    if let Some(name) = body.keys().find(|name| *name != "resumeValue") {
        return Err(Problem::invalid_at(name, "only resumeValue answers a question"));
    }
    let Some(value) = body.get("resumeValue") else {
        return Err(Problem::invalid_at("resumeValue", "is required"));
    };
    if value.get("action").is_some_and(|action| action == "timeout") {
        return Err(Problem::invalid_at(
            "resumeValue.action",
            "only the host lets a gate time out",
        ));
    }
    Ok(body)
}

fn nest(options: &mut Object) -> Result<(), Problem> {
    match options.remove("configurable") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(nested)) => {
            options.insert("configurable".to_owned(), configurable::flat(nested)?.into());
            Ok(())
        }
        Some(_) => Err(Problem::invalid_at("configurable", "must be an object")),
    }
}

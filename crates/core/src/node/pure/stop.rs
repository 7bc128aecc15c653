//! `core.flow.stop-and-error`, and the handlers that stand behind an edge with the rule `any_failed`.

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::{Given, invalid};
use super::meter::Meter;
use super::outputs;

pub(super) fn stop(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let said = |key: &str, usual: &str| {
        let said = given.configured_text(key)?.filter(|said| !said.is_empty());
        Ok::<String, Failure>(said.unwrap_or(usual).to_owned())
    };
    let code = said("code", "WORKFLOW_STOPPED")?;
    let failure = Failure::new(code, said("message", "the workflow stops here")?);
    if !given.config.contains_key("details") {
        return Err(failure);
    }
    Err(failure.with_details(given.required_object("details")?.clone()))
}

/// Goes on with what is configured in place of what failed.
pub(super) fn resume(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let fallback = given.config.get("fallback").unwrap_or(&Value::Null);
    let fallback = meter.copy(fallback)?;
    Ok(outputs([
        ("directive", "resume".into()),
        ("fallback", fallback),
        ("upstreamError", upstream(given)?.clone().into()),
    ]))
}

pub(super) fn ignore(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    Ok(outputs([
        ("directive", "ignore".into()),
        ("fallback", Value::Null),
        ("upstreamError", upstream(given)?.clone().into()),
    ]))
}

/// Fails as what it stands behind did.
pub(super) fn break_off(given: &Given<'_>, _: &mut Meter<'_>) -> Result<Object, Failure> {
    let error = upstream(given)?;
    let text = |key: &str| {
        let text = error.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.ok_or_else(|| invalid(format!("the input error must have a {key}")))
    };
    Err(Failure::new(text("code")?, text("message")?))
}

fn upstream<'a>(given: &Given<'a>) -> Result<&'a Object, Failure> {
    if !given.inputs.contains_key("error") {
        return Err(invalid(
            "the input error is missing: an edge with the rule any_failed brings it from the node that failed",
        ));
    }
    given.object("error")
}

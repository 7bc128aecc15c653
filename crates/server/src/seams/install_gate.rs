//! Whether a pack's demands on its runtime would be met, without installing it.

use axum::http::StatusCode;
use callboard_agents::unmet_needs;
use callboard_protocol::RuntimeNeed;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::extract::Shaped;
use crate::problem::{Code, Problem};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Gate {
    manifest: Value,
    /// What the suite pretends that this host grants; it grants nothing.
    #[serde(default)]
    grant_set: Vec<RuntimeNeed>,
    /// False: say what is asked for, refuse nothing.
    #[serde(default = "yes")]
    gating: bool,
}

pub(crate) async fn install_gate(Shaped(body): Shaped<Gate>) -> Result<Answer, Problem> {
    let asked = body.manifest.pointer("/runtime/requires").cloned().unwrap_or_else(|| json!([]));
    let asked: Vec<RuntimeNeed> = serde_json::from_value(asked)
        .map_err(|error| Problem::invalid_at("manifest.runtime.requires", &error.to_string()))?;
    let unmet = unmet_needs(&asked, &body.grant_set);
    if body.gating && !unmet.is_empty() {
        let unmet: Vec<&str> = unmet.iter().map(|need| need.as_str()).collect();
        let message = format!("the pack's runtime asks for {}", unmet.join(", "));
        return Err(Problem::new(Code::PackRuntimeRequirementUnmet, message)
            .with("unmet", json!(unmet))
            .with("manifest", body.manifest["name"].clone()));
    }
    let asked: Vec<&str> = asked.iter().map(|need| need.as_str()).collect();
    Ok(Answer::of(StatusCode::OK, &json!({ "outcome": "installed", "requiresProjected": asked })))
}

fn yes() -> bool {
    true
}

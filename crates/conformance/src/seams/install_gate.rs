//! Whether a pack's demands on its runtime would be met, without installing it.

use axum::http::StatusCode;
use callboard_agents::unmet_needs;
use callboard_protocol::RuntimeNeed;
use callboard_server::extend::{Answer, Code, Problem, Shaped};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Gate {
    manifest: Value,
    /// What the suite pretends that this host grants; it grants nothing.
    #[serde(default)]
    grant_set: Vec<RuntimeNeed>,
    /// False: say what is asked for, refuse nothing.
    #[serde(default = "yes")]
    gating: bool,
}

pub(super) async fn install_gate(Shaped(body): Shaped<Gate>) -> Result<Answer, Problem> {
    let asked = body.manifest.pointer("/runtime/requires").cloned().unwrap_or_else(|| json!([]));
    let asked: Vec<RuntimeNeed> = serde_json::from_value(asked)
        .map_err(|error| Problem::invalid_at("manifest.runtime.requires", &error.to_string()))?;
    let unmet = unmet_needs(&asked, &body.grant_set);
    if body.gating && !unmet.is_empty() {
        let unmet: Vec<&str> = unmet.iter().map(|need| need.as_str()).collect();
        return Ok(refused(&body.manifest, &unmet));
    }
    let asked: Vec<&str> = asked.iter().map(|need| need.as_str()).collect();
    Ok(Answer::of(StatusCode::OK, &json!({ "outcome": "installed", "requiresProjected": asked })))
}

/// The protocol has this door say at the top what an envelope says among its details.
fn refused(manifest: &Value, unmet: &[&str]) -> Answer {
    let code = Code::PackRuntimeRequirementUnmet;
    let part = |name: &str| manifest[name].as_str().unwrap_or_default();
    let manifest = format!("{}@{}", part("name"), part("version"));
    let told = json!({ "unmet": unmet, "manifest": manifest });
    let body = json!({
        "error": code.name(),
        "message": format!("the pack's runtime asks for {}", unmet.join(", ")),
        "details": told, "unmet": told["unmet"], "manifest": told["manifest"],
    });
    Answer::of(code.status(), &body)
}

fn yes() -> bool {
    true
}

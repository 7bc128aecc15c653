//! One fetch through the guard, as the suite asks for it: by the tool that agents fetch with.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_agents::{NotAdmitted, ToolFault, ToolInvocation, ToolSurface};
use callboard_core::Attempt;
use callboard_engine::EffectId;
use callboard_protocol::Object;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Shaped;
use crate::keys::Caller;
use crate::problem::Problem;

const FETCH: &str = "openwop:core.openwop.http.fetch";
/// As long as a delivery may take.
const WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Asked {
    url: String,
    #[serde(default)]
    init: Object,
    /// Where the name is pretended to lead by the time somebody connects.
    simulate_rebind_to: Option<String>,
}

pub(crate) async fn safe_fetch(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(asked): Shaped<Asked>,
) -> Result<Answer, Problem> {
    let tenant = &caller.scope.tenant;
    let surface =
        ToolSurface::assemble(&*host.app.tools.toolbox, &caller.scope, &[FETCH.to_owned()]).await;
    let name = surface.offers().next().map(|offer| offer.name.to_owned());
    let name = name.ok_or_else(|| Problem::no_such("tool"))?;
    let mut arguments = asked.init.clone();
    arguments.insert("url".to_owned(), resolved(&asked)?.into());
    let admitted = match surface.admit(&name, Value::Object(arguments)) {
        Ok(admitted) => admitted,
        Err(NotAdmitted::BadArguments { .. }) if asks_for_upgrade(&asked.init) => {
            return Ok(blocked("upgrade"));
        }
        Err(refused) => return Err(Problem::invalid(refused.to_string())),
    };
    let (run, node) = ("seam".into(), "safe-fetch".into());
    let attempt = Attempt { node: "safe-fetch".into(), visit: 0, number: 0 };
    let call = ToolInvocation {
        tenant,
        run: &run,
        node: &node,
        workspace: Path::new(""),
        effect: &EffectId::new(tenant, &run, &attempt, 0, FETCH),
        notebook: None,
        arguments: admitted.arguments,
        trace: None,
        within: WITHIN,
    };
    Ok(match admitted.tool.invoke(call).await {
        Ok(page) => {
            let body = json!({ "outcome": "fetched", "status": page["status"] });
            Answer::of(StatusCode::OK, &body)
        }
        Err(ToolFault::Refused(_)) => blocked("ssrf"),
        Err(fault) => {
            let body = json!({ "outcome": "failed", "message": fault.to_string() });
            Answer::of(StatusCode::OK, &body)
        }
    })
}

/// The guard judges an address in a URL as it judges one that a name led to.
fn resolved(asked: &Asked) -> Result<String, Problem> {
    let Some(address) = &asked.simulate_rebind_to else { return Ok(asked.url.clone()) };
    let wrong = || Problem::invalid_at("url", "must be an address with a host");
    let uri: Uri = asked.url.parse().map_err(|_| wrong())?;
    let host = uri.host().ok_or_else(wrong)?;
    let address = if address.contains(':') { format!("[{address}]") } else { address.clone() };
    Ok(asked.url.replacen(host, &address, 1))
}

fn asks_for_upgrade(init: &Object) -> bool {
    let headers = init.get("headers").and_then(Value::as_object);
    headers.into_iter().flatten().any(|(name, value)| {
        let says_upgrade = |text: &str| text.to_ascii_lowercase().contains("upgrade");
        name.eq_ignore_ascii_case("upgrade")
            || name.eq_ignore_ascii_case("connection") && value.as_str().is_some_and(says_upgrade)
    })
}

fn blocked(why: &str) -> Answer {
    Answer::of(StatusCode::OK, &json!({ "outcome": "blocked", "blocked": why }))
}

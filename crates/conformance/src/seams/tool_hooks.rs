//! The gate before tools, asked as the suite does it: what would be told of the call.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_agents::{Granted, Grants, HookRefusal, ToolFault, ToolUse, args_hash};
use callboard_protocol::{Failure, Principal, ToolStatus, ToolTransport};
use callboard_server::extend::{Answer, Caller, Host, Shaped};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Asked {
    principal: Principal,
    tool_name: String,
    #[serde(default)]
    required_scopes: Vec<String>,
    /// What the suite pretends that the principal holds; otherwise the keys know.
    granted_scopes: Option<BTreeSet<String>>,
    #[serde(default = "nothing")]
    args: Value,
    #[serde(default = "native")]
    transport: ToolTransport,
    #[serde(default)]
    simulate_rate_limit_exhausted: bool,
    /// A call that is allowed and made, and then goes wrong.
    #[serde(default)]
    simulate_tool_error: bool,
}

pub(super) async fn tool_hooks(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(asked): Shaped<Asked>,
) -> Answer {
    let tenant = &caller.scope.tenant;
    let granted = match asked.granted_scopes {
        Some(scopes) => Granted::Only(scopes),
        None => host.app.keys.granted(tenant, &asked.principal, host.now()).await,
    };
    let used = ToolUse {
        tenant,
        principal: &asked.principal,
        tool: &asked.tool_name,
        required_scopes: &asked.required_scopes,
        granted: &granted,
    };
    if asked.simulate_rate_limit_exhausted {
        exhaust(&host, &used);
    }
    let judged = host.app.tools.hooks.judge(&used, host.now());
    let called = json!({
        "toolName": asked.tool_name,
        "principal": asked.principal,
        "transport": asked.transport,
        "argsHash": args_hash(&asked.args, |_| {}),
    });
    let fault = ToolFault::Failed("the tool was made to go wrong".to_owned());
    let fault = asked.simulate_tool_error.then(|| fault.failure());
    answer(&asked.tool_name, &called, judged.err(), fault)
}

/// Uses up what is left; where there is no limit, nothing is.
fn exhaust(host: &Host, used: &ToolUse<'_>) {
    let hooks = &host.app.tools.hooks;
    for _ in 0..hooks.policy().calls_per_minute {
        if hooks.judge(used, host.now()).is_err() {
            return;
        }
    }
}

/// A refused call never began, so nothing is said of how long it took. The envelope that its caller would get
/// stands beside what is told: an envelope itself has no room for that.
fn answer(
    tool: &str,
    called: &Value,
    refused: Option<HookRefusal>,
    fault: Option<Failure>,
) -> Answer {
    let Some(refused) = refused else {
        let status = if fault.is_some() { ToolStatus::Error } else { ToolStatus::Ok };
        let mut returned = json!({ "toolName": tool, "status": status, "durationMs": 0 });
        if let Some(fault) = fault {
            returned["error"] = json!(fault);
        }
        let body = json!({ "toolCalled": called, "toolReturned": returned });
        return Answer::of(StatusCode::OK, &body);
    };
    let details = match &refused {
        HookRefusal::Forbidden { required_scopes, .. } => {
            json!({ "scope": "tool", "toolName": tool, "requiredScopes": required_scopes })
        }
        HookRefusal::RateLimited { retry_after, .. } => {
            json!({ "scope": "tool", "toolName": tool, "retryAfterMs": retry_after.as_millis() })
        }
    };
    let error =
        json!({ "error": refused.code(), "message": refused.to_string(), "details": details });
    let returned = json!({ "toolName": tool, "status": refused.code() });
    let body = json!({ "toolCalled": called, "toolReturned": returned, "error": error });
    Answer::of(StatusCode::OK, &body)
}

fn nothing() -> Value {
    json!({})
}

fn native() -> ToolTransport {
    ToolTransport::Native
}

//! Tool calls of a model: allowed, recorded, called once, their results recorded.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use callboard_core::{AgentFact, Outcome, RetryClass, ToolCalled, ToolReturned};
use callboard_engine::{Call, Effect, OnUnknown, Once, OnceError};
use callboard_protocol::{
    AuthorizationDecided, EgressDecided, Failure, Object, Principal, ToolStatus,
};

use super::{LiveAgents, Work};
use crate::ask::{End, tell_again, to_record};
use crate::memory::{AgentMemory, Notebook};
use crate::model::{ToolSpec, WantedCall};
use crate::tool::{
    AdmittedCall, Credentials, HookRefusal, ToolDescriptor, ToolInvocation, ToolOffer, ToolOutput,
    ToolSurface, ToolUse, args_hash, run_folder, untrusted,
};

/// The caller where it is unknown who started the run.
const ANONYMOUS: &str = "anonymous";

/// The tools of an invocation, as they are offered to a model.
pub(super) fn specs(surface: &ToolSurface) -> Vec<ToolSpec> {
    let spec = |offer: ToolOffer<'_>| ToolSpec {
        name: offer.name.to_owned(),
        description: offer.descriptor.description.clone(),
        parameters: Arc::clone(&offer.descriptor.input.source),
    };
    surface.offers().map(spec).collect()
}

/// The outcome of a call, as it is stored: an old reader ignores fields that it does not know.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    status: ToolStatus,
    /// None where the tool was not called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<ToolOutput>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<Failure>,
    /// What was decided of credentials on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    egress: Vec<EgressDecided>,
}

impl Work<'_> {
    /// What the model reads in answer to one call. A call that may not be made is answered with the reason.
    pub(super) async fn use_tool(&mut self, wanted: &WantedCall) -> Result<String, End> {
        // A refused call uses an index too: the calls after it keep theirs in every later attempt.
        let index = self.asker.next_call();
        let arguments = Value::Object(wanted.arguments.clone());
        let admitted = match self.surface.admit(&wanted.name, arguments) {
            Ok(admitted) => admitted,
            // No event is recorded for a call of a tool that was not offered, or with arguments that cannot be parsed.
            Err(refusal) => return Ok(format!("error: {refusal}")),
        };
        let descriptor = admitted.tool.descriptor();
        let (tool, call_id) = (descriptor.id.clone(), wanted.id.clone());
        let inputs = Value::Object(admitted.arguments.clone());
        self.asker.facts.push(AgentFact::ToolCalled(ToolCalled {
            tool: tool.clone(),
            call_id: call_id.clone(),
            args_hash: Some(args_hash(&inputs, |_| {})),
            inputs: Some(inputs),
            principal: self.call.principal.as_ref().map(ToString::to_string),
            transport: descriptor.transport.as_str().to_owned(),
        }));
        let kept = match self.call_once(index, &admitted).await {
            Ok(kept) => kept,
            Err(end) => return Err(self.returned_nothing(tool, call_id, end)),
        };
        let content = kept.for_model();
        let Kept { status, duration_ms, result, fault, egress } = kept;
        egress.into_iter().for_each(|decided| self.asker.facts.push(AgentFact::Egress(decided)));
        if status == ToolStatus::Forbidden {
            self.asker.facts.push(AgentFact::Authorized(self.denied(descriptor)));
        }
        let result = match (result, fault) {
            (Some(result), _) => Ok(result.value),
            (None, Some(fault)) => Err(fault),
            (None, None) => Err(Failure::new("tool_failed", "the tool gave no result")),
        };
        let returned = ToolReturned { tool, call_id, result, status, duration_ms };
        self.asker.facts.push(AgentFact::ToolReturned(returned));
        Ok(content)
    }

    /// A call whose outcome ends the invocation has returned too; one that is made later has not.
    fn returned_nothing(&mut self, tool: String, call_id: String, end: End) -> End {
        let failure = match &end {
            End::Failed(failure) => failure,
            End::Once(OnceError::Ended(Outcome::Failed { failure, class: RetryClass::Final })) => {
                failure
            }
            End::Once(_) | End::Later(_) | End::Refused => return end,
        };
        let result = Err(failure.clone());
        let (status, duration_ms) = (ToolStatus::Error, None);
        let returned = ToolReturned { tool, call_id, result, status, duration_ms };
        self.asker.facts.push(AgentFact::ToolReturned(returned));
        end
    }

    /// That the run's principal lacks what a tool takes.
    fn denied(&self, tool: &ToolDescriptor) -> AuthorizationDecided {
        let principal = self.call.principal.as_ref();
        AuthorizationDecided {
            node_id: None,
            principal: principal.map_or_else(|| ANONYMOUS.to_owned(), ToString::to_string),
            action: tool.required_scopes.join(" "),
            resource: tool.id.clone(),
            allowed: false,
            reason: "the run's principal does not hold what this tool needs".to_owned(),
        }
    }

    /// The gate and the call are one effect: what was decided about a call stays decided.
    async fn call_once(&mut self, index: u32, admitted: &AdmittedCall) -> Result<Kept, End> {
        self.asker.facts.flush().await?;
        let (call, host) = (self.call, self.host);
        let memory = AgentMemory::of(call, self.agent.agent.manifest.agent_id.as_str());
        // What the run found is the first that a visit saves.
        let notebook = Notebook { memory: &memory, files: &call.files, ordinal: index + 1 };
        let descriptor = admitted.tool.descriptor();
        let on_unknown =
            if descriptor.is_repeatable() { OnUnknown::Repeat } else { OnUnknown::Ask(Kept::said) };
        let is_recorded = self.asker.facts.knows_return();
        let (provider, asks) = (descriptor.id.as_str(), Value::Object(admitted.arguments.clone()));
        let effect = Effect { index, provider, request: &asks, on_unknown, is_recorded };
        let made = call.once(effect, |once| async move {
            let kept = match host.may_use(call, descriptor).await {
                Ok(()) => {
                    call.dispatch(&once, 0, None).await?;
                    tell_again(call, &once, &descriptor.id, None).await;
                    host.use_tool(call, admitted, &once, notebook).await
                }
                Err(refusal) => Kept::refused(&refusal),
            };
            to_record(&kept)
        });
        let mut kept: Kept = serde_json::from_value(made.await?).map_err(|error| {
            End::Failed(Failure::new("internal_error", format!("a kept result: {error}")))
        })?;
        // What a person says is as long as they like.
        kept.result = kept.result.map(|result| result.within(host.settings.tool_result_bytes));
        Ok(kept)
    }
}

impl LiveAgents {
    async fn may_use(&self, call: &Call, tool: &ToolDescriptor) -> Result<(), HookRefusal> {
        let nobody = Principal::from(ANONYMOUS);
        let principal = call.principal.as_ref().unwrap_or(&nobody);
        let granted = self.grants.granted(&call.tenant, principal, call.now()).await;
        let granted = granted.within(call.principal_scope.as_deref());
        let used = ToolUse {
            tenant: &call.tenant,
            principal,
            tool: &tool.id,
            required_scopes: &tool.required_scopes,
            granted: &granted,
        };
        self.hooks.judge(&used, call.now())
    }

    async fn use_tool(
        &self,
        call: &Call,
        admitted: &AdmittedCall,
        once: &Once,
        notebook: Notebook<'_>,
    ) -> Kept {
        let began = call.now();
        let workspace = run_folder(&self.settings.workspaces, &call.tenant, &call.run);
        let credentials = Credentials::of(call);
        let made = admitted.tool.invoke(ToolInvocation {
            tenant: &call.tenant,
            run: &call.run,
            node: &call.attempt.node,
            workspace: &workspace,
            effect: &once.id,
            notebook: Some(notebook),
            credentials: Some(&credentials),
            caller: Some(call),
            arguments: admitted.arguments.clone(),
            trace: Some(&call.trace),
            within: self.settings.tool_timeout,
        });
        let made = made.await;
        let egress = credentials.into_decided();
        let took = call.now().since(began);
        let duration_ms = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        match made {
            Ok(mut value) => {
                // A server that was sent a credential may send it back.
                call.redact(&mut value);
                let result = ToolOutput::bounded(value, self.settings.tool_result_bytes);
                let result = Some(result);
                Kept { status: ToolStatus::Ok, duration_ms, result, fault: None, egress }
            }
            Err(fault) => {
                let fault = Some(fault.failure());
                Kept { status: ToolStatus::Error, duration_ms, result: None, fault, egress }
            }
        }
    }
}

impl Kept {
    /// What a person says that the tool has answered. Who says nothing says that it was done.
    fn said(value: Value) -> Value {
        json!({ "status": ToolStatus::Ok, "result": { "value": value } })
    }

    fn refused(refusal: &HookRefusal) -> Self {
        let status = match refusal {
            HookRefusal::Forbidden { .. } => ToolStatus::Forbidden,
            HookRefusal::RateLimited { .. } => ToolStatus::RateLimited,
        };
        let mut details = Object::from_iter([("scope".to_owned(), "tool".into())]);
        if let HookRefusal::Forbidden { tool, required_scopes } = refusal {
            details.insert("toolName".to_owned(), tool.as_str().into());
            details.insert("requiredScopes".to_owned(), required_scopes.clone().into());
        }
        let fault = Failure::new(refusal.code(), refusal.to_string()).with_details(details);
        let (result, egress) = (None, Vec::new());
        Self { status, duration_ms: None, result, fault: Some(fault), egress }
    }

    fn for_model(&self) -> String {
        match (&self.result, &self.fault) {
            (Some(result), _) => result.for_model(),
            // A tool's error message is untrusted too.
            (None, Some(fault)) => format!("error:\n{}", untrusted(&fault.message)),
            (None, None) => "error: the tool gave no result".to_owned(),
        }
    }
}

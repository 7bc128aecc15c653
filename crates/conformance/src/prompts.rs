//! The templates that the protocol's fixtures name, and the node type that shows them.

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_agents::PromptResolver;
use callboard_core::{AgentFact, Outcome};
use callboard_engine::{Activity, Call, CallFailure, PastTask};
use callboard_protocol::{Object, PromptTemplate};

/// One template of each kind, and those that probe secrets and strangers.
pub fn prompts() -> Vec<PromptTemplate> {
    let system = ("system", "You write for a newspaper. Keep to the facts.", json!([]));
    let user = ("user", "Write a short piece about the weather.", json!([]));
    let hint = ("schema-hint", "Answer with one JSON object: topic, tone, outline.", json!([]));
    let shot = ("few-shot", "Q: What is rain?\nA: Water that falls from clouds.", json!([]));
    let other = ("few-shot", "Q: What is snow?\nA: Ice that falls from clouds.", json!([]));
    let secret = (
        "user",
        "Present this key to the archive: {{apiKey}}",
        json!([{ "name": "apiKey", "type": "string", "required": true, "source": "secret" }]),
    );
    let stranger = (
        "user",
        "A reader writes: {{userPayload}}\nSum it up.",
        json!([{ "name": "userPayload", "type": "string", "required": true, "source": "input" }]),
    );
    [
        ("writer-system", system),
        ("writer-user", user),
        ("schema-hint", hint),
        ("few-shot", shot),
        ("few-shot-2", other),
        ("secret-redaction", secret),
        ("trust-marker", stranger),
    ]
    .into_iter()
    .filter_map(|(name, (kind, text, variables))| {
        serde_json::from_value(json!({
            "templateId": format!("conformance.prompt.{name}"), "version": "1.0.0",
            "kind": kind, "text": text, "variables": variables,
        }))
        .ok()
    })
    .collect()
}

/// `local.sample.demo.mock-ai`: a model that repeats what it was told.
#[derive(Debug, Clone)]
pub struct Parrot {
    pub prompt_resolver: PromptResolver,
}

#[async_trait]
impl Activity for Parrot {
    async fn perform(&self, call: Call) -> Outcome {
        let prepared = match self.prompt_resolver.prepare(&call, None).await {
            Ok(prepared) => prepared,
            Err(CallFailure { failure, class }) => return Outcome::Failed { failure, class },
        };
        if prepared.record(&call).await.is_err() {
            return Outcome::Done { outputs: Object::new() };
        }
        let given = call.inputs.get("prompt").and_then(Value::as_str).unwrap_or_default();
        // What is repeated is what everybody may see.
        let shown: Vec<&str> = prepared.parts.iter().map(|part| part.shown.as_str()).collect();
        let said = if shown.is_empty() { given.to_owned() } else { shown.join("\n\n") };
        let completion = Value::from(format!("[mock] {said}"));
        Outcome::Done { outputs: Object::from_iter([("completion".to_owned(), completion)]) }
    }

    async fn prompts(&self, past: PastTask<'_>) -> Option<Vec<AgentFact>> {
        self.prompt_resolver.rehearse(past, None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_one() {
        let templates = prompts();
        assert_eq!(templates.len(), 7);
        for template in templates {
            template.check().unwrap();
        }
    }
}

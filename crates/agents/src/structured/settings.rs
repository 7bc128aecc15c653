//! A node's settings for the answer that it wants.

use std::sync::Arc;

use callboard_engine::Call;
use callboard_protocol::{Failure, Object};
use serde_json::{Value, json};

use super::text;
use crate::ask::{Exchange, Repairs};
use crate::model::{CallOptions, Message, ModelRef, ModelRequest, RequestBasis, SCHEMA_ROUNDS};
use crate::pack::Schema;
use crate::prompt::Prepared;
use crate::tool::untrusted;

/// Enough for a page of JSON.
const USUAL_BUDGET: u32 = 4_096;
/// More than any of today's models writes in one answer.
const CEILING: u32 = 65_536;

/// The configuration of a node, read.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) model: Option<ModelRef>,
    schema: Schema,
    pub(super) envelope_type: String,
    max_tokens: u32,
    temperature: Option<f64>,
    seed: Option<u64>,
    pub(super) required: Vec<String>,
    pub(super) fallback: Option<ModelRef>,
}

impl Settings {
    pub(super) fn read(config: &Object) -> Result<Self, Failure> {
        let source = config.get("outputSchema").cloned().unwrap_or(Value::Bool(true));
        let schema = Schema::compile(source.to_string().as_bytes())
            .map_err(|why| invalid(format!("config.outputSchema: {why}")))?;
        let names = [config.get("envelopeType"), source.get("title"), source.get("$id")];
        let envelope_type = names.into_iter().flatten().find_map(text);
        let budget = config.get("maxTokens").or_else(|| config.get("maxOutputTokens"));
        let max_tokens = match budget {
            None => USUAL_BUDGET,
            Some(budget) => budget
                .as_u64()
                .and_then(|budget| u32::try_from(budget).ok())
                .filter(|budget| (1..=CEILING).contains(budget))
                .ok_or_else(|| invalid(format!("config.maxTokens must be 1 to {CEILING}")))?,
        };
        let required = config.get("requiredModelCapabilities").and_then(Value::as_array);
        Ok(Self {
            model: named(config)?,
            schema,
            envelope_type: envelope_type.unwrap_or_else(|| "structured-output".to_owned()),
            max_tokens,
            temperature: config.get("temperature").and_then(Value::as_f64),
            seed: config.get("seed").and_then(Value::as_u64),
            required: required.into_iter().flatten().filter_map(text).collect(),
            fallback: match config.get("fallbackModel").and_then(Value::as_object) {
                Some(fallback) => named(fallback)?,
                None => None,
            },
        })
    }

    /// What the model is asked first.
    pub(super) fn exchange(
        &self,
        call: &Call,
        model: &ModelRef,
        prepared: &Prepared,
    ) -> Result<Exchange, Failure> {
        let request = self.request(call, model, prepared)?;
        let prompts = prepared.references();
        let sources = json!({ "prompts": prompts, "config": call.config, "inputs": call.inputs });
        Ok(Exchange {
            basis: RequestBasis::new(sources, &request),
            request,
            repair: None,
            schema: Some(self.schema.clone()),
            repairs: Repairs::EachTry,
            has_tools: false,
            made: 0,
            rounds: SCHEMA_ROUNDS,
            ceiling: CallOptions::of(&call.configurable).ceiling(CEILING),
        })
    }

    fn request(
        &self,
        call: &Call,
        model: &ModelRef,
        prepared: &Prepared,
    ) -> Result<ModelRequest, Failure> {
        let inline = |key: &str| call.config.get(key).and_then(text);
        let mut system: Vec<String> =
            prepared.system().or_else(|| inline("systemPrompt")).into_iter().collect();
        let user = prepared.user().or_else(|| inline("userPrompt"));
        let mut messages: Vec<Message> =
            user.map(|text| Message::User { text }).into_iter().collect();
        // Untrusted content is quoted to the model, whatever role it claims.
        let quoted = |text: String| if call.from_outside { untrusted(&text) } else { text };
        if let Some(prompt) = call.inputs.get("prompt").and_then(text) {
            messages.push(Message::User { text: quoted(prompt) });
        }
        let given = call.inputs.get("messages").and_then(Value::as_array);
        for message in given.into_iter().flatten() {
            let said = message.get("content").and_then(text);
            let text = said.ok_or_else(|| invalid("a message must have content that is text"))?;
            match message.get("role").and_then(Value::as_str) {
                Some("system" | "assistant" | "user") if call.from_outside => {
                    messages.push(Message::User { text: quoted(text) });
                }
                Some("system") => system.push(text),
                Some("assistant") => messages.push(Message::Assistant { text, calls: Vec::new() }),
                Some("user") => messages.push(Message::User { text }),
                _ => return Err(invalid("a message's role is system, user or assistant")),
            }
        }
        if messages.is_empty() {
            let text = quoted(Value::Object(call.inputs.clone()).to_string());
            messages.push(Message::User { text });
        }
        let options = CallOptions::of(&call.configurable);
        Ok(ModelRequest {
            model: model.clone(),
            system: (!system.is_empty()).then(|| system.join("\n\n")),
            messages,
            tools: Vec::new(),
            response_schema: Some(Arc::clone(&self.schema.source)),
            max_output_tokens: options.budget(self.max_tokens, CEILING),
            temperature: options.temperature.or(self.temperature),
            seed: self.seed,
            idempotency_key: String::new(),
            key: None,
            call_prefix: super::MockAi::place(&call.tenant, &call.attempt.node),
            run: None,
        })
    }
}

/// `provider` beside `model`, both or neither.
fn named(fields: &Object) -> Result<Option<ModelRef>, Failure> {
    let field = |key: &str| fields.get(key).and_then(text).filter(|it| !it.is_empty());
    match (field("provider"), field("model")) {
        (None, None) => Ok(None),
        (Some(provider), Some(model)) => {
            Ok(Some(ModelRef { provider: provider.to_lowercase(), model }))
        }
        _ => Err(invalid("a node names both provider and model, or neither")),
    }
}

pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new("validation_error", message)
}

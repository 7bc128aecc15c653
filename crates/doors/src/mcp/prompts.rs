//! The prompts of the library.

use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument,
    PromptMessage, Role,
};
use serde_json::Value;

use super::fault;
use crate::api::{ApiError, segment, with_query};
use crate::caller::{Caller, text};

/// The longest text that a prompt is filled to.
const LONGEST: usize = 256 * 1024;

pub(super) async fn list(
    caller: &Caller,
    cursor: Option<String>,
) -> Result<ListPromptsResult, ApiError> {
    let path = match cursor.as_deref() {
        Some(cursor) => with_query("/v1/prompts", &[("cursor", cursor)]),
        None => "/v1/prompts".to_owned(),
    };
    let page = match caller.get(path).await {
        Err(error) if error.is_forbidden() => Value::Null,
        page => page?,
    };
    let prompts = page["items"].as_array().into_iter().flatten().filter_map(prompt).collect();
    let mut result = ListPromptsResult::with_all_items(prompts);
    result.next_cursor = page["nextCursor"].as_str().map(str::to_owned);
    Ok(result)
}

fn prompt(template: &Value) -> Option<Prompt> {
    let describe = template["description"].as_str().or(template["name"].as_str());
    let arguments: Vec<PromptArgument> = variables(template)
        .map(|variable| {
            let mut argument = PromptArgument::new(text(variable, "name"));
            argument.description = variable["description"].as_str().map(str::to_owned);
            argument.required = Some(is_required(variable));
            argument
        })
        .collect();
    Some(Prompt::new(template["templateId"].as_str()?, describe, Some(arguments)))
}

pub(super) async fn get(
    caller: &Caller,
    request: GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let path = format!("/v1/prompts/{}", segment(&request.name));
    let template = caller.get(path).await.map_err(fault)?;
    let arguments = request.arguments.unwrap_or_default();
    let mut filled = text(&template, "text").to_owned();
    for variable in variables(&template) {
        let name = text(variable, "name");
        let value = arguments.get(name).or(variable.get("defaultValue"));
        let value = match value {
            Some(Value::String(value)) => value.clone(),
            Some(value) => value.to_string(),
            None if is_required(variable) => {
                return Err(ErrorData::invalid_params(format!("{name} is required"), None));
            }
            None => String::new(),
        };
        filled = filled.replace(&format!("{{{{{name}}}}}"), &value);
        if filled.len() > LONGEST {
            return Err(ErrorData::invalid_params("the filled prompt is too long", None));
        }
    }
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, filled)]))
}

fn variables(template: &Value) -> impl Iterator<Item = &Value> {
    template["variables"].as_array().into_iter().flatten()
}

fn is_required(variable: &Value) -> bool {
    variable["required"] == Value::Bool(true) && variable.get("defaultValue").is_none()
}

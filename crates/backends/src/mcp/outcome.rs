//! A server's answer to a call, as a value.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use callboard_agents::ToolFault;

/// Structure where the server gave it, text where all is text, a list of parts otherwise.
pub(super) fn read(result: CallToolResult) -> Result<Value, ToolFault> {
    let is_error = result.is_error == Some(true);
    let value = match result.structured_content {
        Some(structured) if !is_error => structured,
        Some(_) | None => read_content(&result.content),
    };
    match (is_error, value) {
        (false, value) => Ok(value),
        (true, Value::String(text)) => Err(ToolFault::Failed(text)),
        (true, other) => Err(ToolFault::Failed(other.to_string())),
    }
}

fn read_content(content: &[ContentBlock]) -> Value {
    let texts: Option<Vec<&str>> = content
        .iter()
        .map(|part| match part {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    match texts {
        Some(texts) => texts.join("\n").into(),
        None => content.iter().map(read_part).collect(),
    }
}

/// Images and audio are described, not included: a model that reads text cannot use their bytes.
fn read_part(part: &ContentBlock) -> Value {
    match part {
        ContentBlock::Text(text) => json!({ "type": "text", "text": text.text }),
        ContentBlock::Image(image) => {
            json!({ "type": "image", "mimeType": image.mime_type, "base64Bytes": image.data.len() })
        }
        ContentBlock::Audio(audio) => {
            json!({ "type": "audio", "mimeType": audio.mime_type, "base64Bytes": audio.data.len() })
        }
        other => serde_json::to_value(other).unwrap_or(Value::Null),
    }
}

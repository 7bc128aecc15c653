//! Tools that a workflow's node declares for its agent: by name, never as code.

use callboard_protocol::{Failure, Object};
use serde_json::Value;

/// All that a declaration can say. Whatever could be carried out is no part of it.
const MEMBERS: [&str; 3] = ["name", "kind", "description"];

/// The names that `config.tools` of a node declares; none where it declares nothing.
pub(crate) fn declared_tools(config: &Object) -> Result<Option<Vec<String>>, Failure> {
    let Some(tools) = config.get("tools") else { return Ok(None) };
    let tools = tools.as_array().ok_or_else(|| refused("config.tools must be a list"))?;
    tools
        .iter()
        .enumerate()
        .map(|(place, tool)| declared(place, tool))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn declared(place: usize, tool: &Value) -> Result<String, Failure> {
    let refused = |what: &str| refused(&format!("config.tools[{place}] {what}"));
    let fields = tool.as_object().ok_or_else(|| refused("must be an object"))?;
    if let Some(other) = fields.keys().find(|key| !MEMBERS.contains(&key.as_str())) {
        return Err(refused(&format!("must not have {other}: a tool is named, not brought along")));
    }
    let text = |key: &str| {
        let text = fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.ok_or_else(|| refused(&format!("needs {key}")))
    };
    text("kind")?;
    text("name").map(str::to_owned)
}

fn refused(what: &str) -> Failure {
    Failure::new("INVALID_TOOL_DECLARATION", what)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(config: Value) -> Result<Option<Vec<String>>, String> {
        declared_tools(config.as_object().unwrap()).map_err(|failure| {
            assert_eq!(failure.code, "INVALID_TOOL_DECLARATION");
            failure.message
        })
    }

    ///
    #[test]
    fn a_tool_is_named_and_never_brought_along() {
        assert_eq!(read(json!({})), Ok(None));
        assert_eq!(read(json!({ "tools": [] })), Ok(Some(Vec::new())));
        let plain = json!({ "tools": [{ "name": "mcp:x.y", "kind": "mcp" }] });
        assert_eq!(read(plain), Ok(Some(vec!["mcp:x.y".to_owned()])));
        for (tools, what) in [
            (json!({}), "config.tools must be a list"),
            (json!(["mcp:x.y"]), "config.tools[0] must be an object"),
            (json!([{ "kind": "mcp" }]), "config.tools[0] needs name"),
            (json!([{ "name": "mcp:x.y" }]), "config.tools[0] needs kind"),
            (json!([{ "name": "", "kind": "mcp" }]), "config.tools[0] needs name"),
            (
                json!([{ "name": "a", "kind": "b" }, { "name": "a", "kind": "b", "handler": "() => 1" }]),
                "config.tools[1] must not have handler: a tool is named, not brought along",
            ),
        ] {
            assert_eq!(read(json!({ "tools": tools })), Err(what.to_owned()));
        }
    }
}

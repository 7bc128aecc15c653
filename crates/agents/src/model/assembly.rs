//! Tool calls put together from the fragments of a stream.

use std::collections::BTreeMap;

use callboard_protocol::Object;
use serde_json::Value;

/// No turn needs more, and a stream must not decide how much memory is used.
const MOST_CALLS: usize = 64;
/// Of all names, ids and arguments of a turn together.
const MOST_BYTES: usize = 4 << 20;

/// Fragments of calls, by the place that the stream gives them.
#[derive(Default)]
pub struct ToolCallAssembly {
    calls: BTreeMap<u64, Fragments>,
    bytes: usize,
}

#[derive(Default)]
struct Fragments {
    id: Option<String>,
    name: String,
    arguments: String,
}

/// A call, as far as it has arrived.
#[derive(Clone, PartialEq)]
pub struct AssembledCall {
    pub id: Option<String>,
    pub name: String,
    /// None where they were cut off, or are no object: such a call must never be made.
    pub arguments: Option<Object>,
}

/// There are more calls, or larger ones, than any turn needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

impl ToolCallAssembly {
    /// Adds a fragment. The name is reported once it is complete; the arguments come in pieces.
    pub fn add(
        &mut self,
        index: u64,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
    ) -> Result<(), Overflow> {
        let size = id.map_or(0, str::len) + name.map_or(0, str::len) + arguments.len();
        self.bytes = self.bytes.saturating_add(size);
        let is_new = !self.calls.contains_key(&index);
        if self.bytes > MOST_BYTES || (is_new && self.calls.len() == MOST_CALLS) {
            return Err(Overflow);
        }
        let call = self.calls.entry(index).or_default();
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            call.id = Some(id.to_owned());
        }
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            name.clone_into(&mut call.name);
        }
        call.arguments.push_str(arguments);
        Ok(())
    }

    /// In the order of their places.
    pub fn finish(self) -> Vec<AssembledCall> {
        let calls = self.calls.into_values();
        calls
            .map(|Fragments { id, name, arguments }| AssembledCall {
                id,
                name,
                arguments: whole(&arguments),
            })
            .collect()
    }
}

/// The arguments of a complete call. A tool without parameters is called with an empty object.
fn whole(text: &str) -> Option<Object> {
    if text.trim().is_empty() {
        return Some(Object::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Some(object),
        Ok(Value::Null) => Some(Object::new()),
        _ => None,
    }
}

impl std::fmt::Debug for ToolCallAssembly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCallAssembly").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AssembledCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AssembledCall").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn assembled(fragments: &[(u64, Option<&str>, Option<&str>, &str)]) -> Vec<AssembledCall> {
        let mut assembly = ToolCallAssembly::default();
        for (index, id, name, arguments) in fragments {
            assembly.add(*index, *id, *name, arguments).unwrap();
        }
        assembly.finish()
    }

    #[test]
    fn fragments_of_parallel_calls_find_their_place() {
        let calls = assembled(&[
            (1, Some("b"), Some("write"), ""),
            (0, Some("a"), Some("read"), "{\"path\":"),
            (1, None, None, "{}"),
            (0, None, None, "\"x\"}"),
        ]);
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["read", "write"]);
        assert_eq!(calls[0].id.as_deref(), Some("a"));
        assert_eq!(calls[0].arguments, json!({ "path": "x" }).as_object().cloned());
    }

    #[test]
    fn a_call_that_was_cut_off_has_no_arguments() {
        for (text, expected) in [
            ("", Some(Object::new())),
            ("null", Some(Object::new())),
            ("{\"path\":\"x", None),
            ("\"rm -rf\"", None),
            ("[1]", None),
        ] {
            let calls = assembled(&[(0, None, Some("t"), text)]);
            assert_eq!(calls[0].arguments, expected, "{text}");
        }
    }

    #[test]
    fn a_stream_cannot_ask_for_memory() {
        let mut assembly = ToolCallAssembly::default();
        assert_eq!(assembly.add(u64::MAX, None, Some("t"), ""), Ok(()));
        for index in 1..MOST_CALLS as u64 {
            assert_eq!(assembly.add(index, None, Some("t"), ""), Ok(()));
        }
        assert_eq!(assembly.add(99, None, Some("t"), ""), Err(Overflow));
        assert_eq!(assembly.add(1, None, None, &"x".repeat(MOST_BYTES)), Err(Overflow));
    }
}

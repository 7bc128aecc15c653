//! `${…}` in what people write: where a template begins and ends, and what path it is.

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    /// What stands between the braces.
    Inserted(String),
}

/// Takes a text apart. `$${` stands for `${` itself.
pub(crate) fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, inside) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            plain.push_str(before);
            plain.push_str("${");
            rest = inside;
            continue;
        }
        plain.push_str(before);
        let end = closing(inside).ok_or_else(|| "`${` has no `}`".to_owned())?;
        let inserted = inside[..end].trim();
        if inserted.is_empty() {
            return Err("`${}` names nothing".to_owned());
        }
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain)));
        }
        parts.push(Part::Inserted(inserted.to_owned()));
        rest = &inside[end + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}

/// Where the brace is that closes a template: not one within a text or within other braces.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(mark) if c == mark => quote = None,
            Some(_) => {}
            None => match c {
                '"' | '\'' => quote = Some(c),
                '{' => depth += 1,
                '}' if depth == 0 => return Some(at),
                '}' => depth -= 1,
                _ => {}
            },
        }
    }
    None
}

/// The roots of paths.
pub(crate) const ROOTS: [&str; 4] = ["vars", "nodes", "inputs", "ctx"];

/// `nodes.write-it.answer["a b"][0]` as its names; none where it is more than a path.
pub(crate) fn path(text: &str) -> Option<Vec<String>> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (root, mut rest) = text.split_at(end);
    if !ROOTS.contains(&root) {
        return None;
    }
    let mut path = vec![root.to_owned()];
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
            let (name, later) = after.split_at(end);
            if name.is_empty() {
                return None;
            }
            path.push(name.to_owned());
            rest = later;
        } else {
            let (inside, later) = rest.strip_prefix('[')?.split_once(']')?;
            let quoted = |mark: char| inside.strip_prefix(mark)?.strip_suffix(mark);
            let name = quoted('"').or_else(|| quoted('\''));
            let is_index = !inside.is_empty() && inside.chars().all(|c| c.is_ascii_digit());
            path.push(name.or(is_index.then_some(inside))?.to_owned());
            rest = later;
        }
    }
    Some(path)
}

/// A path as an expression.
pub(crate) fn expression(path: &[String]) -> String {
    let mut names = path.iter();
    let mut text = names.next().cloned().unwrap_or_default();
    for name in names {
        let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_plain {
            text.push('.');
            text.push_str(name);
        } else if !name.is_empty() && name.chars().all(|c| c.is_ascii_digit()) {
            text.push_str(&format!("[{name}]"));
        } else {
            text.push_str(&format!("[{}]", literal(name)));
        }
    }
    text
}

/// A text as a literal of an expression.
pub(crate) fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Part, expression, parts, path};

    #[test]
    fn a_text_is_taken_apart() {
        let inserted = |text: &str| Part::Inserted(text.into());
        let plain = |text: &str| Part::Text(text.into());
        for (text, expected) in [
            ("plain", vec![plain("plain")]),
            ("", vec![]),
            ("${vars.a}", vec![inserted("vars.a")]),
            ("Dear ${ vars.a },", vec![plain("Dear "), inserted("vars.a"), plain(",")]),
            ("${a}${b}", vec![inserted("a"), inserted("b")]),
            ("$${a} costs $5", vec![plain("${a} costs $5")]),
            ("${ {'a': '}'}.a }", vec![inserted("{'a': '}'}.a")]),
        ] {
            assert_eq!(parts(text).unwrap(), expected, "{text}");
        }
        assert!(parts("${vars.a").is_err());
        assert!(parts("${ }").is_err());
    }

    #[test]
    fn paths_are_read_and_written() {
        for (text, written) in [
            ("vars.a", Some("vars.a")),
            ("nodes.write-it.answer", Some("nodes[\"write-it\"].answer")),
            ("nodes.a.items[0]['b c']", Some("nodes.a.items[0][\"b c\"]")),
            ("vars.a + 1", None),
            ("other.a", None),
            ("vars.", None),
            ("vars.a|upper", None),
        ] {
            assert_eq!(path(text).map(|path| expression(&path)).as_deref(), written, "{text}");
        }
    }
}

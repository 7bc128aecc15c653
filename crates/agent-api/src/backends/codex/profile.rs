//! Codex's own rules for paths: what is hidden is kept from its commands by the sandbox that it puts them in.
//!
//! A mode of its sandbox knows nothing of single paths; a permission profile does. Codex takes one or the other, and what
//! its command line names goes before every file that it reads.

use std::fmt::Write as _;
use std::path::Path;

use crate::cli::Scene;

/// The profile's name.
pub(super) const NAME: &str = "callboard";

/// Options that define and choose a profile with the rights of `sandbox`, less what is hidden. None where nothing is, and
/// where the sandbox is open anyway.
pub(super) fn settings(scene: &Scene<'_>, sandbox: &str) -> Option<Vec<String>> {
    let (base, may_write) = match sandbox {
        "read-only" => (":read-only", false),
        "workspace-write" => (":workspace", true),
        _ => return None,
    };
    let hidden: Vec<String> = scene.hidden.iter().filter_map(|path| rule(path, "deny")).collect();
    if hidden.is_empty() {
        return None;
    }
    let added = scene.options.add_dirs.iter().filter(|_| may_write);
    let rules: Vec<String> = added.filter_map(|path| rule(path, "write")).chain(hidden).collect();
    let profile = format!(
        "permissions.{NAME}={{extends=\"{base}\",filesystem={{{}}},network={{enabled=false}}}}",
        rules.join(",")
    );
    let chosen = format!("default_permissions=\"{NAME}\"");
    Some(vec!["-c".into(), chosen, "-c".into(), profile])
}

/// One path with what may be done to it. Others than absolute ones would mean something else.
fn rule(path: &Path, access: &str) -> Option<String> {
    let path = path.to_str().filter(|_| path.is_absolute())?;
    Some(format!("{}=\"{access}\"", quoted(path)))
}

/// As TOML writes a string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => {
                // Writing to a string does not fail.
                let _ = write!(quoted, "\\u{:04X}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn no_path_ends_its_own_quotes() {
        assert_eq!(quoted("/data"), "\"/data\"");
        assert_eq!(quoted("/a\"=\\b\n"), "\"/a\\\"=\\\\b\\u000A\"");
    }
}

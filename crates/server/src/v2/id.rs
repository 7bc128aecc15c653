//! Ids of the second major: `<tenant>/<id of the first>`, and how they stand in a path.

use callboard_protocol::hex;
use sha2::{Digest as _, Sha256};

use super::problem::of_another_tenant;
use super::version::Majors;
use crate::problem::Problem;

/// What stands for a byte that a path segment does not hold as it is.
const ESCAPE: u8 = b'~';

/// An id as somebody wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// Absent where only the id of the first major was written.
    pub(crate) tenant: Option<String>,
    pub(crate) id: String,
}

pub(crate) fn bound(tenant: &str, id: &str) -> String {
    format!("{tenant}/{id}")
}

/// The interrupt's own id has colons and no bound on its length, which the grammar of the second major does not allow.
pub(crate) fn of_interrupt(tenant: &str, id: &str) -> String {
    bound(tenant, &format!("int_{}", hex(&Sha256::digest(id)[..16])))
}

/// A bound id as one segment of a path.
pub(crate) fn segment(tenant: &str, id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let mut text = String::new();
    for byte in bound(tenant, id).bytes() {
        if plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("~{byte:02X}"));
        }
    }
    text
}

/// Reads an id from which percent-encoding is gone.
pub(crate) fn read(text: &str) -> Result<Written, Problem> {
    let malformed = || Problem::invalid("an id holds a ~ without two hexadecimal digits behind it");
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != ESCAPE {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let pair = digit().zip(digit());
        let byte = pair.and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        decoded.push(byte.ok_or_else(malformed)?);
    }
    let text = String::from_utf8(decoded).map_err(|_| malformed())?;
    Ok(match text.split_once('/') {
        Some((tenant, id)) => Written { tenant: Some(tenant.to_owned()), id: id.to_owned() },
        None => Written { tenant: None, id: text },
    })
}

/// The id of the first major in one that a caller of this tenant has written.
pub(crate) fn own(text: &str, tenant: &str, majors: Majors) -> Result<String, Problem> {
    let written = read(text)?;
    match written.tenant {
        Some(named) if named != tenant => Err(of_another_tenant()),
        None if majors == Majors::Second => Err(unbound()),
        Some(_) | None => Ok(written.id),
    }
}

/// Bare ids are taken for as long as there is a major that gives them.
pub(crate) fn unbound() -> Problem {
    Problem::invalid("an id is written as <tenant>/<id>, in a path with ~2F for the slash")
}

/// Whether ids of a tenant or workspace with this name can be written.
pub fn is_tenant(name: &str) -> bool {
    let name = name.strip_prefix("anon:").unwrap_or(name);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    (1..=128).contains(&name.len()) && name.bytes().all(fits)
}

/// Whether an author's name can be shown as the id of a node, workflow, agent or template.
pub(crate) fn is_authored(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:-".contains(&byte);
    (1..=128).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<(Option<String>, String), &'static str> {
        read(text).map(|read| (read.tenant, read.id)).map_err(|problem| problem.code.name())
    }

    /// V-11.
    #[test]
    fn every_form_of_an_id_is_read_and_a_broken_escape_is_not() {
        let bound = Ok((Some("acme".to_owned()), "run_1".to_owned()));
        assert_eq!(written("acme~2Frun_1"), bound);
        assert_eq!(written("acme~2frun_1"), bound);
        assert_eq!(written("acme/run_1"), bound);
        assert_eq!(written("run_1"), Ok((None, "run_1".to_owned())));
        assert_eq!(written(&segment("anon:a", "x~y")), Ok((Some("anon:a".into()), "x~y".into())));
        for broken in ["acme~", "acme~2", "acme~zz", "acme~2Frun~", "~ff"] {
            assert_eq!(written(broken), Err("validation_error"), "{broken}");
        }
    }

    #[test]
    fn an_interrupt_has_an_id_of_the_grammar_whatever_its_node_is_called() {
        let id = of_interrupt("acme", "run_1:a node: with more:0");
        assert_eq!(id.len(), "acme/int_".len() + 32);
        assert!(id.strip_prefix("acme/int_").is_some_and(is_authored));
        assert_ne!(id, of_interrupt("acme", "run_1:a node: with more:1"));
    }
}

//! Fills in a prompt: the text for the model, the part that others may see, the digest of that part.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use callboard_protocol::{
    NodeId, Object, PromptComposed, PromptKind, PromptSource, PromptTemplate, PromptVariable, hex,
};

use crate::tool::untrusted;

/// Whose words fill a hole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trust {
    #[default]
    Trusted,
    /// Untrusted: wrapped, so that a model can distinguish it from ours.
    Untrusted,
}

/// What fills one hole.
#[derive(Clone, PartialEq)]
pub struct Binding {
    value: Value,
    trust: Trust,
    /// The id of the secret that it is: only the model sees the value.
    secret: Option<String>,
}

impl fmt::Debug for Binding {
    /// Leaves out the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding").field("trust", &self.trust).finish_non_exhaustive()
    }
}

impl Binding {
    pub fn new(value: Value, trust: Trust) -> Self {
        Self { value, trust, secret: None }
    }

    pub fn secret(id: &str, value: &str) -> Self {
        Self { value: value.into(), trust: Trust::Trusted, secret: Some(id.to_owned()) }
    }

    /// As the model reads it.
    fn spoken(&self) -> String {
        let text = match &self.value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match self.trust {
            Trust::Trusted => text,
            Trust::Untrusted => untrusted(&text),
        }
    }

    /// As all other readers see it.
    fn shown(&self) -> String {
        match &self.secret {
            Some(id) => marker(id),
            None => self.spoken(),
        }
    }
}

/// What fills the holes, by name.
pub type Bindings = BTreeMap<String, Binding>;

/// Why a prompt cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    #[error("{template} needs a value for {variable}")]
    Unresolved { template: String, variable: String },
    #[error("{template} would be longer than {LONGEST} bytes")]
    TooLong { template: String },
}

/// More than any model reads at once. A short template can repeat a long value thousands of times.
const LONGEST: usize = 4 << 20;

impl ComposeError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unresolved { .. } => "prompt_variable_unresolved",
            Self::TooLong { .. } => "prompt_too_long",
        }
    }
}

/// A prompt that is filled in.
#[derive(Clone, PartialEq)]
pub struct Composed {
    pub kind: PromptKind,
    /// With its version, as events carry it.
    pub reference: String,
    /// For the model only.
    pub text: String,
    /// The same with a marker in place of every secret.
    pub shown: String,
    pub variable_hashes: BTreeMap<String, String>,
    pub variable_bindings: Object,
    pub trust: Trust,
}

impl fmt::Debug for Composed {
    /// Leaves out everything that is said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Composed").field("reference", &self.reference).finish_non_exhaustive()
    }
}

impl Composed {
    /// A prompt without holes, such as an agent's own: braces in it are words.
    pub fn verbatim(kind: PromptKind, reference: String, text: &str) -> Self {
        Self {
            kind,
            reference,
            text: text.to_owned(),
            shown: text.to_owned(),
            variable_hashes: BTreeMap::new(),
            variable_bindings: Object::new(),
            trust: Trust::Trusted,
        }
    }

    /// The digest that previews and events share. Secrets are not in it.
    pub fn hash(&self) -> String {
        digest(&self.shown)
    }
}

/// Fills in a template. A required variable without a value is an error; any other hole becomes its default, or nothing.
pub fn compose(template: &PromptTemplate, bindings: &Bindings) -> Result<Composed, ComposeError> {
    let reference = template.pinned_ref();
    let mut filled = Bindings::new();
    for variable in &template.variables {
        if let Some(binding) = fill(variable, bindings, &reference)? {
            filled.insert(variable.name.clone(), binding);
        }
    }
    for (_, name) in holes(&template.text) {
        let is_declared = template.variables.iter().any(|variable| variable.name == name);
        if let (false, Some(binding)) = (is_declared, bindings.get(name)) {
            filled.insert(name.to_owned(), binding.clone());
        }
    }
    let (mut text, mut shown) = (String::new(), String::new());
    let mut rest = 0;
    let mut trust = Trust::Trusted;
    for (start, name) in holes(&template.text) {
        let before = &template.text[rest..start];
        let binding = filled.get(name);
        text.push_str(before);
        shown.push_str(before);
        if let Some(binding) = binding {
            text.push_str(&binding.spoken());
            shown.push_str(&binding.shown());
            if text.len().max(shown.len()) > LONGEST {
                return Err(ComposeError::TooLong { template: reference });
            }
            if binding.trust == Trust::Untrusted {
                trust = Trust::Untrusted;
            }
        }
        rest = start + template.text[start..].find(CLOSE).map_or(0, |at| at + CLOSE.len());
    }
    text.push_str(&template.text[rest..]);
    shown.push_str(&template.text[rest..]);
    let hashes = filled.iter().map(|(name, binding)| (name.clone(), digest(&binding.shown())));
    let seen = filled.iter().map(|(name, binding)| (name.clone(), binding.shown().into()));
    Ok(Composed {
        kind: template.kind,
        reference,
        text,
        shown,
        variable_hashes: hashes.collect(),
        variable_bindings: seen.collect(),
        trust,
    })
}

fn fill(
    variable: &PromptVariable,
    bindings: &Bindings,
    template: &str,
) -> Result<Option<Binding>, ComposeError> {
    let given = bindings.get(&variable.name).filter(|binding| !binding.value.is_null());
    let given = given.cloned().map(|mut binding| {
        // Whatever fills a variable that is secret is treated as secret, wherever it comes from.
        if variable.source == Some(PromptSource::Secret) {
            let named = binding.value.as_str().and_then(marked).map(str::to_owned);
            binding.secret.get_or_insert_with(|| named.unwrap_or_else(|| variable.name.clone()));
        }
        binding
    });
    match given {
        Some(binding) => Ok(Some(binding)),
        None if variable.required => Err(ComposeError::Unresolved {
            template: template.to_owned(),
            variable: variable.name.clone(),
        }),
        None => Ok(variable.default_value.clone().map(|value| Binding::new(value, Trust::Trusted))),
    }
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// Where the holes of a text begin, with their names.
fn holes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text[from..].find(OPEN)?;
            let inside = start + OPEN.len();
            let end = inside + text[inside..].find(CLOSE)?;
            let name = text[inside..end].trim();
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if is_name {
                from = end + CLOSE.len();
                return Some((start, name));
            }
            from = start + 1;
        }
    })
}

fn marker(secret: &str) -> String {
    format!("[REDACTED:{secret}]")
}

/// The secret that a marker stands for.
fn marked(text: &str) -> Option<&str> {
    text.strip_prefix("[REDACTED:")?.strip_suffix(']')
}

fn digest(text: &str) -> String {
    format!("sha256:{}", hex(Sha256::digest(text)))
}

/// How much of a prompt the log keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Observability {
    Off,
    #[default]
    Hashed,
    Full,
}

impl Observability {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Hashed => "hashed",
            Self::Full => "full",
        }
    }
}

/// The event `prompt.composed` about the parts of one composition; none where the host is set to record nothing.
pub fn told_of(
    parts: &[&Composed],
    node_id: &NodeId,
    observability: Observability,
) -> Option<PromptComposed> {
    if observability == Observability::Off || parts.is_empty() {
        return None;
    }
    let joined = |is_wanted: &dyn Fn(PromptKind) -> bool| {
        let texts: Vec<&str> = parts
            .iter()
            .filter(|part| is_wanted(part.kind))
            .map(|part| part.shown.as_str())
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    };
    // Hints about the shape of an answer stand with the system's words, examples with the user's.
    let is_system = |kind| matches!(kind, PromptKind::System | PromptKind::SchemaHint);
    let (system, user) = (joined(&is_system), joined(&|kind| !is_system(kind)));
    let kind = match (&system, &user) {
        (Some(_), Some(_)) => "system+user",
        (Some(_), None) => "system-only",
        (None, _) => "user-only",
    };
    let whole = joined(&|_| true).unwrap_or_default();
    let is_untrusted = parts.iter().any(|part| part.trust == Trust::Untrusted);
    let trust = if is_untrusted { "untrusted" } else { "trusted" };
    let hashes: BTreeMap<_, _> =
        parts.iter().flat_map(|part| part.variable_hashes.clone()).collect();
    let is_full = observability == Observability::Full;
    let bindings = || parts.iter().flat_map(|part| part.variable_bindings.clone()).collect();
    let (has_system, has_user) = [PromptKind::System, PromptKind::User]
        .map(|kind| is_full && parts.iter().any(|part| part.kind == kind))
        .into();
    Some(PromptComposed {
        node_id: node_id.clone(),
        refs: parts.iter().map(|part| part.reference.clone()).collect(),
        kind: kind.to_owned(),
        hash: digest(&whole),
        composed: is_full.then_some(whole),
        system_prompt: has_system.then_some(system).flatten(),
        user_prompt: has_user.then_some(user).flatten(),
        variable_bindings: is_full.then(bindings),
        variable_hashes: Some(hashes),
        content_trust: Some(trust.to_owned()),
    })
}

#[cfg(test)]
mod tests;

//! Prompt templates as libraries keep them, or as others refer to them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::closed::ensure;
use crate::{Object, PackVersion, PromptKind, ShapeError};

/// A prompt with a name, a version, holes to fill.
///
/// Kept as JSON, one row per version: an old reader refuses fields that it does not know, a new reader takes missing
/// ones for absent, and a version is never written over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptTemplate {
    pub template_id: String,
    pub version: PackVersion,
    pub kind: PromptKind,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<PromptVariable>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_hints: Option<ModelHints>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<PromptMeta>,
}

/// One hole of a template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptVariable {
    pub name: String,
    #[serde(rename = "type")]
    pub value_type: PromptValueType,
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PromptSource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What a hole is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptValueType {
    String,
    Number,
    Boolean,
    Array,
    Object,
}

/// Where the filling of a hole comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptSource {
    #[default]
    Input,
    Variable,
    Secret,
    Context,
}

/// What the author of a template suggests to those who use it. Nothing here overrides anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelHints {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope_type: Option<String>,
}

/// Where a template comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptMeta {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PromptOrigin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_version: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptOrigin {
    Host,
    Pack,
    User,
}

/// The most that the protocol lets a template say.
pub const LONGEST_PROMPT: usize = 65_536;

impl PromptTemplate {
    /// Checks what the closed schema says beyond the types of fields.
    pub fn check(&self) -> Result<(), ShapeError> {
        ensure(is_prompt_name(&self.template_id), "templateId", || {
            "must be up to 128 of a-z, 0-9, '.', '_' and '-'".into()
        })?;
        // The schema counts characters and prompts.md counts bytes: within both is within either.
        ensure(self.text.len() <= LONGEST_PROMPT, "text", || {
            format!("must have at most {LONGEST_PROMPT} bytes")
        })?;
        let length = |text: &Option<String>| text.as_ref().map_or(0, |text| text.chars().count());
        ensure(length(&self.name) <= 200, "name", || "must have at most 200 characters".into())?;
        ensure(length(&self.description) <= 2000, "description", || {
            "must have at most 2000 characters".into()
        })?;
        let tagged = |tag: &String| (1..=64).contains(&tag.chars().count());
        ensure(self.tags.len() <= 32 && self.tags.iter().all(tagged), "tags", || {
            "at most 32 words of at most 64 characters".into()
        })?;
        if let Some(hints) = &self.model_hints {
            let warm = hints.temperature.is_none_or(|it| (0.0..=2.0).contains(&it));
            ensure(warm && hints.max_tokens != Some(0), "modelHints", || {
                "a temperature is from 0 to 2, a budget at least 1".into()
            })?;
        }
        self.check_variables()
    }

    fn check_variables(&self) -> Result<(), ShapeError> {
        for (index, variable) in self.variables.iter().enumerate() {
            let at = |field: &str| format!("variables[{index}].{field}");
            ensure(is_variable_name(&variable.name), &at("name"), || {
                "must be a letter or '_', then up to 63 letters, digits or '_'".into()
            })?;
            let once = self.variables.iter().filter(|other| other.name == variable.name).count();
            ensure(once == 1, &at("name"), || "is declared twice".into())?;
            let described = variable.description.as_ref().map_or(0, |text| text.chars().count());
            ensure(described <= 500, &at("description"), || {
                "must have at most 500 characters".into()
            })?;
        }
        Ok(())
    }

    /// `prompt:id@version`.
    pub fn pinned_ref(&self) -> String {
        format!("prompt:{}@{}", self.template_id, self.version)
    }
}

/// What names a template: `prompt:id`, `prompt:id@1.2.3`, or an object with more to say.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptRef {
    pub library_id: Option<String>,
    pub template_id: String,
    /// The newest when absent.
    pub version: Option<PackVersion>,
    /// Fillings that win over all others.
    pub overrides: Object,
}

impl PromptRef {
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::read_text(text),
            Value::Object(fields) => Self::read_object(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        }
    }

    fn read_text(text: &str) -> Option<Self> {
        let text = text.strip_prefix("prompt:")?;
        let (template_id, version) =
            text.split_once('@').map_or((text, None), |(id, version)| (id, Some(version)));
        let version = version.map(str::parse).transpose().ok()?;
        is_prompt_name(template_id).then(|| Self {
            library_id: None,
            template_id: template_id.to_owned(),
            version,
            overrides: Object::new(),
        })
    }

    fn read_object(fields: &Object) -> Option<Self> {
        let known = ["libraryId", "templateId", "version", "variableOverrides"];
        let text = |key: &str| fields.get(key).map(|value| value.as_str());
        let name = |key: &str| match text(key) {
            None => Some(None),
            Some(text) => text.filter(|text| is_prompt_name(text)).map(|text| Some(text.into())),
        };
        let version = match text("version") {
            None => None,
            Some(version) => Some(version?.parse().ok()?),
        };
        let overrides = match fields.get("variableOverrides") {
            None => Object::new(),
            Some(value) => value.as_object()?.clone(),
        };
        let (library_id, template_id) = (name("libraryId")?, name("templateId")??);
        fields.keys().all(|key| known.contains(&key.as_str())).then_some(Self {
            library_id,
            template_id,
            version,
            overrides,
        })
    }

    /// The short form, as events carry it.
    pub fn as_text(&self) -> String {
        match &self.version {
            Some(version) => format!("prompt:{}@{version}", self.template_id),
            None => format!("prompt:{}", self.template_id),
        }
    }
}

pub(crate) fn is_prompt_name(text: &str) -> bool {
    let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 128
        && text.starts_with(is_first)
        && text.chars().all(|c| is_first(c) || matches!(c, '.' | '_' | '-'))
}

fn is_variable_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

//! Every value that the file can set, with its default where the file leaves it alone.

use serde_json::{Value, json};
use toml::Table;

use callboard_agents::ModelTable;
use callboard_core::redact;

use super::Config;
use crate::exit::CommandError;
use crate::settings::{Origin, Shown};

/// The defaults, as a file would say them.
const DEFAULTS: &str = include_str!("defaults.toml");
/// Tables whose values are secrets more often than not.
const HIDDEN: [&str; 2] = ["env", "headers"];
/// What stands instead of a secret.
const MASK: &str = "…";

impl Config {
    /// The sections beside `[server]`, with what the environment says of models, providers and traces.
    pub(crate) fn effective(
        &self,
        variable: fn(&str) -> Option<String>,
    ) -> Result<Vec<Shown>, CommandError> {
        let mut shown = Vec::new();
        let defaults: Table = toml::from_str(DEFAULTS)
            .map_err(|error| CommandError::failed(format!("the defaults: {error}")))?;
        collect(&defaults, "", &Origin::Default, &mut shown);
        if let Some(path) = &self.path {
            let mut written = Vec::new();
            collect(&self.written, "", &Origin::File(path.clone()), &mut written);
            shown.retain(|it| !written.iter().any(|own| own.key == it.key));
            written.retain(|own| !own.key.starts_with("server."));
            shown.extend(written);
        }
        shown.retain(|it| !is_class(&it.key));
        shown.extend(self.models(variable)?);
        shown.extend(self.providers_of_environment(variable));
        shown.extend(others(variable));
        shown.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(shown)
    }

    /// What each class of models stands for in the end.
    fn models(&self, variable: fn(&str) -> Option<String>) -> Result<Vec<Shown>, CommandError> {
        let table = self.model_table(&self.provider_settings(variable)?, variable)?;
        let written = self.written.get("models").and_then(toml::Value::as_table);
        let is_written = |key: &str| written.is_some_and(|models| models.contains_key(key));
        let origin = |class: &str| {
            let own = format!("CALLBOARD_MODEL_{}", class.to_ascii_uppercase());
            let set =
                [own, "CALLBOARD_MODEL".to_owned()].into_iter().find(|it| variable(it).is_some());
            match (set, &self.path) {
                (Some(name), _) => Origin::Variable(name),
                (None, Some(path)) if is_written(class) || is_written("default") => {
                    Origin::File(path.clone())
                }
                (None, _) => Origin::Default,
            }
        };
        let shown = ModelTable::CLASSES.map(|class| Shown {
            key: format!("models.{}", class.as_str()),
            value: json!(table.of(class).to_string()),
            origin: origin(class.as_str()),
        });
        Ok(shown.into())
    }
}

fn is_class(key: &str) -> bool {
    ModelTable::CLASSES.iter().any(|class| key == format!("models.{}", class.as_str()))
}

fn collect(table: &Table, path: &str, origin: &Origin, into: &mut Vec<Shown>) {
    for (key, value) in table {
        let path = super::explain::join(path, key);
        match value {
            toml::Value::Table(inner) if HIDDEN.contains(&key.as_str()) => {
                let names: Vec<_> = inner.keys().map(|name| (name.clone(), json!(MASK))).collect();
                let value = Value::Object(names.into_iter().collect());
                into.push(Shown { key: path, value, origin: origin.clone() });
            }
            toml::Value::Table(inner) => collect(inner, &path, origin, into),
            leaf => {
                let mut value = serde_json::to_value(leaf).unwrap_or_default();
                redact(&mut value);
                into.push(Shown { key: path, value, origin: origin.clone() });
            }
        }
    }
}

/// What has no key in the file: the seal key, and where traces go.
fn others(variable: fn(&str) -> Option<String>) -> Vec<Shown> {
    let names = [
        "CALLBOARD_SEAL_KEY",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        "OTEL_SERVICE_NAME",
        "OTEL_TRACES_EXPORTER",
    ];
    let shown = |name: &str| {
        let text = variable(name)?;
        let is_secret = name.ends_with("KEY") || name.ends_with("HEADERS");
        let mut value = json!(if is_secret { MASK } else { text.as_str() });
        redact(&mut value);
        Some(Shown { key: name.to_owned(), value, origin: Origin::of_variable(name) })
    };
    names.into_iter().filter_map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn the_defaults_that_are_shown_are_those_that_apply() {
        let read =
            Config { written: Table::new(), ..Config::parse("defaults.toml", DEFAULTS).unwrap() };
        assert_eq!(format!("{read:?}"), format!("{:?}", Config::default()));
    }

    #[test]
    fn what_the_file_says_replaces_the_default_and_secrets_are_hidden() {
        let text = "[limits]\ninflight = 9\n[mcp.servers.a]\ncommand = [\"x\", \"--key=sk-ant-api03-0123456789abcdefghijABCDEFGHIJ\"]\nenv = { TOKEN = \"hunter2\" }\n";
        let config =
            Config { path: Some("c.toml".into()), ..Config::parse("c.toml", text).unwrap() };
        let shown = config.effective(nothing).unwrap();
        let found = |key: &str| shown.iter().filter(|it| it.key == key).collect::<Vec<_>>();
        let [inflight] = found("limits.inflight")[..] else { panic!("{shown:?}") };
        assert_eq!(
            (inflight.value.clone(), inflight.origin.to_string()),
            (json!(9), "c.toml".to_owned())
        );
        assert_eq!(found("limits.connections")[0].origin, Origin::Default);
        let all = format!("{shown:?}");
        assert!(!all.contains("hunter2") && !all.contains("sk-ant-api03"), "{all}");
    }
}

//! Secrets of the host itself: known to the redactor of every run from its first event on, and to that of the
//! host's own log.

use std::path::Path;

use callboard_backends::{McpServer, McpWay, ProviderSettings};
use callboard_core::{Redactor, SecretText, redact_text};
use callboard_server::StaticKey;
use secrecy::ExposeSecret as _;

use super::Settings;
use crate::handover;

/// How events call what they leave out.
const NAME: &str = "host";
/// A part of a variable's name that says what its value is.
const SECRET_WORDS: [&str; 13] = [
    "KEY",
    "KEYS",
    "APIKEY",
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "PAT",
    "CREDENTIAL",
    "CREDENTIALS",
];

/// Keys of providers and callers, variables that are called like secrets or look like one, what MCP servers are given,
/// the key of the database.
pub(super) fn secrets(settings: &Settings, providers: &[ProviderSettings]) -> Redactor {
    let mut known = Redactor::default();
    let mut learn = |text: &str| known.learn(NAME, &SecretText::new(text.to_owned()));
    for key in providers.iter().filter_map(|provider| provider.key.as_ref()) {
        learn(key.expose_secret());
    }
    settings.api_keys.iter().map(StaticKey::reveal).for_each(&mut learn);
    let variables = handover::variables();
    variables.iter().filter_map(|(name, value)| secret_in(name, value)).for_each(&mut learn);
    settings.config.mcp.servers.values().flat_map(of_server).for_each(&mut learn);
    known
}

/// The key that seals the database.
pub(super) fn learn_seal_key(known: &mut Redactor, data: &Path) {
    // It is there, or the database would not have opened.
    if let Ok(key) = std::fs::read_to_string(data.join("host.key")) {
        known.learn(NAME, &SecretText::new(key.trim_end().to_owned()));
    }
}

fn of_server(server: &McpServer) -> Vec<&str> {
    match &server.way {
        McpWay::Command { environment, .. } => {
            environment.iter().filter_map(|(name, value)| secret_in(name, value)).collect()
        }
        // Whatever the scheme is called, what comes after it is the secret.
        McpWay::Url { headers, .. } => headers
            .values()
            .map(|value| value.split_once(' ').map_or(value.as_str(), |(_, token)| token.trim()))
            .collect(),
    }
}

/// The secret that a variable holds. A place is none, and an address has one only if it has a password.
fn secret_in<'v>(name: &str, value: &'v str) -> Option<&'v str> {
    if let Some((_, rest)) = value.split_once("://") {
        let login = rest.split(['/', '?', '#']).next()?.rsplit_once('@')?.0;
        return login.split_once(':').map(|(_, password)| password);
    }
    let name = name.to_ascii_uppercase();
    let is_named =
        name.split('_').any(|word| SECRET_WORDS.contains(&word)) || name.ends_with("PASSWORD");
    let is_meant = (is_named && !value.starts_with('/')) || redact_text(value) != value;
    is_meant.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_by_its_variables_name_or_by_its_looks() {
        let look = format!("gh{}_{}", "p", "abcdefghijKLMNOPQRST0123456789");
        for (name, value, expected) in [
            ("OPENAI_API_KEY", "0123456789", Some("0123456789")),
            ("github_token", "0123456789", Some("0123456789")),
            ("PGPASSWORD", "0123456789", Some("0123456789")),
            ("OPENAI_API_KEY_FILE", "/run/secrets/openai", None),
            ("KEYBOARD", "german-neo", None),
            ("LOG_LEVEL", "debugging", None),
            ("ANYTHING", look.as_str(), Some(look.as_str())),
            ("DATABASE_URL", "postgres://me:hunter2-hunter2@db/prod", Some("hunter2-hunter2")),
            ("OPENAI_BASE_URL", "https://api.example.com/v1", None),
        ] {
            assert_eq!(secret_in(name, value), expected, "{name}");
        }
    }
}

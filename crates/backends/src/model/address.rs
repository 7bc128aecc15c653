//! The URL of a provider, however the operator wrote it.

use std::fmt;

use reqwest::Url;

use super::ProviderKind;

/// The address that all of a provider's paths begin with. Private ones must not get about, so it is never formatted.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// A URL that cannot be used. The text repeats nothing of it: it may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    #[error("it is not an address that begins with http:// or https://")]
    NotHttp,
    #[error("it holds a user name or a password")]
    Credentials,
    #[error("it has a query or a fragment")]
    Query,
}

impl BaseUrl {
    pub fn parse(kind: ProviderKind, text: &str) -> Result<Self, BaseUrlError> {
        let text = text.trim();
        let text = match kind {
            ProviderKind::Ollama => ollama(text),
            _ => text.to_owned(),
        };
        let mut url = Url::parse(&text).map_err(|_| BaseUrlError::NotHttp)?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(BaseUrlError::NotHttp);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BaseUrlError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BaseUrlError::Query);
        }
        let path = normalise(kind, url.path());
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The provider's own service; none for kinds that everybody may offer.
    pub fn public_service(kind: ProviderKind) -> Option<Self> {
        let text = match kind {
            ProviderKind::Anthropic => "https://api.anthropic.com",
            ProviderKind::OpenAi | ProviderKind::OpenAiResponses => "https://api.openai.com/v1",
            ProviderKind::Gemini => "https://generativelanguage.googleapis.com",
            ProviderKind::Ollama => "http://127.0.0.1:11434",
            ProviderKind::OpenAiCompatible => return None,
        };
        Self::parse(kind, text).ok()
    }

    pub(super) fn is_public_service(&self, kind: ProviderKind) -> bool {
        kind != ProviderKind::Ollama && Self::public_service(kind).as_ref() == Some(self)
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Where a turn is asked for. The model's name may come from a caller, so it cannot become more than one segment.
    pub(super) fn turn(&self, kind: ProviderKind, model: &str) -> String {
        let mut url = self.0.clone();
        let named = model.strip_prefix("models/").unwrap_or(model);
        let named = format!("{named}:streamGenerateContent");
        let segments: &[&str] = match kind {
            ProviderKind::Anthropic => &["messages"],
            ProviderKind::OpenAi | ProviderKind::OpenAiCompatible => &["chat", "completions"],
            ProviderKind::OpenAiResponses => &["responses"],
            ProviderKind::Gemini => &["models", &named],
            ProviderKind::Ollama => &["api", "chat"],
        };
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        if kind == ProviderKind::Gemini {
            url.set_query(Some("alt=sse"));
        }
        url.into()
    }

    /// Where models are listed, which shows whether a key is accepted without sending a prompt.
    pub(super) fn models(&self, kind: ProviderKind) -> String {
        self.below(match kind {
            ProviderKind::Ollama => &["api", "tags"],
            _ => &["models"],
        })
    }

    /// Where one model is described, by the names that a turn may use; none where only the list can be read.
    pub(super) fn model(&self, kind: ProviderKind, model: &str) -> Option<String> {
        match kind {
            ProviderKind::Anthropic
            | ProviderKind::OpenAi
            | ProviderKind::OpenAiResponses
            | ProviderKind::Gemini => {
                Some(self.below(&["models", model.strip_prefix("models/").unwrap_or(model)]))
            }
            ProviderKind::OpenAiCompatible | ProviderKind::Ollama => None,
        }
    }

    fn below(&self, segments: &[&str]) -> String {
        let mut url = self.0.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url.into()
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BaseUrl(…)")
    }
}

/// `OLLAMA_HOST` may be a host, a port, both, or an address; where to listen is also where to ask.
fn ollama(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => (name, Some(port)),
        _ => (host, None),
    };
    let name = match name {
        "" | "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        name => name,
    };
    // An address with a scheme has that scheme's port; a bare host has Ollama's own.
    match port.or((!text.contains("://")).then_some("11434")) {
        Some(port) => format!("{scheme}://{name}:{port}/{path}"),
        None => format!("{scheme}://{name}/{path}"),
    }
}

/// What people leave out or write too much of.
fn normalise(kind: ProviderKind, path: &str) -> String {
    let path = path.trim_end_matches('/');
    let versioned = |version: &str, known: &[&str]| {
        let last = path.rsplit('/').next().unwrap_or_default();
        if known.contains(&last) { format!("{path}/") } else { format!("{path}/{version}/") }
    };
    match kind {
        ProviderKind::Anthropic => versioned("v1", &["v1"]),
        ProviderKind::Gemini => versioned("v1beta", &["v1beta", "v1", "v1alpha"]),
        ProviderKind::Ollama => {
            let bare = path.strip_suffix("/api").or_else(|| path.strip_suffix("/v1"));
            format!("{}/", bare.unwrap_or(path))
        }
        // Whoever wrote a path knows it: not everybody calls it v1.
        ProviderKind::OpenAi | ProviderKind::OpenAiResponses | ProviderKind::OpenAiCompatible => {
            if path.is_empty() {
                "/v1/".to_owned()
            } else {
                format!("{path}/")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: ProviderKind, model: &str, written: &[&str], expected: &str) {
        for text in written {
            let base = BaseUrl::parse(kind, text).unwrap();
            assert_eq!(base.turn(kind, model), expected, "{text}");
        }
    }

    #[test]
    fn anthropic_is_found_with_and_without_its_version() {
        check(
            ProviderKind::Anthropic,
            "claude",
            &[
                "https://api.anthropic.com",
                "https://api.anthropic.com/",
                "https://api.anthropic.com/v1/",
            ],
            "https://api.anthropic.com/v1/messages",
        );
        check(
            ProviderKind::Anthropic,
            "claude",
            &["http://gate.example/anthropic", "http://gate.example/anthropic/v1"],
            "http://gate.example/anthropic/v1/messages",
        );
    }

    #[test]
    fn openai_is_found_with_and_without_its_version() {
        check(
            ProviderKind::OpenAi,
            "gpt",
            &["https://api.openai.com", "https://api.openai.com/v1", "https://api.openai.com/v1/"],
            "https://api.openai.com/v1/chat/completions",
        );
        check(
            ProviderKind::OpenAiResponses,
            "gpt",
            &["https://api.openai.com/v1"],
            "https://api.openai.com/v1/responses",
        );
    }

    #[test]
    fn a_compatible_servers_path_is_taken_as_it_is() {
        check(
            ProviderKind::OpenAiCompatible,
            "m",
            &["http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1/"],
            "http://127.0.0.1:11434/v1/chat/completions",
        );
        check(
            ProviderKind::OpenAiCompatible,
            "m",
            &["https://x.example/openai/v4"],
            "https://x.example/openai/v4/chat/completions",
        );
    }

    #[test]
    fn gemini_has_the_model_in_its_path_and_nothing_else_of_the_caller() {
        let expected =
            "https://g.example/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse";
        check(
            ProviderKind::Gemini,
            "gemini-2.5-pro",
            &["https://g.example", "https://g.example/v1beta"],
            expected,
        );
        check(ProviderKind::Gemini, "models/gemini-2.5-pro", &["https://g.example"], expected);
        check(
            ProviderKind::Gemini,
            "../../x?key=1#",
            &["https://g.example"],
            "https://g.example/v1beta/models/..%2F..%2Fx%3Fkey=1%23:streamGenerateContent?alt=sse",
        );
    }

    #[test]
    fn ollama_is_found_however_its_host_is_written() {
        check(
            ProviderKind::Ollama,
            "llama",
            &[
                "127.0.0.1",
                "0.0.0.0:11434",
                ":11434",
                "http://127.0.0.1:11434/v1",
                "127.0.0.1:11434/api",
            ],
            "http://127.0.0.1:11434/api/chat",
        );
        check(
            ProviderKind::Ollama,
            "llama",
            &["https://ollama.example"],
            "https://ollama.example/api/chat",
        );
    }

    #[test]
    fn an_address_with_secrets_in_it_is_refused_and_not_repeated() {
        for (text, expected) in [
            ("ftp://x.example", BaseUrlError::NotHttp),
            ("x.example", BaseUrlError::NotHttp),
            ("https://me:hunter2@x.example", BaseUrlError::Credentials),
            ("https://x.example/?key=hunter2", BaseUrlError::Query),
        ] {
            let error = BaseUrl::parse(ProviderKind::OpenAi, text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
        let base = BaseUrl::parse(ProviderKind::OpenAi, "http://10.0.0.7").unwrap();
        assert!(!format!("{base:?}").contains("10.0.0.7"));
    }
}

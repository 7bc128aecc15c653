//! The environment variables that OpenTelemetry gives to exporters.

use std::time::Duration;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where traces are sent, and under which service name.
#[derive(Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    /// The whole address.
    pub endpoint: String,
    pub protocol: OtlpProtocol,
    /// Often a credential, so debugging does not show them.
    pub headers: Vec<(String, String)>,
    /// `service.name` and whatever else names this process.
    pub resource: Vec<(String, String)>,
    pub timeout: Duration,
    /// Whether bodies are compressed with gzip.
    pub is_compressed: bool,
}

impl std::fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OtlpSettings").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    Json,
    Protobuf,
}

/// Settings that cannot be followed. Values are not repeated: they may be secret.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    #[error("OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https address")]
    Endpoint,
    #[error("OTEL_EXPORTER_OTLP_HEADERS must be written as name=value,name=value")]
    Headers,
    #[error("OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or http/json")]
    Protocol,
    #[error("OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds")]
    Timeout,
    #[error("OTEL_EXPORTER_OTLP_COMPRESSION must be gzip or none")]
    Compression,
    #[error(
        "{0} is not supported: the host's own list of certificate authorities counts (SSL_CERT_FILE adds to it)"
    )]
    Certificate(String),
    #[error("no HTTP client for traces: {0}")]
    Client(String),
}

impl OtlpSettings {
    /// Reads what `variable` says; none where no collector is named, or traces are switched off.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, OtlpError> {
        let is_off = variable("OTEL_SDK_DISABLED")
            .is_some_and(|text| text.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").as_deref() == Some("none");
        // What is said of traces counts before what is said of everything.
        let said = |name: &str| {
            variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
                .or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let common = || {
            let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/traces", base.trim_end_matches('/')))
        };
        let endpoint = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(common);
        let Some(endpoint) = endpoint.filter(|_| !is_off) else { return Ok(None) };
        let protocol = match said("PROTOCOL").as_deref() {
            None | Some("http/protobuf") => OtlpProtocol::Protobuf,
            Some("http/json") => OtlpProtocol::Json,
            Some(_) => return Err(OtlpError::Protocol),
        };
        let timeout = match said("TIMEOUT") {
            None => DEFAULT_TIMEOUT,
            Some(text) => {
                text.parse().map(Duration::from_millis).map_err(|_| OtlpError::Timeout)?
            }
        };
        let is_compressed = match said("COMPRESSION").as_deref() {
            None | Some("" | "none") => false,
            Some("gzip") => true,
            Some(_) => return Err(OtlpError::Compression),
        };
        for name in ["CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"] {
            if said(name).is_some_and(|value| !value.is_empty()) {
                return Err(OtlpError::Certificate(format!("OTEL_EXPORTER_OTLP_{name}")));
            }
        }
        let headers = pairs(&said("HEADERS").unwrap_or_default()).ok_or(OtlpError::Headers)?;
        let mut resource =
            pairs(&variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default()).unwrap_or_default();
        let named = resource.iter().position(|(name, _)| name == "service.name");
        let named = named.map(|place| resource.remove(place).1);
        let service = variable("OTEL_SERVICE_NAME").or(named);
        resource
            .push(("service.name".to_owned(), service.unwrap_or_else(|| "callboard".to_owned())));
        if !resource.iter().any(|(name, _)| name == "service.version") {
            resource.push(("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
        }
        Ok(Some(Self { endpoint, protocol, headers, resource, timeout, is_compressed }))
    }
}

/// `name=value,name=value`, values percent-encoded.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    text.split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let name = name.trim();
            (!name.is_empty()).then_some((name.to_owned(), decoded(value.trim())?))
        })
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Option<OtlpSettings>, OtlpError> {
        let set: BTreeMap<&str, &str> = set.iter().copied().collect();
        OtlpSettings::read(|name| set.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn without_a_collector_nothing_is_sent() {
        for set in [
            &[] as &[(&str, &str)],
            &[("OTEL_SERVICE_NAME", "x")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), ("OTEL_SDK_DISABLED", "true")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert!(matches!(read(set), Ok(None)), "{set:?}");
        }
    }

    #[test]
    fn what_is_said_of_traces_counts_first() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc, x-team = a%2Cb "),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_SERVICE_NAME", "agents"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=other"),
        ]);
        let settings = settings.expect("settings").expect("a collector");
        assert_eq!(settings.endpoint, "http://c:4318/v1/traces");
        assert_eq!(settings.protocol, OtlpProtocol::Json);
        assert_eq!(settings.timeout, Duration::from_millis(250));
        assert!(settings.is_compressed);
        assert_eq!(settings.headers[0], ("authorization".into(), "Bearer abc".into()));
        assert_eq!(settings.headers[1], ("x-team".into(), "a,b".into()));
        assert_eq!(settings.resource[0].0, "deployment.environment");
        assert_eq!(settings.resource[1], ("service.name".into(), "agents".into()));
        assert!(!format!("{settings:?}").contains("abc"));
        let own = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/own")];
        let own = read(&own).expect("settings").expect("a collector");
        assert_eq!(
            (own.endpoint.as_str(), own.protocol),
            ("https://c/own", OtlpProtocol::Protobuf)
        );
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c");
        for wrong in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "no pair"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%zz"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
            ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/key.pem"),
        ] {
            assert!(read(&[endpoint, wrong]).is_err(), "{wrong:?}");
        }
    }
}

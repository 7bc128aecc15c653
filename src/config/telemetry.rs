//! `[telemetry]`: whose runs are traced, and whether traces hold what was said. Where they go is said by
//! OpenTelemetry's own variables.

use std::collections::BTreeSet;

use serde::Deserialize;

use callboard_backends::Traced;
use callboard_core::Content;
use callboard_protocol::Tenant;

/// OpenTelemetry's own switch for content.
const CAPTURE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Telemetry {
    /// Whose runs are sent; none for everybody's.
    tenants: Option<BTreeSet<Tenant>>,
    /// Whether spans show what models and tools were asked and answered.
    content: Option<bool>,
}

impl Telemetry {
    /// What is traced with this section. The variable counts before the file.
    pub(crate) fn traced(&self, variable: impl Fn(&str) -> Option<String>) -> Traced {
        let said = variable(CAPTURE).map(|text| text.eq_ignore_ascii_case("true"));
        let is_shown = said.or(self.content).unwrap_or(false);
        let content = if is_shown { Content::Shown } else { Content::Hidden };
        Traced { tenants: self.tenants.clone(), content }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_shown_only_where_that_is_asked_for() {
        let read = |text: &str| toml::from_str::<Telemetry>(text).unwrap();
        for (text, variable, expected) in [
            ("", None, Content::Hidden),
            ("content = true", None, Content::Shown),
            ("content = true", Some("false"), Content::Hidden),
            ("", Some("True"), Content::Shown),
            ("", Some("yes"), Content::Hidden),
        ] {
            let traced = read(text).traced(|_| variable.map(str::to_owned));
            assert_eq!(traced.content, expected, "{text} {variable:?}");
            assert_eq!(traced.tenants, None);
        }
        let traced = read(r#"tenants = ["acme"]"#).traced(|_| None);
        assert_eq!(traced.tenants, Some(BTreeSet::from(["acme".into()])));
    }
}

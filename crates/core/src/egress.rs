//! Where a credential may go: what its owner said of it, against where a request leads (RFC 0079).

use callboard_protocol::{EgressDecided, EgressDecision, EgressReason, SecretName, Timestamp};
use serde::{Deserialize, Serialize};

/// How many places one credential is good for, at most.
pub const MOST_AUDIENCES: usize = 32;
/// The longest name that a host can have, with a port.
const LONGEST_AUDIENCE: usize = 253 + ":65535".len();

/// What is known of a credential beside its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provenance {
    /// Hosts that may get it: `api.example.com`, with a port where that is unusual, or `*.example.com` for all below.
    pub audiences: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Provenance {
    /// Whether it says something that can be decided by.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=MOST_AUDIENCES).contains(&self.audiences.len()) {
            return Err(format!("must name 1 to {MOST_AUDIENCES} hosts"));
        }
        match self.audiences.iter().find(|audience| !is_audience(audience)) {
            Some(wrong) => Err(format!(
                "{wrong:?} is no host; write api.example.com, api.example.com:8443 or *.example.com"
            )),
            None => Ok(()),
        }
    }

    fn admits(&self, destination: &str) -> bool {
        self.audiences.iter().any(|audience| fits(audience, destination))
    }
}

fn is_audience(text: &str) -> bool {
    let host = text.strip_prefix("*.").unwrap_or(text);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    (1..=LONGEST_AUDIENCE).contains(&host.len()) && host.chars().all(plain)
}

/// Where a tenant's requests may go, beyond what the host allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressList {
    /// Hosts as an audience names them; with none, every host that is not denied.
    pub allow: Vec<String>,
    /// Never these, whatever port is asked for.
    pub deny: Vec<String>,
}

impl EgressList {
    pub fn check(list: &[String]) -> Result<(), String> {
        match list.iter().find(|host| !is_audience(host)) {
            Some(wrong) => Err(format!(
                "{wrong:?} is no host; write api.example.com, api.example.com:8443 or *.example.com"
            )),
            None => Ok(()),
        }
    }

    /// The rule that a request to this host breaks: the name of the list, and its entry where there is one.
    pub fn refusal(&self, host: &str, port: Option<u16>) -> Option<String> {
        // Resolvers take a name with a dot at its end as the same one.
        let host = host.trim_end_matches('.');
        let place = port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let is_denied = |denied: &&String| fits(denied, host) || fits(denied, &place);
        if let Some(denied) = self.deny.iter().find(is_denied) {
            return Some(format!("deny {denied:?}"));
        }
        let is_allowed = self.allow.is_empty() || self.allow.iter().any(|it| fits(it, &place));
        (!is_allowed).then(|| "allow".to_owned())
    }
}

/// Whether an entry means this destination.
fn fits(audience: &str, destination: &str) -> bool {
    match audience.strip_prefix('*') {
        // With its dot, so that no other name can end like it.
        Some(below) => {
            destination.len() > below.len()
                && destination.to_ascii_lowercase().ends_with(&below.to_ascii_lowercase())
        }
        None => audience.eq_ignore_ascii_case(destination),
    }
}

/// Whether a credential goes along to a destination. What cannot be decided is denied.
pub fn decide_egress(
    credential: &SecretName,
    provenance: Option<&Provenance>,
    destination: &str,
    at: Timestamp,
) -> EgressDecided {
    let reason = match provenance {
        None => EgressReason::ProvenanceUnevaluable,
        Some(it) if it.check().is_err() => EgressReason::ProvenanceUnevaluable,
        Some(it) if it.expires_at.is_some_and(|end| end <= at) => EgressReason::Expired,
        Some(it) if !it.admits(destination) => EgressReason::OutOfAudience,
        Some(_) => EgressReason::Ok,
    };
    let is_allowed = reason == EgressReason::Ok;
    EgressDecided {
        node_id: None,
        decision: if is_allowed { EgressDecision::Allowed } else { EgressDecision::Denied },
        destination: destination.to_owned(),
        credential_id: Some(credential.to_string()),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(audiences: &[&str], expires_at: Option<i64>, destination: &str) -> EgressReason {
        let provenance = Provenance {
            audiences: audiences.iter().map(|it| (*it).to_owned()).collect(),
            expires_at: expires_at.map(Timestamp::from_millis),
        };
        let at = Timestamp::from_millis(1_000);
        let decided = decide_egress(&"stripe".into(), Some(&provenance), destination, at);
        assert_eq!(decided.decision == EgressDecision::Allowed, decided.reason == EgressReason::Ok);
        decided.reason
    }

    #[test]
    fn a_credential_goes_to_its_audiences_and_nowhere_else() {
        let to = |destination: &str| decided(&["api.stripe.com", "*.acme.dev"], None, destination);
        for good in ["api.stripe.com", "API.Stripe.com", "a.acme.dev", "a.b.acme.dev"] {
            assert_eq!(to(good), EgressReason::Ok, "{good}");
        }
        for bad in [
            "attacker.example",
            "stripe.com",
            "api.stripe.com.evil.example",
            "xapi.stripe.com",
            "api.stripe.com:8443",
            "acme.dev",
            "evilacme.dev",
            ".acme.dev",
            "",
        ] {
            assert_eq!(to(bad), EgressReason::OutOfAudience, "{bad}");
        }
        assert_eq!(decided(&["a.dev:8443"], None, "a.dev:8443"), EgressReason::Ok);
        assert_eq!(decided(&["a.dev:8443"], None, "a.dev"), EgressReason::OutOfAudience);
    }

    #[test]
    fn a_tenants_requests_go_where_its_lists_let_them() {
        let list = |allow: &[&str], deny: &[&str]| EgressList {
            allow: allow.iter().map(|it| (*it).to_owned()).collect(),
            deny: deny.iter().map(|it| (*it).to_owned()).collect(),
        };
        let both =
            list(&["*.corp.dev", "api.dev", "api.dev:8443"], &["bad.corp.dev", "*.evil.dev"]);
        for (host, port) in [("a.corp.dev", None), ("API.dev", None), ("api.dev.", Some(8443))] {
            assert_eq!(both.refusal(host, port), None, "{host}");
        }
        for (host, port, rule) in [
            ("bad.corp.dev", None, "deny \"bad.corp.dev\""),
            ("Bad.corp.dev.", Some(8080), "deny \"bad.corp.dev\""),
            ("x.evil.dev", None, "deny \"*.evil.dev\""),
            ("api.dev", Some(81), "allow"),
            ("corp.dev", None, "allow"),
            ("xcorp.dev", None, "allow"),
        ] {
            assert_eq!(both.refusal(host, port).as_deref(), Some(rule), "{host}");
        }
        assert_eq!(list(&[], &["a.dev"]).refusal("b.dev", Some(1)), None);
        assert!(EgressList::check(&["https://a.dev/".to_owned()]).is_err());
    }

    #[test]
    fn what_is_over_or_cannot_be_told_is_denied() {
        assert_eq!(decided(&["a.dev"], Some(1_000), "a.dev"), EgressReason::Expired);
        assert_eq!(decided(&["a.dev"], Some(1_001), "a.dev"), EgressReason::Ok);
        for nobody in [&[][..], &[""], &["https://a.dev/"], &["a dev"], &["*"], &["*a.dev"]] {
            assert_eq!(decided(nobody, None, "a.dev"), EgressReason::ProvenanceUnevaluable);
        }
        let at = Timestamp::from_millis(0);
        let unknown = decide_egress(&"x".into(), None, "a.dev", at);
        assert_eq!(unknown.reason, EgressReason::ProvenanceUnevaluable);
        assert_eq!(unknown.decision, EgressDecision::Denied);
    }
}

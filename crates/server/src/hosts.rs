//! The names that this host answers to. A page of another site can make its own name lead to a host on the reader's
//! machine (DNS rebinding) and then read what needs no key; such requests bring that page's name in `Host`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header;

use crate::problem::{Code, Problem};

/// Which names in `Host` are taken. Addresses, `localhost` and names without a dot always are: nobody who has a site on the
/// internet can make those lead elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostNames {
    /// Whatever the network lets through.
    #[default]
    Any,
    Only(BTreeSet<String>),
}

impl HostNames {
    /// What a host that listens there answers to: the names that the operator gave. Where there are none, a host that only
    /// this machine can reach has no other name than `localhost`, and one that others reach may have any.
    pub fn of(listens: IpAddr, named: &[String]) -> Self {
        if named.is_empty() && !listens.is_loopback() {
            Self::Any
        } else {
            Self::Only(named.iter().map(|name| plain(name)).collect())
        }
    }

    pub(crate) fn check(&self, request: &Request) -> Result<(), Problem> {
        let Self::Only(names) = self else { return Ok(()) };
        let asked = match (request.uri().host(), request.headers().get(header::HOST)) {
            (Some(host), _) => Some(host),
            (None, Some(value)) => Some(value.to_str().map_err(|_| misdirected())?),
            // Browsers always say it, and only they can be misled.
            (None, None) => None,
        };
        if asked.is_none_or(|asked| is_address(asked) || names.contains(&name_of(asked))) {
            Ok(())
        } else {
            Err(misdirected())
        }
    }
}

/// Whether this can stand in `Host`, without a port.
pub fn is_host_name(text: &str) -> bool {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || "-._".contains(sign);
    !text.is_empty() && text.chars().all(is_part)
}

fn misdirected() -> Problem {
    Problem::new(Code::MisdirectedRequest, "this host is not known by the name in Host")
        .with("hint", "start it with --host NAME to reach it by another name than localhost")
}

/// A name of one word, what ends with `.localhost`, or an address, with or without a port.
fn is_address(host: &str) -> bool {
    let name = name_of(host);
    let address = name.trim_matches(['[', ']']);
    let is_one_word = !name.is_empty() && !name.contains('.');
    is_one_word || name.ends_with(".localhost") || address.parse::<IpAddr>().is_ok()
}

/// Without its port. The colons of an address stand in brackets.
fn name_of(host: &str) -> String {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    };
    plain(name)
}

fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn takes(names: &HostNames, host: &str) -> bool {
        let request = Request::builder().header(header::HOST, host).body(Body::empty());
        names.check(&request.unwrap_or_default()).is_ok()
    }

    #[test]
    fn a_host_on_this_machine_alone_answers_to_no_name_of_others() {
        let names = HostNames::of(IpAddr::from([127, 0, 0, 1]), &[]);
        for host in [
            "localhost",
            "localhost:8787",
            "LocalHost.:8787",
            "app.localhost:1",
            "callboard:8787",
            "127.0.0.1",
            "127.0.0.1:8787",
            "[::1]",
            "[::1]:8787",
            "10.0.0.7:80",
        ] {
            assert!(takes(&names, host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8787",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert!(!takes(&names, host), "{host}");
        }
        assert!(names.check(&Request::default()).is_ok(), "probes need not say it");
    }

    #[test]
    fn names_that_were_given_count_and_no_others() {
        for address in [[127, 0, 0, 1], [0, 0, 0, 0]] {
            let names = HostNames::of(IpAddr::from(address), &["Board.Example".to_owned()]);
            assert!(takes(&names, "board.example:443") && !takes(&names, "evil.example"));
        }
        assert!(takes(&HostNames::of(IpAddr::from([0, 0, 0, 0]), &[]), "anything.example"));
    }

    #[test]
    fn a_name_has_no_scheme_and_no_port() {
        assert!(is_host_name("board.example") && is_host_name("desk_1"));
        for wrong in ["", "http://board.example", "board.example:80", "a b"] {
            assert!(!is_host_name(wrong), "{wrong}");
        }
    }
}

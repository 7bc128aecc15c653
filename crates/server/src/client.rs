//! Who is at the other end of a connection, and how it reached this host: from the connection itself, and from what a
//! proxy says that the operator trusts.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, Request, header};

/// Addresses of proxies whose word on their clients counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[Network]>);

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

/// The end of a request, as far as this host believes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// Whether it came over TLS, here or at a trusted proxy.
    pub(crate) is_secure: bool,
}

/// The other end of the connection that a request came over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    pub(crate) is_tls: bool,
}

/// Chains of proxies are short, and a header is a stranger's.
const MOST_HOPS: usize = 32;

impl TrustedProxies {
    /// Reads networks such as `10.0.0.0/8`, and single addresses. The first that is neither is the error.
    pub fn read<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, String> {
        let networks: Result<Vec<Network>, String> = texts
            .into_iter()
            .map(|text| Network::read(text).ok_or_else(|| text.to_owned()))
            .collect();
        Ok(Self(networks?.into()))
    }

    fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// What is believed of a request that came over this connection.
    pub(crate) fn client(&self, peer: IpAddr, is_tls: bool, headers: &HeaderMap) -> Client {
        let peer = peer.to_canonical();
        if !self.contain(peer) {
            return Client { address: peer, is_secure: is_tls };
        }
        let proto = headers.get_all("x-forwarded-proto").iter().next_back();
        let proto =
            proto.and_then(|value| value.to_str().ok()).and_then(|it| it.rsplit(',').next());
        let is_secure = is_tls || proto.is_some_and(|it| it.trim().eq_ignore_ascii_case("https"));
        // Each proxy adds whom it was asked by at the end; what stands before an untrusted one is that one's word.
        let lines = headers.get_all("x-forwarded-for").iter().rev();
        let hops = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.rsplit(','));
        let mut address = peer;
        for hop in hops.take(MOST_HOPS) {
            let Some(named) = address_of(hop.trim()) else { break };
            address = named;
            if !self.contain(named) {
                break;
            }
        }
        Client { address, is_secure }
    }
}

/// An address as proxies write it, with or without a port.
fn address_of(text: &str) -> Option<IpAddr> {
    let whole = text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|socket| socket.ip());
    whole.or_else(with_port).map(|address| address.to_canonical())
}

impl Network {
    fn read(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { address, bits })
    }

    fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.bits);
                own.to_bits().checked_shr(shift) == other.to_bits().checked_shr(shift)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.bits);
                own.to_bits().checked_shr(shift) == other.to_bits().checked_shr(shift)
            }
            _ => false,
        }
    }
}

/// The address that a client knows this host by: what the operator says, or what the request was sent to. None where the
/// request does not say it in signs that an address has.
pub(crate) fn base_of<B>(public_url: Option<&str>, request: &Request<B>) -> Option<String> {
    if let Some(url) = public_url {
        return Some(url.to_owned());
    }
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = request.uri().authority().map(|it| it.as_str()).or(host)?;
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-._:[]".contains(sign);
    let is_secure = request.extensions().get::<Client>().is_some_and(|client| client.is_secure);
    let scheme = if is_secure { "https" } else { "http" };
    (!host.is_empty() && host.chars().all(is_plain)).then(|| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn seen(proxies: &[&str], peer: &str, pairs: &[(&'static str, &str)]) -> (String, bool) {
        let proxies = TrustedProxies::read(proxies.iter().copied()).unwrap();
        let client = proxies.client(peer.parse().unwrap(), false, &headers(pairs));
        (client.address.to_string(), client.is_secure)
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let said = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "https")];
        assert_eq!(seen(&[], "10.0.0.1", &said), ("10.0.0.1".to_owned(), false));
        assert_eq!(seen(&["10.0.0.0/8"], "11.0.0.1", &said), ("11.0.0.1".to_owned(), false));
        assert_eq!(seen(&["10.0.0.0/8"], "10.9.9.9", &said), ("203.0.113.9".to_owned(), true));
        assert_eq!(
            seen(&["10.0.0.0/8"], "::ffff:10.9.9.9", &said),
            ("203.0.113.9".to_owned(), true)
        );
    }

    #[test]
    fn what_a_client_wrote_before_the_first_trusted_proxy_counts_for_nothing() {
        let spoofed = [("x-forwarded-for", "127.0.0.1, 203.0.113.9, 10.0.0.2")];
        assert_eq!(seen(&["10.0.0.0/8"], "10.0.0.1", &spoofed).0, "203.0.113.9");
        let lines = [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-for", "[2001:db8::1]:7")];
        assert_eq!(seen(&["10.0.0.1"], "10.0.0.1", &lines).0, "2001:db8::1");
        let garbage =
            [("x-forwarded-for", "203.0.113.9, unknown"), ("x-forwarded-proto", "https, http")];
        assert_eq!(seen(&["10.0.0.1"], "10.0.0.1", &garbage), ("10.0.0.1".to_owned(), false));
    }

    #[test]
    fn networks_are_read_whole() {
        for wrong in ["", "10.0.0.0/33", "10.0.0", "::/129", "proxy", "10.0.0.0/-1"] {
            assert_eq!(TrustedProxies::read([wrong]), Err(wrong.to_owned()), "{wrong}");
        }
        let all = TrustedProxies::read(["0.0.0.0/0", "2001:db8::/32"]).unwrap();
        for inside in ["1.2.3.4", "2001:db8:1::"] {
            assert!(all.contain(inside.parse().unwrap()), "{inside}");
        }
        assert!(!all.contain("2001:db9::".parse().unwrap()));
    }

    #[test]
    fn a_base_is_made_of_signs_of_an_address() {
        let of = |host: &str| {
            let request = Request::builder().header(header::HOST, host).body(()).unwrap();
            base_of(None, &request)
        };
        assert_eq!(of("board.example:80"), Some("http://board.example:80".to_owned()));
        assert_eq!(of("a\"b"), None);
        assert_eq!(base_of(Some("https://x"), &Request::new(())), Some("https://x".to_owned()));
    }
}

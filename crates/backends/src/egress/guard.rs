//! Where requests may go: the scheme, the name, and every address of the name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::{fmt, io};

use async_trait::async_trait;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{is_metadata, is_public};
use super::{EgressError, Reach};

/// Longer ones are a mistake, or smuggle data.
const LONGEST_URL: usize = 2_048;

/// Names of what hands out the machine's own credentials.
const METADATA_NAMES: [&str; 2] = ["metadata", "metadata.google.internal"];

/// Resolves the addresses of a name.
#[async_trait]
pub trait Lookup: fmt::Debug + Send + Sync {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// As the machine itself does it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// The rules. The HTTP client has no way to an address but through this.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    pub(super) reach: Reach,
    pub(super) lookup: Arc<dyn Lookup>,
}

/// A host as a URL names it.
enum Host {
    Address(IpAddr),
    Name(String),
}

impl Guard {
    /// Everything that can be said of a URL without looking its name up.
    pub(super) fn read(&self, url: &str) -> Result<Url, EgressError> {
        Ok(self.split(url)?.0)
    }

    /// As `read`, and looks the name up.
    pub(super) async fn admit(&self, url: &str) -> Result<(), EgressError> {
        let (_, host) = self.split(url)?;
        match (host, self.reach) {
            (Host::Name(name), Reach::Public) => self.resolve_checked(&name).await.map(drop),
            // A name inside may be unknown until its service is up; it is checked when it is sent to.
            (Host::Name(_), Reach::Anywhere) | (Host::Address(_), _) => Ok(()),
        }
    }

    fn split(&self, url: &str) -> Result<(Url, Host), EgressError> {
        if url.len() > LONGEST_URL {
            return Err(EgressError::refused("the address is too long"));
        }
        let url = Url::parse(url).map_err(|_| EgressError::refused("the address is no URL"))?;
        match (url.scheme(), self.reach) {
            ("https", _) | ("http", Reach::Anywhere) => {}
            (_, Reach::Public) => {
                return Err(EgressError::refused("the address must begin with https://"));
            }
            (_, Reach::Anywhere) => {
                return Err(EgressError::refused(
                    "the address must begin with https:// or http://",
                ));
            }
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::refused("the address must not hold a name or a password"));
        }
        let host = url.host_str().map(read_host);
        let host = host.ok_or_else(|| EgressError::refused("the address names no host"))?;
        let is_open = match &host {
            Host::Address(address) => self.reaches(*address),
            Host::Name(name) => self.reaches_name(name.trim_end_matches('.')),
        };
        if !is_open {
            return Err(EgressError::refused(&self.beyond("the address")));
        }
        Ok((url, host))
    }

    /// Every address of a name, if all of them may be reached.
    async fn resolve_checked(&self, name: &str) -> Result<Vec<IpAddr>, EgressError> {
        let addresses = self.lookup.addresses(name).await.unwrap_or_default();
        if addresses.is_empty() {
            return Err(EgressError::NoAnswer("the host's name cannot be resolved".to_owned()));
        }
        if !addresses.iter().all(|address| self.reaches(*address)) {
            return Err(EgressError::refused(&self.beyond("an address behind the host's name")));
        }
        Ok(addresses)
    }

    fn reaches(&self, address: IpAddr) -> bool {
        match self.reach {
            Reach::Public => is_public(address),
            Reach::Anywhere => !is_metadata(address),
        }
    }

    fn reaches_name(&self, name: &str) -> bool {
        let is_local = name == "localhost" || name.ends_with(".localhost");
        !METADATA_NAMES.contains(&name) && (self.reach == Reach::Anywhere || !is_local)
    }

    fn beyond(&self, what: &str) -> String {
        match self.reach {
            Reach::Public => format!("{what} is not in the public internet"),
            Reach::Anywhere => format!("{what} is where machines get their credentials"),
        }
    }
}

/// The parser has written IPv4 addresses in their one form by now, however they were spelt.
fn read_host(host: &str) -> Host {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse().map_or_else(|_| Host::Name(host.to_ascii_lowercase()), Host::Address)
}

impl Resolve for Guard {
    /// The only lookup of a request: what it answers is what is connected to.
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = guard.resolve_checked(name.as_str()).await?;
            // Port zero stands for the one in the URL.
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

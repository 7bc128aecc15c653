//! Downloads from a registry that a person named on the command line.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};

use callboard_agents::{Fetch, FetchError, Limits};

use crate::exit::CommandError;
use crate::screen::progress;

/// A pack is small; a registry that needs longer than this is not answering.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Fetches over HTTP, never more than a pack may have, and never from where a redirect leads.
#[derive(Debug)]
pub(crate) struct Download {
    http: Client,
    most: usize,
}

impl Download {
    pub(crate) fn new() -> Result<Self, CommandError> {
        let http = Client::builder()
            // Digests are of the bytes as they were sent.
            .no_gzip()
            .timeout(TIMEOUT)
            .redirect(Policy::none())
            .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| CommandError::failed(format!("no HTTP client: {error}")))?;
        Ok(Self { http, most: Limits::default().archive })
    }
}

#[async_trait]
impl Fetch for Download {
    async fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let unreachable = |error: reqwest::Error| FetchError::Unreachable(error.to_string());
        let mut response = self.http.get(url).send().await.map_err(unreachable)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return Err(FetchError::NotFound),
            status if status.is_server_error() => {
                return Err(FetchError::Unreachable(format!("the registry answered {status}")));
            }
            status => return Err(FetchError::Refused(format!("the registry answered {status}"))),
        }
        let bar = progress::bytes(file_of(url), response.content_length());
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > self.most {
                return Err(FetchError::Refused(format!("more than {} bytes", self.most)));
            }
            bar.inc(chunk.len() as u64);
            bytes.extend(chunk);
        }
        Ok(bytes)
    }
}

/// The last part of an address: what a person recognises.
fn file_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

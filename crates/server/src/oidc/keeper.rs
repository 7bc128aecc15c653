//! The keys of one issuer as they are kept: when they are fetched, and what is said while they cannot be.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_engine::{Clock, IssuerAway, IssuerHttp};
use callboard_protocol::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::Endpoints;
use super::keys::{KeySet, MOST_BYTES};
use super::token::Wrong;

/// Between two fetches, however many tokens name keys that nobody knows: strangers write tokens.
const APART: Duration = Duration::from_secs(5);
/// A key that was taken back is used no longer than this.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// A discovery document is a page of addresses.
const LARGEST_DISCOVERY: usize = 64 * 1024;
/// Requests that may wait for an issuer at one time.
const MOST_WAITING: usize = 64;

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
}

pub(super) struct Keeper {
    issuer: String,
    http: Arc<dyn IssuerHttp>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// One fetch at a time; the others wait for what it brings.
    fetching: tokio::sync::Mutex<()>,
    waiting: Semaphore,
}

#[derive(Debug, Clone, Default)]
struct State {
    known: Option<Fetched>,
    /// When the last fetch ended, and whether it brought something.
    tried: Option<(Timestamp, bool)>,
}

#[derive(Debug, Clone)]
struct Fetched {
    at: Timestamp,
    keys: Arc<KeySet>,
    endpoints: Endpoints,
}

impl Keeper {
    pub(super) fn new(issuer: String, http: Arc<dyn IssuerHttp>, clock: Arc<dyn Clock>) -> Self {
        let (state, fetching) = (Mutex::default(), tokio::sync::Mutex::default());
        let waiting = Semaphore::new(MOST_WAITING);
        Self { issuer, http, clock, state, fetching, waiting }
    }

    /// The key that a token names, asked for where it is not known.
    pub(super) async fn find(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, Wrong> {
        let find = |keeper: &Self| {
            let known = keeper.state().known.clone()?;
            known.keys.find(kid, algorithm)
        };
        if let Some(key) = find(self) {
            return Ok(key);
        }
        self.fetch_unless_just_done().await?;
        find(self).ok_or(Wrong::UnknownKey)
    }

    pub(super) async fn endpoints(&self) -> Result<Endpoints, Wrong> {
        let known = |keeper: &Self| keeper.state().known.clone().map(|known| known.endpoints);
        if let Some(endpoints) = known(self) {
            return Ok(endpoints);
        }
        self.fetch_unless_just_done().await?;
        known(self).ok_or(Wrong::Away { retry_after: APART.as_secs() })
    }

    /// Looks again at what is known for long. It goes on meanwhile, and where there is no answer.
    pub(super) async fn refresh(&self) {
        let now = self.clock.now();
        let state = self.state().clone();
        let is_old = state.known.is_some_and(|known| now.since(known.at) > FRESH);
        let is_early = state.tried.is_some_and(|(tried, _)| now.since(tried) < APART);
        if is_old && !is_early {
            let _alone = self.fetching.lock().await;
            self.fetch().await;
        }
    }

    /// Fetches, or says what the last fetch came to where that was a moment ago.
    async fn fetch_unless_just_done(&self) -> Result<(), Wrong> {
        let away = |seconds: u64| Wrong::Away { retry_after: seconds.max(1) };
        let Ok(_place) = self.waiting.try_acquire() else { return Err(away(1)) };
        let _alone = self.fetching.lock().await;
        let now = self.clock.now();
        let tried = self.state().tried;
        let is_good = match tried {
            Some((at, is_good)) if now.since(at) < APART => is_good,
            _ => self.fetch().await,
        };
        if is_good { Ok(()) } else { Err(away(APART.as_secs())) }
    }

    /// Answers whether it brought something. What was known stays where it did not.
    async fn fetch(&self) -> bool {
        let fetched = self.ask().await;
        let at = self.clock.now();
        let mut state = self.state();
        state.tried = Some((at, fetched.is_ok()));
        match fetched {
            Ok((keys, endpoints)) => {
                state.known = Some(Fetched { at, keys: Arc::new(keys), endpoints });
                true
            }
            Err(why) => {
                let (issuer, goes_on) = (&self.issuer, state.known.is_some());
                tracing::warn!(%issuer, goes_on, error = %why, "the issuer's keys cannot be fetched");
                false
            }
        }
    }

    async fn ask(&self) -> Result<(KeySet, Endpoints), IssuerAway> {
        let address =
            format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let text = self.http.get(&address, LARGEST_DISCOVERY).await?;
        let read: Discovery = serde_json::from_slice(&text)
            .map_err(|_| IssuerAway("its discovery document cannot be read".to_owned()))?;
        if read.issuer != self.issuer {
            return Err(IssuerAway("its discovery document names another issuer".to_owned()));
        }
        let keys = self.http.get(&read.jwks_uri, MOST_BYTES).await?;
        let keys = KeySet::read(&keys).map_err(IssuerAway)?;
        let endpoints = Endpoints {
            keys: read.jwks_uri,
            authorize: read.authorization_endpoint,
            token: read.token_endpoint,
            end_session: read.end_session_endpoint,
        };
        Ok((keys, endpoints))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

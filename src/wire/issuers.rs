//! Whose tokens are taken, and where people sign in.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use callboard_backends::{Egress, Reach, SystemLookup};
use callboard_engine::{IssuerHttp, SystemClock};
use callboard_server::{Issuer, Issuers};

use super::Settings;
use crate::config::{IssuerConfig, OidcClient};
use crate::exit::CommandError;

/// Everything of the configuration that is about issuers.
pub(super) struct Configured {
    pub(super) issuers: Issuers,
    /// Those where people sign in at the console.
    pub(super) clients: Vec<(Arc<Issuer>, OidcClient, Arc<dyn IssuerHttp>)>,
}

/// Short beside the time that keys are used without looking again.
const EVERY: Duration = Duration::from_secs(60);

/// Looks again at the keys of issuers until told to stop.
pub(super) async fn keep_fresh(issuers: Issuers, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        if stop.run_until_cancelled(issuers.refresh()).await.is_none() {
            return;
        }
    }
}

/// Asks nobody: an issuer that is away keeps no host from starting.
pub(super) fn configured(settings: &Settings) -> Result<Configured, CommandError> {
    let mut all = Vec::new();
    let mut clients = Vec::new();
    for IssuerConfig { settings: issuer, allow_private, client } in
        settings.config.issuers(settings.variable)?
    {
        let reach = if allow_private { Reach::Anywhere } else { settings.reach };
        let http: Arc<dyn IssuerHttp> = Arc::new(Egress::new(reach, Arc::new(SystemLookup)));
        let issuer = Arc::new(Issuer::new(issuer, Arc::clone(&http), Arc::new(SystemClock)));
        clients.extend(client.map(|client| (Arc::clone(&issuer), client, http)));
        all.push(issuer);
    }
    Ok(Configured { issuers: Issuers::new(all), clients })
}

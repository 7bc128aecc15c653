//! The run surface as a test sees it: plain requests, and waiting with an end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

use crate::support::host::KEY;

/// Reached only when a run is stuck.
const PATIENCE: Duration = Duration::from_secs(240);

#[derive(Debug, Clone)]
pub(crate) struct Api {
    http: Client,
    url: String,
}

impl Api {
    pub(crate) fn of(url: &str) -> Result<Self> {
        let http = Client::builder().no_proxy().timeout(Duration::from_secs(70)).build()?;
        Ok(Self { http, url: url.to_owned() })
    }

    /// Creates a run; an id means that the host has acknowledged it.
    pub(crate) async fn create(&self, body: &Value, key: &str) -> Result<String> {
        let request = self.post("/v1/runs", body).header("Idempotency-Key", key);
        let response = request.send().await?;
        let status = response.status();
        let answer: Value = response.json().await?;
        match answer["runId"].as_str() {
            Some(id) => Ok(id.to_owned()),
            None => bail!("not created, {status}: {answer}"),
        }
    }

    /// `/cancel`, `:pause` or `:resume`. Whether the run's state allows it is up to the run.
    pub(crate) async fn act(&self, run: &str, verb: &str) -> Result<()> {
        let response = self.post(&format!("/v1/runs/{run}{verb}"), &json!({})).send().await?;
        match response.status().as_u16() {
            200 | 202 | 409 => Ok(()),
            status => bail!("{verb} of {run}: {status} {}", response.text().await?),
        }
    }

    /// The whole log, byte for byte.
    pub(crate) async fn log(&self, run: &str) -> Result<String> {
        self.get(&format!("/v1/runs/{run}/events/poll?timeout=1")).await
    }

    pub(crate) async fn status(&self, run: &str) -> Result<String> {
        let snapshot: Value = serde_json::from_str(&self.get(&format!("/v1/runs/{run}")).await?)?;
        Ok(snapshot["status"].as_str().context("a snapshot without a status")?.to_owned())
    }

    /// Waits for the end of a run, and lets it go on where somebody paused it.
    pub(crate) async fn finish(&self, run: &str) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.status(run).await?.as_str() {
                status @ ("completed" | "failed" | "cancelled") => return Ok(status.to_owned()),
                "paused" => self.act(run, ":resume").await?,
                status if Instant::now() > deadline => {
                    bail!("{run} is still {status}: {}", self.log(run).await?)
                }
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.http.post(format!("{}{path}", self.url)).bearer_auth(KEY).json(body)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<String> {
        let response = self.http.get(format!("{}{path}", self.url)).bearer_auth(KEY).send().await?;
        let status = response.status();
        let text = response.text().await?;
        if status.is_success() { Ok(text) } else { bail!("{path}: {status} {text}") }
    }
}

//! Requests about runs.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

use callboard_core::{RunComparison, RunDiff};
use callboard_protocol::{
    CancelRun, CreateRun, CreatedRun, ForkRun, ForkedRun, PauseRun, ResumeRun, RetriedRun,
    RetriedRuns, RetryRun, RetryRuns, RunEvent, RunOrigin, RunSnapshot,
};

use super::{Client, EXTENSION, Kind, ended, once, segment, without_nulls};
use crate::exit::CommandError;

/// How many of the newest runs are looked through for one that begins so.
const PAGES: usize = 10;
const PAGE: usize = 100;
/// A whole id: `run_` and 32 digits.
const WHOLE: usize = 36;

/// Whether this can be the beginning of a run's id. A handful of digits says nothing: ids begin with the time.
fn is_begun(id: &str) -> bool {
    id.strip_prefix("run_").is_some_and(|digits| {
        digits.len() >= 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    }) && id.len() < WHOLE
}

impl Client {
    /// The id of the one run that begins so, of the newest thousand. A whole id, and one that no run begins with, is
    /// taken as it is: the host says best what is wrong with it.
    pub(crate) async fn whole_run_id(&self, begun: &str) -> Result<String, CommandError> {
        if !is_begun(begun) {
            return Ok(begun.to_owned());
        }
        let mut found = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let mut query = vec![("limit", PAGE.to_string())];
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let asked = self.request_with(Method::GET, &format!("{EXTENSION}/runs"), &query)?;
            // A key that may not list runs names them whole.
            let Ok(page) = self.json::<Value>(asked).await else { break };
            let ids = page["runs"].as_array().into_iter().flatten();
            let ids = ids.filter_map(|run| run["runId"].as_str());
            found.extend(ids.filter(|id| id.starts_with(begun)).map(str::to_owned));
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        match found.as_slice() {
            [] => Ok(begun.to_owned()),
            [one] => Ok(one.clone()),
            [first, second, ..] => {
                let what = format!("{} runs begin with {begun}: {first}, {second} …", found.len());
                Err(CommandError::usage(what).hint("write more of the id"))
            }
        }
    }

    pub(crate) async fn keep_run(&self, run: &str) -> Result<Value, CommandError> {
        let path = format!("{EXTENSION}/runs/{}/keep", segment(run));
        self.json(self.request(Method::PUT, &path)).await
    }

    pub(crate) async fn release_run(&self, run: &str) -> Result<(), CommandError> {
        let path = format!("{EXTENSION}/runs/{}/keep", segment(run));
        self.send(self.request(Method::DELETE, &path)).await.map(drop)
    }

    pub(crate) async fn kept_runs(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, &format!("{EXTENSION}/kept-runs"))).await
    }

    pub(crate) async fn create_run(
        &self,
        body: &CreateRun,
        key: Option<&str>,
    ) -> Result<CreatedRun, CommandError> {
        let request = self.request(Method::POST, "/v1/runs").json(&without_nulls(body));
        self.json(once(request, key)).await
    }

    /// The snapshot as the host wrote it, and as we understand it.
    pub(crate) async fn run(&self, id: &str) -> Result<(Value, RunSnapshot), CommandError> {
        let value: Value = self.get(&Kind::RUN, id, "").await?;
        let snapshot = self.understand(&value)?;
        Ok((value, snapshot))
    }

    /// Every event so far. Waits at most a second for the first one.
    pub(crate) async fn events(&self, id: &str) -> Result<Vec<RunEvent>, CommandError> {
        #[derive(serde::Deserialize)]
        struct Polled {
            events: Vec<RunEvent>,
        }
        let polled: Polled = self.get(&Kind::RUN, id, "/events/poll?timeout=1").await?;
        Ok(polled.events)
    }

    /// How two runs differ, as the host wrote it and as we understand it.
    pub(crate) async fn diff(&self, a: &str, b: &str) -> Result<(Value, RunDiff), CommandError> {
        let against = format!(":diff?against={}", segment(b));
        let value: Value = self
            .get(&Kind::RUN, a, &against)
            .await
            .map_err(|error| Kind::RUN.missing(error, &format!("{a} or {b}")))?;
        let diff = self.understand(&value)?;
        Ok((value, diff))
    }

    /// The same node by node. A host from before there was one, or of another make, has none.
    pub(crate) async fn comparison(
        &self,
        a: &str,
        b: &str,
    ) -> Result<Option<RunComparison>, CommandError> {
        let path = format!("{EXTENSION}/runs/{}/comparison?against={}", segment(a), segment(b));
        match self.json(self.request(Method::GET, &path)).await {
            Ok(comparison) => Ok(Some(comparison)),
            Err(error) if error.code.as_deref() == Some("not_found") => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn bundle(&self, id: &str) -> Result<Value, CommandError> {
        self.get(&Kind::RUN, id, "/debug-bundle").await
    }

    /// Opens the live stream after the given sequence.
    pub(crate) async fn stream(
        &self,
        id: &str,
        mode: &str,
        after: Option<u64>,
    ) -> Result<Response, CommandError> {
        let path = format!("/v1/runs/{}/events?streamMode={mode}", segment(id));
        let mut request =
            self.authorized(self.http.get(self.url(&path)?)).header("Accept", "text/event-stream");
        if let Some(sequence) = after {
            request = request.header("Last-Event-ID", sequence.to_string());
        }
        // Whoever follows a run comes back by itself.
        let sent = ended::send(&self.http, request, RequestBuilder::send).await;
        self.answered(sent).await.map_err(|error| Kind::RUN.missing(error, id))
    }

    pub(crate) async fn cancel(
        &self,
        id: &str,
        reason: Option<String>,
    ) -> Result<Value, CommandError> {
        self.post(&Kind::RUN, id, "/cancel", Some(&without_nulls(&CancelRun { reason }))).await
    }

    pub(crate) async fn pause(&self, id: &str, body: &PauseRun) -> Result<Value, CommandError> {
        self.post(&Kind::RUN, id, ":pause", Some(&without_nulls(body))).await
    }

    pub(crate) async fn resume(
        &self,
        id: &str,
        reason: Option<String>,
    ) -> Result<Value, CommandError> {
        self.post(&Kind::RUN, id, ":resume", Some(&without_nulls(&ResumeRun { reason }))).await
    }

    pub(crate) async fn fork(&self, id: &str, body: &ForkRun) -> Result<ForkedRun, CommandError> {
        self.post(&Kind::RUN, id, ":fork", Some(&without_nulls(body))).await
    }

    /// Goes on with a run that has ended.
    pub(crate) async fn retry_run(
        &self,
        id: &str,
        body: &RetryRun,
        key: Option<&str>,
    ) -> Result<RetriedRun, CommandError> {
        let path = format!("{EXTENSION}/runs/{}/retry", segment(id));
        let request = self.request(Method::POST, &path).json(&without_nulls(body));
        self.json(once(request, key)).await.map_err(|error| Kind::RUN.missing(error, id))
    }

    /// Goes on with all that fit.
    pub(crate) async fn retry_runs(&self, body: &RetryRuns) -> Result<RetriedRuns, CommandError> {
        let path = format!("{EXTENSION}/runs:retry");
        self.json(self.request(Method::POST, &path).json(&without_nulls(body))).await
    }

    /// What a run came from, up to what began it.
    pub(crate) async fn origin(&self, run: &str) -> Result<RunOrigin, CommandError> {
        let path = format!("{EXTENSION}/runs/{}/ancestry", segment(run));
        self.json(self.request(Method::GET, &path)).await
    }

    /// Writes into a channel of a run.
    pub(crate) async fn write_channel(
        &self,
        run: &str,
        channel: &str,
        body: &Value,
    ) -> Result<Value, CommandError> {
        let path = format!("{EXTENSION}/runs/{}/channels/{}", segment(run), segment(channel));
        let written = self.json(self.request(Method::POST, &path).json(body)).await;
        written.map_err(|error| match error.what.starts_with("no such run") {
            true => Kind::RUN.missing(error, run),
            false => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::is_begun;

    #[test]
    fn only_what_can_be_the_beginning_of_an_id_is_looked_for() {
        for (id, expected) in [
            ("run_0199f2c4", true),
            ("run_0199f2c4d1a87c5e9b3f60a1b2c3d4e5", false),
            ("run_1", false),
            ("noop", false),
            ("run_0199/../x", false),
        ] {
            assert_eq!(is_begun(id), expected, "{id}");
        }
    }
}

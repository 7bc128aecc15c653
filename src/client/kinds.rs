//! Kinds of resources with ids, and the requests that all of them share.

use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Client, or_not_found, segment};
use crate::exit::CommandError;

/// One kind of thing: where it is, what one is called, and what shows those that there are.
pub(crate) struct Kind {
    pub(crate) path: &'static str,
    name: &'static str,
    list: &'static str,
    listed: &'static str,
}

impl Kind {
    pub(crate) const RUN: Self = Self::new("/v1/runs", "run", "runs list");
    /// As the host lists them, over what the protocol has.
    pub(crate) const LISTED_RUN: Self = Self::new("/v1/host/callboard/runs", "run", "runs list");
    /// The same, where what is missing may be the call.
    pub(crate) const CALLED_RUN: Self =
        Self::new("/v1/host/callboard/runs", "such call of run", "runs request RUN");
    pub(crate) const AGENT: Self = Self::new("/v1/agents", "agent", "agents list");
    /// What this host says of one beyond its entry.
    pub(crate) const AGENT_DEFINITION: Self =
        Self::new("/v1/host/callboard/agents", "agent", "agents list");
    pub(crate) const TOOL: Self = Self::new("/v1/tools", "tool", "tools list");
    pub(crate) const NODE_TYPE: Self =
        Self::new("/v1/host/callboard/nodes", "node type", "nodes list");
    pub(crate) const WORKFLOW: Self =
        Self::new("/v1/host/callboard/workflows", "workflow", "workflows list");
    pub(crate) const SCHEDULE: Self =
        Self::new("/v1/host/callboard/schedules", "schedule", "schedules list");
    pub(crate) const HEARTBEAT: Self =
        Self::new("/v1/host/callboard/heartbeats", "heartbeat", "heartbeats list");
    pub(crate) const SUBSCRIPTION: Self = Self::new(
        "/v1/host/callboard/trigger-subscriptions",
        "trigger subscription",
        "triggers list",
    );
    pub(crate) const MEMORY: Self =
        Self::new("/v1/host/callboard/memory", "memory entry", "memory list");
    pub(crate) const MEMBER: Self = Self::new("/v1/host/callboard/roster", "member", "roster list");
    pub(crate) const KEY: Self = Self {
        listed: "the keys of this tenant",
        ..Self::new("/v1/host/callboard/keys", "key", "keys list")
    };
    pub(crate) const ROLE: Self = Self {
        listed: "those of this tenant",
        ..Self::new("/v1/host/callboard/roles", "role", "roles list")
    };
    pub(crate) const SECRET: Self = Self {
        listed: "those of this tenant",
        ..Self::new("/v1/host/callboard/secrets", "secret", "secrets list")
    };
    pub(crate) const PACK: Self = Self::new("/v1/host/callboard/packs", "pack", "packs list");

    const fn new(path: &'static str, name: &'static str, list: &'static str) -> Self {
        Self { path, name, list, listed: "those that this key can see" }
    }

    pub(super) fn at(&self, id: &str, rest: &str) -> String {
        format!("{}/{}{rest}", self.path, segment(id))
    }

    pub(super) fn missing(&self, error: CommandError, id: &str) -> CommandError {
        let hint = format!("`callboard {}` shows {}", self.list, self.listed);
        or_not_found(error, &format!("no {} {id}", self.name), &hint)
    }
}

/// A query of those parameters that say something, with its question mark.
pub(crate) fn query(parameters: &[(&str, Option<String>)]) -> String {
    let said = parameters.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let pairs: Vec<String> =
        said.map(|(name, value)| format!("{name}={}", segment(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// No body.
pub(super) const NOTHING: Option<&()> = None;

impl Client {
    pub(crate) async fn list(
        &self,
        kind: &Kind,
        query: &[(&str, String)],
    ) -> Result<Value, CommandError> {
        self.json(self.request_with(Method::GET, kind.path, query)?).await
    }

    /// Every page of a list as one; its items stand under `field`.
    pub(crate) async fn list_all(
        &self,
        kind: &Kind,
        field: &str,
        query: &[(&str, String)],
    ) -> Result<Value, CommandError> {
        let mut all = self.list(kind, query).await?;
        let mut cursor = all["nextCursor"].take();
        while let Some(next) = cursor.as_str() {
            let mut query: Vec<(&str, String)> = query.to_vec();
            query.retain(|(name, _)| *name != "cursor");
            query.push(("cursor", next.to_owned()));
            let mut page = self.list(kind, &query).await?;
            cursor = page["nextCursor"].take();
            if let (Some(all), Value::Array(items)) =
                (all[field].as_array_mut(), page[field].take())
            {
                all.extend(items);
            }
        }
        if let Some(fields) = all.as_object_mut() {
            fields.remove("nextCursor");
        }
        Ok(all)
    }

    pub(crate) async fn create<B: Serialize>(
        &self,
        kind: &Kind,
        body: &B,
    ) -> Result<Value, CommandError> {
        self.json(self.request(Method::POST, kind.path).json(body)).await
    }

    /// One of them, or what `rest` says of it.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        id: &str,
        rest: &str,
    ) -> Result<T, CommandError> {
        self.of(Method::GET, kind, id, rest, NOTHING).await
    }

    /// Has something done with one of them.
    pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        kind: &Kind,
        id: &str,
        rest: &str,
        body: Option<&B>,
    ) -> Result<T, CommandError> {
        self.of(Method::POST, kind, id, rest, body).await
    }

    /// Answers it afterwards.
    pub(crate) async fn change<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        id: &str,
        change: &Value,
    ) -> Result<T, CommandError> {
        self.of(Method::PATCH, kind, id, "", Some(change)).await
    }

    /// Writes one of them anew, and answers it afterwards.
    pub(crate) async fn replace<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        id: &str,
        body: &Value,
    ) -> Result<T, CommandError> {
        self.replace_with(kind, id, "", body).await
    }

    /// The same with a query that begins with its question mark.
    pub(crate) async fn replace_with<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        id: &str,
        query: &str,
        body: &Value,
    ) -> Result<T, CommandError> {
        self.of(Method::PUT, kind, id, query, Some(body)).await
    }

    pub(crate) async fn remove(&self, kind: &Kind, id: &str) -> Result<(), CommandError> {
        self.remove_with(kind, id, "").await
    }

    /// The same with a query that begins with its question mark.
    pub(crate) async fn remove_with(
        &self,
        kind: &Kind,
        id: &str,
        query: &str,
    ) -> Result<(), CommandError> {
        let removed = self.send(self.request(Method::DELETE, &kind.at(id, query))).await;
        removed.map(drop).map_err(|error| kind.missing(error, id))
    }

    pub(super) async fn of<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        kind: &Kind,
        id: &str,
        rest: &str,
        body: Option<&B>,
    ) -> Result<T, CommandError> {
        let mut request = self.request(method, &kind.at(id, rest));
        if let Some(body) = body {
            request = request.json(body);
        }
        self.json(request).await.map_err(|error| kind.missing(error, id))
    }
}

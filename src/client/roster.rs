//! Requests about standing members.

use reqwest::Method;
use serde_json::Value;

use callboard_protocol::{
    AddWork, AgentRoster, AgentRosterEntry, Chat, FireMember, HireMember, MoveWork, RosterId,
    RunId, WorkItem,
};

use super::kinds::NOTHING;
use super::{Client, EXTENSION, Kind, once, or_not_found, segment, without_nulls};
use crate::exit::{CommandError, Exit};

const SEEN: &str = "`callboard roster list` shows those that this key can see";

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fired {
    run_id: RunId,
}

impl Client {
    /// The id of a member that is named by it or, where only one is called so, by its persona.
    pub(crate) async fn member_id(&self, named: &str) -> Result<String, CommandError> {
        if RosterId::is_meant_by(named) {
            return Ok(named.to_owned());
        }
        let AgentRoster { roster, .. } =
            self.json(self.request(Method::GET, Kind::MEMBER.path)).await?;
        let is_called =
            |entry: &AgentRosterEntry| entry.persona.to_lowercase() == named.to_lowercase();
        let ids: Vec<String> =
            roster.iter().filter(|it| is_called(it)).map(|it| it.roster_id.to_string()).collect();
        match ids.as_slice() {
            [] => {
                let nobody =
                    CommandError::new(Exit::NotFound, format!("no member is called {named}"));
                Err(nobody.hint(SEEN))
            }
            [only] => Ok(only.clone()),
            several => {
                let what = format!("{} members are called {named}", several.len());
                Err(CommandError::usage(what)
                    .hint(format!("name one by its id: {}", several.join(", "))))
            }
        }
    }

    /// The same for an optional member.
    pub(crate) async fn maybe_member_id(
        &self,
        named: Option<&str>,
    ) -> Result<Option<String>, CommandError> {
        match named {
            Some(named) => self.member_id(named).await.map(Some),
            None => Ok(None),
        }
    }

    pub(crate) async fn hire(&self, body: &HireMember) -> Result<AgentRosterEntry, CommandError> {
        let request = self.request(Method::POST, Kind::MEMBER.path);
        self.json(request.json(&without_nulls(body))).await
    }

    pub(crate) async fn member(&self, id: &str) -> Result<AgentRosterEntry, CommandError> {
        self.get(&Kind::MEMBER, id, "").await
    }

    /// Runs a workflow of a member for it.
    pub(crate) async fn fire(
        &self,
        id: &str,
        body: &FireMember,
        key: Option<&str>,
    ) -> Result<RunId, CommandError> {
        let request = self.request(Method::POST, &Kind::MEMBER.at(id, "/fire")).json(body);
        let fired: Result<Fired, CommandError> = self.json(once(request, key)).await;
        fired.map(|fired| fired.run_id).map_err(|error| match error.code.as_deref() {
            Some("member_paused") => {
                error.hint(format!("`callboard roster resume {id}` lets it work again"))
            }
            _ => Kind::MEMBER.missing(error, id),
        })
    }

    /// Gives a task to the member or agent that the text mentions.
    pub(crate) async fn chat(&self, text: String) -> Result<RunId, CommandError> {
        let request = self.request(Method::POST, &format!("{EXTENSION}/chat")).json(&Chat { text });
        let fired: Result<Fired, CommandError> = self.json(request).await;
        fired.map(|fired| fired.run_id).map_err(|error| {
            let hint =
                "write @NAME; `callboard roster list` and `callboard agents list` show the names";
            or_not_found(error, "the text mentions no known member or agent", hint)
        })
    }

    pub(crate) async fn activity(&self, id: &str, since: &str) -> Result<Value, CommandError> {
        let since = format!("/activity?since={}", segment(since));
        self.get(&Kind::MEMBER, id, &since).await
    }

    pub(crate) async fn budget(&self, id: &str) -> Result<Value, CommandError> {
        self.get(&Kind::MEMBER, id, "/budget").await
    }

    pub(crate) async fn set_budget(
        &self,
        id: &str,
        allowance: &Value,
    ) -> Result<Value, CommandError> {
        self.of(Method::PUT, &Kind::MEMBER, id, "/budget", Some(allowance)).await
    }

    pub(crate) async fn reset_budget(&self, id: &str) -> Result<Value, CommandError> {
        self.of(Method::DELETE, &Kind::MEMBER, id, "/budget", NOTHING).await
    }

    pub(crate) async fn work(&self, id: &str) -> Result<Vec<WorkItem>, CommandError> {
        #[derive(serde::Deserialize)]
        struct WorkList {
            work: Vec<WorkItem>,
        }
        let list: WorkList = self.get(&Kind::MEMBER, id, "/work").await?;
        Ok(list.work)
    }

    pub(crate) async fn add_work(
        &self,
        id: &str,
        body: &AddWork,
    ) -> Result<WorkItem, CommandError> {
        self.of(Method::POST, &Kind::MEMBER, id, "/work", Some(body)).await
    }

    pub(crate) async fn move_work(
        &self,
        id: &str,
        work: &str,
        body: &MoveWork,
    ) -> Result<WorkItem, CommandError> {
        let item = format!("{}/{}", Kind::MEMBER.at(id, "/work"), segment(work));
        let moved = self.json(self.request(Method::PATCH, &item).json(body)).await;
        moved.map_err(|error| {
            let hint = format!("`callboard roster work list {id}` lists the items");
            or_not_found(error, &format!("no work item {work} of {id}"), &hint)
        })
    }
}

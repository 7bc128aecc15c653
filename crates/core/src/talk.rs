//! What a node that holds a conversation is configured to say.

use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::{
    ChannelName, InterruptKind, Object, Reducer, WorkflowDefinition, WorkflowNode,
};

use crate::interrupt::Question;
use crate::plan::PlanError;

/// More turns than a person has patience for; each of them is a handful of events.
const MAX_TURNS: u32 = 100;
/// Workflows of this name exist for conformance tests, and only they may answer themselves.
const CONFORMANCE: &str = "conformance-";
/// Where turns go when the configuration does not say and the definition has such a channel.
const CHANNEL: &str = "conversation";

/// The compiled configuration of `core.conversationGate`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TalkPlan {
    #[serde(default)]
    lifecycle: Lifecycle,
    #[serde(default)]
    title: String,
    initial_prompt: Option<String>,
    /// What each turn asks; the last is asked again where there are more turns.
    #[serde(default)]
    prompts: Vec<String>,
    turn_count: Option<u32>,
    outcome_schema: Option<Object>,
    pub(crate) agent_id: Option<String>,
    /// Where the turns are written, if anywhere.
    pub(crate) channel: Option<ChannelName>,
    /// For the whole conversation.
    timeout_ms: Option<u64>,
    /// Whether the host speaks for the user.
    #[serde(default, rename = "mockAutoResume")]
    pub(crate) answers_itself: bool,
}

/// The only one that the protocol's fixtures know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Lifecycle {
    #[default]
    OpenExchangeClose,
}

impl TalkPlan {
    pub(crate) fn of(
        node: &WorkflowNode,
        definition: &WorkflowDefinition,
    ) -> Result<Self, PlanError> {
        let refuse = |field: &str, message: &str| {
            Err(PlanError {
                path: format!("nodes.{}.config{field}", node.id),
                message: message.to_owned(),
            })
        };
        let mut talk: Self = match serde_json::from_value(node.config.clone().into()) {
            Ok(talk) => talk,
            Err(error) => return refuse("", &error.to_string()),
        };
        if talk.prompts.iter().any(String::is_empty) {
            return refuse(".prompts", "must be texts that ask something");
        }
        if talk.turn_count.is_some_and(|turns| !(1..=MAX_TURNS).contains(&turns)) {
            return refuse(".turnCount", &format!("must be 1 to {MAX_TURNS}"));
        }
        if talk.agent_id.as_deref().is_some_and(str::is_empty) {
            return refuse(".agentId", "must name an agent");
        }
        if talk.answers_itself && !definition.id.as_str().starts_with(CONFORMANCE) {
            return refuse(".mockAutoResume", "is for workflows of the conformance suite alone");
        }
        let folds_messages = |name: &ChannelName| {
            let declared = definition.channels.as_ref().and_then(|channels| channels.get(name));
            declared.is_some_and(|declared| declared.reducer == Reducer::Message)
        };
        match &talk.channel {
            Some(channel) if !folds_messages(channel) => {
                return refuse(".channel", "must be a channel with the reducer message");
            }
            Some(_) => {}
            None => talk.channel = Some(ChannelName::from(CHANNEL)).filter(folds_messages),
        }
        if talk.title.is_empty() {
            talk.title.clone_from(&node.name);
        }
        Ok(talk)
    }

    /// A conversation of one turn, in which a person is asked what an agent wants to know.
    pub(crate) fn asking(prompt: &str, agent: Option<String>) -> Self {
        Self {
            lifecycle: Lifecycle::default(),
            title: prompt.to_owned(),
            initial_prompt: Some(prompt.to_owned()),
            prompts: vec![prompt.to_owned()],
            turn_count: None,
            outcome_schema: None,
            agent_id: agent,
            channel: None,
            timeout_ms: None,
            answers_itself: false,
        }
    }

    /// How many answers it asks for.
    pub(crate) fn turns(&self) -> usize {
        let turns = self.turn_count.and_then(|turns| usize::try_from(turns).ok());
        turns.unwrap_or(self.prompts.len()).max(1)
    }

    /// The first thing that is said.
    pub(crate) fn greeting(&self) -> &str {
        self.initial_prompt.as_deref().unwrap_or(&self.title)
    }

    pub(crate) fn outcome_schema(&self) -> Option<&Object> {
        self.outcome_schema.as_ref()
    }

    pub(crate) fn opening(&self, id: &str) -> Question {
        let mut data = json!({ "conversationId": id, "title": self.title });
        if let Some(prompt) = &self.initial_prompt {
            data["initialPrompt"] = json!(prompt);
        }
        question(InterruptKind::ConversationStart, data, None)
    }

    /// Asks for an answer after `answered` others, `elapsed_ms` into the conversation.
    pub(crate) fn exchange(&self, id: &str, answered: usize, elapsed_ms: u64) -> Question {
        let prompt = self.prompts.get(answered).or(self.prompts.last());
        let mut data = json!({
            "conversationId": id,
            "prompt": prompt.map_or_else(|| self.greeting(), String::as_str),
            "turnIndex": answered + 1,
        });
        if let Some(schema) = &self.outcome_schema {
            data["outcomeSchema"] = json!(schema);
        }
        let left = self.timeout_ms.filter(|millis| *millis > 0);
        let left = left.map(|millis| millis.saturating_sub(elapsed_ms));
        question(InterruptKind::ConversationExchange, data, left)
    }

    pub(crate) fn closing(&self, id: &str) -> Question {
        let data = json!({ "conversationId": id, "reason": CLOSED });
        question(InterruptKind::ConversationClose, data, None)
    }
}

/// Why a conversation ends that has had all its turns.
pub(crate) const CLOSED: &str = "max-turns";

fn question(kind: InterruptKind, data: Value, timeout_ms: Option<u64>) -> Question {
    Question { kind, data, resume_schema: None, timeout_ms }
}

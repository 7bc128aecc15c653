//! A coding agent that does nothing but say how it was begun.

use std::sync::Mutex;

use async_trait::async_trait;

use callboard_agents::{
    Admitted, Begin, CodingAgents, CodingError, CodingFault, CodingReport, Errand, Step, StepSink,
    TokenUsage,
};

/// A coding agent with one session, which remembers how it was begun.
#[derive(Debug, Default)]
pub(crate) struct Coder {
    pub(crate) begun: Mutex<Vec<String>>,
}

#[async_trait]
impl CodingAgents for Coder {
    fn admit(&self, kind: &str, allowlist: &[String]) -> Result<Admitted, CodingError> {
        if kind == "loose" {
            return Err(CodingError::new(kind, CodingFault::NotHeld, "it does what it likes"));
        }
        Ok(Admitted {
            tools: allowlist.to_vec(),
            unknown: Vec::new(),
            changes_things: true,
            names_sessions: kind != "nameless",
        })
    }

    async fn work(
        &self,
        errand: Errand<'_>,
        steps: &mut dyn StepSink,
    ) -> Result<CodingReport, CodingError> {
        let begun = match errand.begin {
            Begin::Fresh => "fresh".to_owned(),
            Begin::Perhaps => "perhaps".to_owned(),
            Begin::Resume(id) => format!("resume {id}"),
        };
        self.begun.lock().unwrap().push(begun);
        steps.tell(Step::Session("s-1".to_owned())).await;
        steps.tell(Step::Thinking("hm".to_owned())).await;
        steps.tell(Step::ToolCalled { id: "t".to_owned(), tool: "Edit".to_owned() }).await;
        let returned =
            Step::ToolReturned { id: "t".to_owned(), has_failed: false, bytes: 3, exit_code: None };
        steps.tell(returned).await;
        steps.tell(Step::Text("done".to_owned())).await;
        let text = match errand.prompt {
            prompt if prompt.contains("was not accepted") => r#"{"queue":"fire"}"#,
            _ => "the queue is fire",
        };
        Ok(CodingReport {
            text: text.to_owned(),
            session: Some("s-1".to_owned()),
            usage: Some(TokenUsage { input: 10, output: 5, ..TokenUsage::default() }),
            ..CodingReport::default()
        })
    }
}

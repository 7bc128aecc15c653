//! A coding agent that does nothing but say how it was begun.

use std::sync::Mutex;

use async_trait::async_trait;

use callboard_agents::{
    Admitted, Begin, CodingAgents, CodingError, CodingFault, CodingPermission, CodingReport,
    CodingTask, Step, StepSink, TokenUsage,
};

/// A coding agent with one session, which remembers how it was begun.
#[derive(Debug, Default)]
pub(crate) struct Coder {
    pub(crate) begun: Mutex<Vec<String>>,
    /// How often one that asks was allowed to do what it asked for.
    pub(crate) allowed: Mutex<usize>,
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
        task: CodingTask<'_>,
        steps: &mut dyn StepSink,
    ) -> Result<CodingReport, CodingError> {
        let begun = match task.begin {
            Begin::Fresh => "fresh".to_owned(),
            Begin::Perhaps(None) => "perhaps".to_owned(),
            Begin::Perhaps(Some(id)) => format!("perhaps {id}"),
            Begin::Resume(id) => format!("resume {id}"),
        };
        self.begun.lock().unwrap().push(begun);
        steps.tell(Step::Session("s-1".to_owned())).await;
        if task.kind == "asking" {
            return Ok(self.ask(&task));
        }
        steps.tell(Step::Thinking("hm".to_owned())).await;
        steps.tell(Step::ToolCalled { id: "t".to_owned(), tool: "Edit".to_owned() }).await;
        let returned =
            Step::ToolReturned { id: "t".to_owned(), has_failed: false, bytes: 3, exit_code: None };
        steps.tell(returned).await;
        steps.tell(Step::Text("done".to_owned())).await;
        let text = match task.prompt {
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

impl Coder {
    /// Asks twice, the second time for something else, and is done when it knows both answers.
    fn ask(&self, task: &CodingTask<'_>) -> CodingReport {
        let report = CodingReport { session: Some("s-1".to_owned()), ..CodingReport::default() };
        let asks = |tool: &str| {
            Some(CodingPermission {
                id: task.effect.to_owned(),
                tool: tool.to_owned(),
                title: format!("{tool} notes.md"),
                input: None,
                is_whole: true,
            })
        };
        let Some(decision) = task.decision else {
            return CodingReport { asks: asks("edit"), ..report };
        };
        if decision.is_allowed {
            *self.allowed.lock().unwrap() += 1;
        }
        match decision.permission.tool.as_str() {
            "edit" => CodingReport { asks: asks("delete"), ..report },
            _ => CodingReport { text: r#"{"queue":"fire"}"#.to_owned(), ..report },
        }
    }
}

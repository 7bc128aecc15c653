//! What activities say to a run, without what the run must not keep.

use callboard_protocol::{ChunkMeta, Failure};

use super::known::Redactor;
use crate::interrupt::Question;
use crate::run::{AgentFact, Command, Fact, Outcome};

impl Redactor {
    /// Cleans what an activity says. Everything else comes from callers and from the run itself, which never saw a value.
    pub fn redact_command(&self, command: &mut Command) {
        match command {
            Command::Finish { outcome, .. } => self.redact_outcome(outcome),
            Command::RecordFacts { facts, .. } => {
                facts.iter_mut().for_each(|fact| self.redact_fact(fact))
            }
            Command::Start
            | Command::Adopt
            | Command::Branch
            | Command::Continue
            | Command::Cancel { .. }
            | Command::Pause { .. }
            | Command::Resume { .. }
            | Command::Resolve(_)
            | Command::Dispatch { .. }
            | Command::Undispatch { .. }
            | Command::UpdateChild(_)
            | Command::Write(_)
            | Command::SetVariables(_) => {}
        }
    }

    fn redact_outcome(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Done { outputs } => self.redact_object(outputs),
            Outcome::Failed { failure, .. } => self.redact_failure(failure),
            Outcome::Suspend(question) => self.redact_question(question),
            Outcome::Later { until: _, failure } => self.redact_failure(failure),
        }
    }

    pub fn redact_failure(&self, failure: &mut Failure) {
        self.redact_text(&mut failure.code);
        self.redact_text(&mut failure.message);
        if let Some(details) = &mut failure.details {
            self.redact_object(details);
        }
    }

    fn redact_question(&self, question: &mut Question) {
        let Question { kind: _, data, resume_schema, timeout_ms: _ } = question;
        self.redact(data);
        if let Some(schema) = resume_schema {
            self.redact_object(schema);
        }
    }

    fn redact_fact(&self, fact: &mut Fact) {
        match fact {
            Fact::Chunk { text, meta, .. } => {
                self.redact_text(text);
                if let Some(meta) = meta {
                    self.redact_meta(meta);
                }
            }
            Fact::Agent { fact, .. } => self.redact_agent_fact(fact),
            // Numbers of the host's own.
            Fact::Calling | Fact::Overdrawn(_) => {}
            Fact::Pin { change_id, .. } => self.redact_text(change_id),
            Fact::Memory(written) => {
                self.redact_text(&mut written.memory_ref);
                written.tags.iter_mut().for_each(|tag| self.redact_text(tag));
            }
            Fact::File(file) => self.redact_text(&mut file.path),
            Fact::Compacted(compacted) => self.redact_text(&mut compacted.memory_ref),
            Fact::Consolidated(consolidated) => self.redact_text(&mut consolidated.memory_ref),
        }
    }

    fn redact_meta(&self, meta: &mut ChunkMeta) {
        let ChunkMeta { finish_reason, model, usage: _, provider } = meta;
        for text in [finish_reason, model, provider].into_iter().flatten() {
            self.redact_text(text);
        }
    }

    fn redact_agent_fact(&self, fact: &mut AgentFact) {
        match fact {
            AgentFact::Reasoned { reasoning: text, verbosity: _ }
            | AgentFact::Thinking { delta: text, verbosity: _ }
            | AgentFact::Text { text, is_last: _, attempt: _ } => self.redact_text(text),
            AgentFact::Reformatted { envelope_type: text, calls: _ } => self.redact_text(text),
            AgentFact::Decided { decision, confidence: _ } => self.redact(decision),
            AgentFact::ToolCalled(called) => {
                if let Some(inputs) = &mut called.inputs {
                    self.redact(inputs);
                }
            }
            AgentFact::InSession(session) => self.redact_text(&mut session.session_id),
            AgentFact::ToolReturned(returned) => match &mut returned.result {
                Ok(outcome) => self.redact(outcome),
                Err(failure) => self.redact_failure(failure),
            },
            AgentFact::PromptComposed(composed) => {
                let texts = [&mut composed.composed, &mut composed.system_prompt];
                let texts = texts.into_iter().chain([&mut composed.user_prompt]);
                texts.flatten().for_each(|text| self.redact_text(text));
                if let Some(bindings) = &mut composed.variable_bindings {
                    self.redact_object(bindings);
                }
            }
            AgentFact::Noted { level: _, message, fields }
            | AgentFact::SentAgain { message, fields } => {
                self.redact_text(message);
                self.redact_object(fields);
            }
            // These hold names, numbers and digests of the host's own.
            AgentFact::Invoked(_)
            | AgentFact::PromptResolved { .. }
            | AgentFact::AskedAgain
            | AgentFact::ThoughtPaused
            | AgentFact::Concluded { .. }
            | AgentFact::Used(_)
            | AgentFact::Truncated(_)
            | AgentFact::RetryAttempted { .. }
            | AgentFact::RetryExhausted { .. }
            | AgentFact::Refused(_)
            | AgentFact::Recovered { .. }
            | AgentFact::Substituted(_)
            | AgentFact::Insufficient(_)
            | AgentFact::FellBack(_)
            | AgentFact::Egress(_)
            | AgentFact::Authorized(_) => {}
        }
    }
}

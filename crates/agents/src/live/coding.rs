//! Work that is done by a coding agent: one task, recorded while it runs, and at most one more to repair its answer.

use serde_json::{Value, json};

use callboard_core::{AgentFact, RetryClass};
use callboard_engine::{CallFailure, Effect, OnUnknown, Once, OnceError};
use callboard_protocol::{Failure, ProviderUsage};

use super::Work;
use super::watch::Watch;
use crate::ask::{End, Exchange, Repairs, Reply, reasoning, tell_again, to_record, verbosity};
use crate::coding::{
    Admitted, Begin, CODING_PROVIDER, CodingError, CodingFault, CodingTask, Decision, Report,
};
use crate::model::{Message, ModelRef, ModelRequest, RequestBasis, StopReason};

/// One thing that the coding agent is asked for.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    model: &'a ModelRef,
    basis: &'a RequestBasis,
    prompt: &'a str,
    /// Whether the prompt is the task itself, and not about an answer to it.
    is_first: bool,
    /// The report of the task before, whose session goes on.
    before: Option<&'a Report>,
    /// What was decided about the question that it ended with.
    is_allowed: Option<bool>,
}

impl<'a> Wanted<'a> {
    /// What later attempts are compared with. What was decided meanwhile is a person's word and no part of it.
    fn compared(&self) -> Value {
        let repair = (!self.is_first).then_some(self.prompt);
        json!({ "kind": self.model.model, "sources": self.basis.sources(), "repair": repair })
    }

    /// What was allowed once may have been done before a host was lost, so it is allowed no more.
    fn decision(&self, once: &Once) -> Option<Decision<'a>> {
        let permission = self.before.and_then(|report| report.asks.as_ref());
        let (permission, is_allowed) = permission.zip(self.is_allowed)?;
        let is_used = is_allowed && once.perhaps_made.is_some();
        (!is_used).then_some(Decision { permission, is_allowed })
    }
}

impl Work<'_> {
    /// Has a coding agent work until there is an answer that can be taken.
    pub(super) async fn delegate(
        &mut self,
        mut exchange: Exchange,
        admitted: &Admitted,
    ) -> Result<Value, End> {
        let task = brief(&exchange.request);
        let mut before: Option<Report> = None;
        loop {
            let wanted = Wanted {
                model: &exchange.request.model,
                basis: &exchange.basis,
                prompt: exchange.repair.as_deref().unwrap_or(&task),
                is_first: exchange.repair.is_none(),
                before: before.as_ref(),
                is_allowed: None,
            };
            let report = self.attend(wanted, admitted).await?;
            if report.session.is_none() {
                // A program that forgets what it has done would begin from the beginning.
                exchange.repairs = Repairs::Never;
            }
            match self.asker.judge(&mut exchange, report.turn())? {
                None => before = Some(report),
                Some(Reply::Answer(value)) => return Ok(value),
                Some(Reply::Exhausted(end, _)) => return Err(self.exhausted(end)),
                Some(Reply::CallTools(_)) => {
                    let message = "a coding agent leaves nothing half done";
                    return Err(End::Failed(Failure::new("internal_error", message)));
                }
            }
        }
    }

    /// Tasks until one is done. Each ends where a person has to be asked, and the next continues with the answer.
    async fn attend(&mut self, wanted: Wanted<'_>, admitted: &Admitted) -> Result<Report, End> {
        let model = wanted.model;
        let (mut index, mut report) = self.send(wanted, admitted).await?;
        while let Some(permission) = &report.asks {
            let is_allowed = match self.ruling(index, &model.model, permission) {
                None => return Err(self.suspend(index, &model.model, permission).await?),
                ruled => ruled,
            };
            let wanted = Wanted { before: Some(&report), is_allowed, ..wanted };
            (index, report) = self.send(wanted, admitted).await?;
        }
        Ok(report)
    }

    /// One task, with the events about it. Run once: a recorded report costs nothing.
    async fn send(
        &mut self,
        wanted: Wanted<'_>,
        admitted: &Admitted,
    ) -> Result<(u32, Report), End> {
        let index = self.asker.next_call();
        let (call, host) = (self.call, self.host);
        let ModelRef { provider, model } = wanted.model;
        let is_priced = host.prices.knows(wanted.model);
        call.admits_model(provider, model, is_priced).await.map_err(End::Failed)?;
        self.asker.facts.flush().await?;
        let kind = wanted.model.model.as_str();
        let known = call.session.as_ref().filter(|it| it.call == index && it.coding_agent == kind);
        let is_safe = known.is_some()
            || wanted.before.is_some()
            || admitted.names_sessions
            || !admitted.changes_things;
        let on_unknown = if is_safe { OnUnknown::Verify } else { OnUnknown::Ask(|said| said) };
        let is_recorded = self.asker.facts.knows_answer();
        let asks = wanted.compared();
        let effect =
            Effect { index, provider: CODING_PROVIDER, request: &asks, on_unknown, is_recorded };
        let known = known.map(|session| session.session_id.as_str());
        let is_harmless = !admitted.changes_things && !call.has_called_tools;
        let (verbosity, credential) = (verbosity(call), self.asker.credential.clone());
        let allowlist = &admitted.tools;
        let made = call.once(effect, |once| async move {
            let key = match &credential {
                Some(name) => Some(call.secret(name).await?),
                None => None,
            };
            let began = begin(&once, known, &wanted, is_harmless);
            let decision = wanted.decision(&once);
            let prompt = words(&once, began, decision, wanted.prompt);
            let task = CodingTask {
                kind,
                tenant: &call.tenant,
                run: &call.run,
                claim: call.claim(),
                node: &call.attempt.node,
                visit: call.attempt.visit,
                prompt: &prompt,
                allowlist,
                begin: began,
                effect: once.id.as_str(),
                key,
                spent: wanted.before.and_then(|report| report.session_usage),
                decision,
            };
            let mut watch = Watch::new(call, kind, index, verbosity);
            watch.begin(once.was_begun).await;
            tell_again(call, &once, &format!("{CODING_PROVIDER}/{kind}"), None).await;
            call.dispatch(&once, 0, None).await?;
            let worked = host.coders.work(task, &mut watch).await;
            watch.end(worked.as_ref().is_ok_and(|report| report.asks.is_none())).await;
            to_record(&worked.map_err(|error| call_failure(&error))?)
        });
        let report = self.read_report(wanted.model, made.await)?;
        if report.asks.is_none() {
            self.account(wanted.model, &report);
            self.asker.facts.reasoned(reasoning(&report.turn()));
        }
        Ok((index, report))
    }

    fn read_report(
        &mut self,
        model: &ModelRef,
        made: Result<Value, OnceError>,
    ) -> Result<Report, End> {
        match made {
            // A person who knows the outcome of a task may have given it in any form.
            Ok(value) => Ok(serde_json::from_value(value.clone())
                .unwrap_or_else(|_| Report { text: said(&value), ..Report::default() })),
            Err(OnceError::Ended(callboard_core::Outcome::Failed { failure, .. }))
                if failure.code == CodingFault::Declined.code() =>
            {
                Err(self.asker.refused(model, StopReason::Refusal))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What the task cost, and what was denied in it.
    fn account(&mut self, model: &ModelRef, report: &Report) {
        let usage = report.usage.unwrap_or_default();
        let cost = report.cost_usd;
        self.asker.facts.push(AgentFact::Used(ProviderUsage {
            cost_estimate_usd: cost,
            currency: cost.map(|_| "USD".to_owned()),
            ..self.host.prices.usage(model, &usage, None)
        }));
        if report.denials > 0 {
            let fields = [
                ("code".to_owned(), json!("tool_denied")),
                ("count".to_owned(), json!(report.denials)),
            ];
            self.asker.facts.push(AgentFact::Noted {
                level: "warn".to_owned(),
                message: format!("{} wanted tools that it may not use", model.model),
                fields: fields.into_iter().collect(),
            });
        }
    }
}

/// What was begun before a crash goes on; a session that a later task needs is the one of the task before.
fn begin<'a>(
    once: &Once,
    known: Option<&'a str>,
    wanted: &Wanted<'a>,
    is_harmless: bool,
) -> Begin<'a> {
    let before = wanted.before.and_then(|report| report.session.as_deref());
    match (once.perhaps_made.is_some(), known, before) {
        // Programs say a session's name before they have saved it; who has only talked can say it again.
        (true, Some(session), None) if is_harmless => Begin::Perhaps(Some(session)),
        (true, Some(session), _) | (_, _, Some(session)) => Begin::Resume(session),
        (true, None, None) => Begin::Perhaps(None),
        (false, _, None) => Begin::Fresh,
    }
}

/// Everything that a model would get, in one text: a coding agent has a single input.
fn brief(request: &ModelRequest) -> String {
    let mut parts: Vec<String> = request.system.iter().cloned().collect();
    let last = request.messages.len().saturating_sub(1);
    for (place, message) in request.messages.iter().enumerate() {
        match message {
            Message::User { text } if place == last => parts.push(text.clone()),
            Message::User { text } => parts.push(format!("Before, you were asked:\n{text}")),
            Message::Assistant { text, .. } => parts.push(format!("You answered:\n{text}")),
            // It calls its tools itself.
            Message::Tool { .. } => {}
        }
    }
    if let Some(schema) = &request.response_schema {
        parts.push(format!(
            "When you are done, answer with one JSON value that matches this JSON Schema, and with nothing else:\n{schema}"
        ));
    }
    parts.join("\n\n")
}

/// The prompt of a coding agent, however it starts.
fn words(once: &Once, began: Begin<'_>, decision: Option<Decision<'_>>, prompt: &str) -> String {
    match (&once.perhaps_made, began, decision) {
        (_, _, Some(decision)) => decided(decision, prompt),
        (Some(_), Begin::Resume(_) | Begin::Perhaps(_), None) => resumed(prompt),
        _ => prompt.to_owned(),
    }
}

/// The session may have ended before it got the task, so the task is repeated.
fn resumed(prompt: &str) -> String {
    format!(
        "You were interrupted in the middle of the task below. Go on where you stopped: look at what is already done, do not do it again, and finish.\n\n{prompt}"
    )
}

/// Said only to a session whose program was stopped meanwhile.
fn decided(Decision { permission, is_allowed }: Decision<'_>, prompt: &str) -> String {
    let (tool, title) = (&permission.tool, &permission.title);
    let answer = if is_allowed { "yes, this once" } else { "no, do without it" };
    format!(
        "You asked for permission ({tool}: {title}) and were stopped while a person decided. The answer is: {answer}. Go on where you stopped: look at what is already done, do not do it again, and finish.\n\n{prompt}"
    )
}

fn said(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The agent has tried again itself where that could help: the failure is the task's outcome.
fn call_failure(error: &CodingError) -> CallFailure {
    CallFailure { failure: error.failure(), class: RetryClass::Final }
}

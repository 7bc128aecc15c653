//! What people and agents say of a run, during it or long after.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_core::redact_text;
use callboard_engine::{Annotated, Scope};
use callboard_protocol::{
    Actor, Annotation, AnnotationTarget, CreateAnnotation, EventId, RunId, Signal, SignalKind,
};
use serde::Serialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Shaped};
use crate::keys::Caller;
use crate::problem::Problem;

/// More than people read; a script that goes wild must not fill the disk.
const MOST_OF_A_RUN: usize = 1_000;
const LONGEST_LABEL: usize = 256;
/// A correction may be a whole answer, rewritten.
const LONGEST_TEXT: usize = 65_536;

#[derive(Serialize)]
struct AnnotationList {
    annotations: Vec<Annotation>,
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
) -> Result<Answer, Problem> {
    let found = host.app.annotations.annotations(&caller.scope, &run).await?;
    let annotations = found.ok_or_else(|| Problem::no_such("run"))?;
    Answer::json(StatusCode::OK, &AnnotationList { annotations })
}

pub(super) async fn create(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    Shaped(body): Shaped<CreateAnnotation>,
) -> Result<Answer, Problem> {
    check(&body)?;
    let anchor = body.target.unwrap_or_default();
    if let Some(event) = &anchor.event_id {
        check_event(&host, &caller.scope, &run, event).await?;
    }
    let Signal { kind, rating, label, correction } = body.signal;
    // The author of a note may paste a key into it; it is not kept.
    let clean = |text: Option<String>| text.map(|text| redact_text(&text));
    let annotation = Annotation {
        annotation_id: format!("ann_{}", uuid::Uuid::now_v7()),
        target: AnnotationTarget {
            run_id: run,
            event_id: anchor.event_id,
            node_id: anchor.node_id,
        },
        signal: Signal { kind, rating, label: clean(label), correction: clean(correction) },
        actor: Actor { principal_ref: caller.principal() },
        note: clean(body.note),
        created_at: host.now(),
    };
    let kept = annotation.clone();
    match host.app.annotations.annotate(&caller.scope, annotation, MOST_OF_A_RUN).await? {
        Annotated::Kept => Ok(Answer::of(StatusCode::CREATED, &kept)),
        Annotated::UnknownRun => Err(Problem::no_such("run")),
        Annotated::TooMany => {
            Err(Problem::invalid(format!("a run takes at most {MOST_OF_A_RUN} annotations")))
        }
    }
}

fn check(body: &CreateAnnotation) -> Result<(), Problem> {
    let signal = &body.signal;
    let is_missing = match signal.kind {
        SignalKind::Rating => signal.rating.is_none(),
        SignalKind::Label => signal.label.is_none(),
        SignalKind::Correction => signal.correction.is_none(),
        SignalKind::Flag => false,
    };
    if is_missing {
        return Err(Problem::invalid_at("signal", "needs the field that its kind names"));
    }
    if signal.rating.is_some_and(|rating| !(1..=5).contains(&rating)) {
        return Err(Problem::invalid_at("signal.rating", "must be an integer from 1 to 5"));
    }
    for (path, text, longest) in [
        ("signal.label", &signal.label, LONGEST_LABEL),
        ("signal.correction", &signal.correction, LONGEST_TEXT),
        ("note", &body.note, LONGEST_TEXT),
    ] {
        if text.as_ref().is_some_and(|text| text.len() > longest) {
            return Err(Problem::invalid_at(path, &format!("must have at most {longest} bytes")));
        }
    }
    Ok(())
}

/// An anchor that points at nothing would mislead its reader.
async fn check_event(
    host: &Host,
    scope: &Scope,
    run: &RunId,
    event: &EventId,
) -> Result<(), Problem> {
    let found = host.app.engine.store().find(scope, run).await?;
    let found = found.ok_or_else(|| Problem::no_such("run"))?;
    let sequence = event.as_str().rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    let is_there = sequence.is_some_and(|sequence: u64| {
        sequence < found.version && EventId::of(run, sequence) == *event
    });
    if is_there {
        Ok(())
    } else {
        Err(Problem::invalid_at("target.eventId", "is no event of this run"))
    }
}

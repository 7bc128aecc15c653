//! Asking a person at the terminal: one form for each kind of question.

use std::io::{self, IsTerminal};

use dialoguer::console::Term;
use dialoguer::theme::ColorfulTheme;
use dialoguer::{Confirm, Input, Password, Select};
use owo_colors::OwoColorize;
use serde_json::{Value, json};

use callboard_protocol::{InterruptKind, Object};

use crate::screen::{output, words};
use crate::watch::question::{Question, approval, read_by};

/// Leaves the question open.
const LATER: &str = "later";

/// Whether a person can be asked: the forms read the terminal and draw on standard error.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a value without showing it. Blocks.
pub(crate) fn ask_secret(label: &str) -> io::Result<String> {
    let asked = Password::with_theme(&theme()).with_prompt(label).report(false).interact();
    asked.map_err(|dialoguer::Error::IO(error)| error)
}

/// Shows the cursor again after a form that was not finished.
pub(crate) fn tidy_up() {
    // A terminal that is gone needs no cursor.
    let _gone = Term::stderr().show_cursor();
}

/// Shows the question and asks for the answer; none leaves it open. Blocks.
pub(crate) fn ask(question: &Question) -> io::Result<Option<Value>> {
    show(question);
    let answered = match question.kind {
        InterruptKind::Approval => ask_approval(question),
        InterruptKind::Clarification => ask_parts(question).map(Some),
        InterruptKind::LowConfidence => ask_ratification(question),
        InterruptKind::ConversationExchange => ask_turn(question).map(Some),
        InterruptKind::ExternalEvent
        | InterruptKind::Custom
        | InterruptKind::ConversationStart
        | InterruptKind::ConversationClose => ask_value(question).map(Some),
    };
    answered.map_err(|dialoguer::Error::IO(error)| error)
}

fn show(question: &Question) {
    let (node, headline) = (words::plain(question.node_id.as_str()), question.headline());
    output::note(&format!("{} {} {headline}", "?".yellow().bold(), node.bold()));
    for key in ["description", "contextType"] {
        if let Some(text) = question.data[key].as_str() {
            output::note(&format!("  {}", words::plain(text)));
        }
    }
    for (name, value) in question.doubts() {
        output::note(&format!("  {name}: {}", words::pretty(value).replace('\n', "\n  ")));
    }
    if let Some(artifact) = question.proposal() {
        output::note(&format!("  {}", words::pretty(artifact).replace('\n', "\n  ")));
    }
    if let Some(needed) = question.data["requiredApprovals"].as_u64().filter(|needed| *needed > 1) {
        output::note(&format!("  {} of {needed} have decided", question.votes.len()));
    }
}

fn ask_approval(question: &Question) -> dialoguer::Result<Option<Value>> {
    let actions = question.actions();
    let offered: Vec<&str> = actions.iter().copied().chain([LATER]).collect();
    let chosen = Select::with_theme(&theme())
        .with_prompt("your decision")
        .items(&offered)
        .default(0)
        .interact()?;
    let Some(action) = actions.get(chosen).copied() else { return Ok(None) };
    Ok(Some(match action {
        "accept" => approval(action, None),
        "edit-accept" => {
            let before = question.proposal().cloned().unwrap_or_default();
            question.replace(ask_json("in its place, as JSON", &before)?)
        }
        "reject" => {
            let remark = ask_text("why (may stay empty)", Need::Optional)?;
            approval(action, Some(remark.as_str()).filter(|remark| !remark.is_empty()))
        }
        _ => approval(
            action,
            Some(&ask_text("what should change, or your question", Need::Required)?),
        ),
    }))
}

/// Keeps the decision that an agent was not sure of, drops it, or puts another in its place.
fn ask_ratification(question: &Question) -> dialoguer::Result<Option<Value>> {
    let offered = ["accept", "reject", "replace", LATER];
    let chosen = Select::with_theme(&theme())
        .with_prompt("your decision")
        .items(offered)
        .default(0)
        .interact()?;
    Ok(match offered[chosen] {
        LATER => None,
        "replace" => {
            let before = question.proposal().cloned().unwrap_or_default();
            Some(ask_json("the decision as JSON", &before)?)
        }
        action => Some(approval(action, None)),
    })
}

fn ask_turn(question: &Question) -> dialoguer::Result<Value> {
    let text = json!({ "type": "string" });
    let schema = question.data.get("outcomeSchema").unwrap_or(&text);
    Ok(ask_by(schema, "your answer", Need::Required)?.unwrap_or_default())
}

fn ask_parts(question: &Question) -> dialoguer::Result<Value> {
    let mut answers = Object::new();
    for part in question.parts() {
        let schema = part.schema.cloned().unwrap_or_else(|| json!({ "type": "string" }));
        answers.insert(part.id.to_owned(), ask_by(&schema, part.text, Need::Required)?.into());
    }
    Ok(json!({ "answers": answers }))
}

/// A form by the schema's properties where there are some, JSON otherwise.
fn ask_value(question: &Question) -> dialoguer::Result<Value> {
    let schema = question.resume_schema.as_ref();
    let Some(properties) =
        schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object)
    else {
        return ask_json("your answer as JSON", &Value::Null);
    };
    let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
    let mut answer = Object::new();
    for (name, schema) in properties {
        let is_required = required.is_some_and(|names| names.iter().any(|listed| listed == name));
        let need = if is_required { Need::Required } else { Need::Optional };
        let given = ask_by(schema, schema["title"].as_str().unwrap_or(name), need)?;
        answer.extend(given.map(|value| (name.clone(), value)));
    }
    Ok(answer.into())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

/// Asks for one value of a schema; none where it may be left out and was.
fn ask_by(schema: &Value, label: &str, need: Need) -> dialoguer::Result<Option<Value>> {
    let label = words::plain(label);
    if let Some(choices) = schema["enum"].as_array().filter(|choices| !choices.is_empty()) {
        let shown: Vec<String> = choices.iter().map(shown).collect();
        let chosen =
            Select::with_theme(&theme()).with_prompt(label).items(&shown).default(0).interact()?;
        return Ok(choices.get(chosen).cloned());
    }
    if schema["type"] == json!("boolean") && need == Need::Required {
        return Ok(Some(Confirm::with_theme(&theme()).with_prompt(label).interact()?.into()));
    }
    let text = ask_text(&label, need)?;
    Ok((need == Need::Required || !text.is_empty()).then(|| read_by(schema, &text)))
}

fn ask_text(label: &str, need: Need) -> dialoguer::Result<String> {
    Input::with_theme(&theme())
        .with_prompt(label)
        .allow_empty(need == Need::Optional)
        .interact_text()
}

fn ask_json(label: &str, before: &Value) -> dialoguer::Result<Value> {
    let is_json = |text: &String| serde_json::from_str::<Value>(text).map(drop);
    let text: String = Input::with_theme(&theme())
        .with_prompt(label)
        .with_initial_text(if before.is_null() { String::new() } else { before.to_string() })
        .validate_with(is_json)
        .interact_text()?;
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn shown(choice: &Value) -> String {
    choice.as_str().map_or_else(|| words::compact(choice), words::plain)
}

fn theme() -> ColorfulTheme {
    ColorfulTheme::default()
}

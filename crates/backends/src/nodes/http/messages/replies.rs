//! `callboard.reply.*`: answers to where a delivery came from: a comment on GitHub, a message in the thread of Slack, a
//! mail in the thread of a mail. Where an answer goes often comes from a stranger, so a node can name the places that it
//! may go to, and goes to no other.

use callboard_engine::{Call, CallFailure};
use callboard_protocol::Object;
use serde_json::{Value, json};

use super::super::super::given::{failed, invalid, outputs};
use super::{Message, Messages, Received, posted, text_of};

pub(in super::super::super) const GITHUB: &str = "callboard.reply.github";
pub(in super::super::super) const SLACK: &str = "callboard.reply.slack";
pub(in super::super::super) const EMAIL: &str = "callboard.reply.email";

/// What the receivers take.
const LONGEST_COMMENT: usize = 65_536;
const LONGEST_MESSAGE: usize = 40_000;
const LONGEST_MAIL: usize = 1 << 20;
const LONGEST_SUBJECT: usize = 998;
/// The name of a message, as mail has it.
const LONGEST_NAME: usize = 998;
/// The last of a long thread are enough to keep it together.
const MOST_REFERENCES: usize = 20;

impl Messages {
    pub(super) fn github_reply(&self, call: &Call) -> Result<Message, CallFailure> {
        let repository = text(call, "repository", 200)?;
        let (owner, name) = repository
            .split_once('/')
            .filter(|(owner, name)| is_word(owner) && is_word(name))
            .ok_or_else(|| invalid("the input repository must be an owner, a slash and a name"))?;
        allowed(call, "repositories", repository)?;
        let number = call.inputs.get("number").and_then(whole);
        let number = number.ok_or_else(|| invalid("the input number must be a whole number"))?;
        let body = text(call, "body", LONGEST_COMMENT)?;
        let base = &self.integrations.github_url;
        Ok(Message {
            url: format!("{base}/repos/{owner}/{name}/issues/{number}/comments"),
            body: json!({ "body": body }),
            headers: json!({ "accept": "application/vnd.github+json", "user-agent": "callboard" }),
            needs_credential: true,
            is_known_again: false,
            provider: "github",
            read: commented,
            said: |url| json!({ "posted": true, "url": text_of(&url) }),
            failure: "github_comment_failed",
        })
    }

    pub(super) fn slack_reply(&self, call: &Call) -> Result<Message, CallFailure> {
        let channel = text(call, "channel", 200)?;
        allowed(call, "channels", channel)?;
        let mut body = json!({ "channel": channel, "text": text(call, "text", LONGEST_MESSAGE)? });
        if call.inputs.get("threadTs").is_some_and(|stamp| !stamp.is_null()) {
            body["thread_ts"] = text(call, "threadTs", 64)?.into();
        }
        match call.inputs.get("blocks") {
            None | Some(Value::Null) => {}
            Some(blocks @ Value::Array(_)) => body["blocks"] = blocks.clone(),
            Some(_) => return Err(invalid("the input blocks must be a list")),
        }
        Ok(Message {
            url: format!("{}/chat.postMessage", self.integrations.slack_url),
            body,
            headers: json!({}),
            needs_credential: true,
            is_known_again: false,
            provider: "slack",
            read: posted,
            said: |ts| json!({ "posted": true, "ts": text_of(&ts), "channel": "" }),
            failure: "slack_message_failed",
        })
    }

    /// The mail that the node for mails sends, with the headers that keep a thread together.
    pub(super) fn email_reply(&self, call: &Call) -> Result<Message, CallFailure> {
        let from = call.config.get("from").and_then(Value::as_str);
        from.ok_or_else(|| invalid("config.from must be the address that mails are sent from"))?;
        let to = text(call, "to", 320)?;
        allowed(call, "recipients", to)?;
        text(call, "text", LONGEST_MAIL)?;
        let answered = name_of_message(text(call, "inReplyTo", LONGEST_NAME)?)?;
        let thread = match call.inputs.get("references") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(names)) => {
                let names = names.iter().skip(names.len().saturating_sub(MOST_REFERENCES));
                let named = names.map(|name| name_of_message(name.as_str().unwrap_or_default()));
                named.collect::<Result<Vec<_>, _>>()?
            }
            Some(_) => return Err(invalid("the input references must be a list")),
        };
        let thread: Vec<String> = thread.into_iter().filter(|name| *name != answered).collect();
        let references = thread.iter().chain([&answered]).cloned().collect::<Vec<_>>().join(" ");
        let mut message = self.email(call)?;
        message.body["subject"] = subject(call)?.into();
        message.body["headers"] = json!({ "In-Reply-To": answered, "References": references });
        Ok(message)
    }
}

/// `Re:` is said once.
fn subject(call: &Call) -> Result<String, CallFailure> {
    let asked = call.inputs.get("subject").and_then(Value::as_str).unwrap_or_default();
    let is_sound = asked.len() <= LONGEST_SUBJECT && !asked.contains(char::is_control);
    if !is_sound {
        return Err(invalid("the input subject must be one line"));
    }
    let is_answer = asked.get(..3).is_some_and(|begins| begins.eq_ignore_ascii_case("re:"));
    Ok(if is_answer { asked.to_owned() } else { format!("Re: {asked}").trim_end().to_owned() })
}

/// `<name>`, whether it was given with its brackets or without. One with a space or a line in it is two headers.
fn name_of_message(said: &str) -> Result<String, CallFailure> {
    let name = said.trim().trim_start_matches('<').trim_end_matches('>');
    let is_sound = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'<' && byte != b'>');
    if is_sound { Ok(format!("<{name}>")) } else { Err(invalid("no name of a message")) }
}

fn is_word(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !text.is_empty() && text.bytes().all(is_plain) && !text.bytes().all(|b| b == b'.')
}

/// A number, or the text of one.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn text<'a>(call: &'a Call, port: &str, most: usize) -> Result<&'a str, CallFailure> {
    let text = call.inputs.get(port).and_then(Value::as_str).filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| invalid(format!("the input {port} must be a text")))?;
    if text.len() > most {
        return Err(invalid(format!("the input {port} has more than {most} bytes")));
    }
    Ok(text)
}

/// Whether a node that names places may answer there. The place itself is not repeated: a stranger may have named it.
fn allowed(call: &Call, key: &str, place: &str) -> Result<(), CallFailure> {
    let Some(named) = call.config.get(key) else { return Ok(()) };
    let listed = named.as_array().ok_or_else(|| invalid(format!("config.{key} must be a list")))?;
    let is_named = listed
        .iter()
        .any(|known| known.as_str().is_some_and(|known| known.eq_ignore_ascii_case(place)));
    if is_named {
        return Ok(());
    }
    Err(failed("reply_not_allowed", format!("config.{key} does not name where this would go")))
}

fn commented(_: &Message, _: &Call, received: &Received) -> Object {
    let is_posted = received.is_taken();
    let url = received.body["html_url"].as_str().filter(|_| is_posted).unwrap_or_default();
    let mut made = outputs([("posted", is_posted.into()), ("url", url.into())]);
    if let Some(id) = received.body["id"].as_u64().filter(|_| is_posted) {
        made.insert("commentId".to_owned(), id.into());
    }
    if !is_posted {
        made.insert("error".to_owned(), received.reason().into());
    }
    made
}

//! A run's options: nested and closed in the second major, flat keys within.

use callboard_core::PRIORITY;
use callboard_protocol::{Dialect, Object};
use serde_json::{Value, json};

use crate::problem::Problem;

/// The form of the options that is spoken here.
const VERSION: u64 = 1;
/// Options that only the first major has are shown under this vendor's name.
const ORG: &str = "callboard";
/// What the option of the first major is called there.
const OWN_PRIORITY: &str = "priority";

/// Where an option of the second major stands in the first.
enum Place {
    Flat(&'static str),
    /// In the object `ai`, which the first major has, too.
    Ai(&'static str),
}

use Place::{Ai, Flat};

const DISTILLATION: [(&str, Place, Fits); 1] = [("tokenBudget", Flat("tokenBudget"), positive)];

const RUN: [(&str, Place, Fits); 4] = [
    ("recursionLimit", Flat("recursionLimit"), positive),
    ("runTimeoutMs", Flat("runTimeoutMs"), positive),
    ("maxLoopIterations", Flat("maxLoopIterations"), positive),
    ("escalationThreshold", Flat("escalationThreshold"), share),
];

const AI: [(&str, Place, Fits); 9] = [
    ("provider", Ai("provider"), text),
    ("model", Ai("model"), text),
    ("credentialRef", Ai("credentialRef"), text),
    ("temperature", Flat("temperature"), temperature),
    ("maxTokens", Flat("maxTokens"), positive),
    ("promptOverrides", Flat("promptOverrides"), texts),
    ("mockProvider", Flat("mockProvider"), object),
    ("reasoningVerbosity", Flat("reasoningVerbosity"), verbosity),
    ("maxRefusals", Flat("maxRefusals"), count),
];

/// Taken and shown again, though nothing here reads them: the first major refuses them.
const CARRIED: [&str; 2] = ["extensions", "maxRefusals"];

/// The options that somebody reads, for whoever refuses those that nobody does.
pub(crate) fn read_ones(flat: &Object, dialect: Dialect) -> Object {
    let is_carried = |name: &str| dialect == Dialect::V2 && CARRIED.contains(&name);
    let read = flat.iter().filter(|(name, _)| !is_carried(name));
    read.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What a value must be, in words, where it is not.
type Fits = fn(&Value) -> Result<(), &'static str>;

/// Reads the options that a caller sent; what comes out is what the first major takes.
pub(crate) fn flat(nested: Object) -> Result<Object, Problem> {
    let invalid = |path: &str, why: &str| Problem::invalid_at(&format!("configurable{path}"), why);
    let mut told = Object::new();
    let mut version = None;
    for (name, value) in nested {
        match (name.as_str(), value) {
            ("version", value) => version = Some(value),
            (_, Value::Null) if is_section(&name) => {}
            ("run", section) => read(&mut told, section, "run", &RUN)?,
            ("ai", section) => read(&mut told, section, "ai", &AI)?,
            ("distillation", section) => {
                let mut distillation = Object::new();
                read(&mut distillation, section, "distillation", &DISTILLATION)?;
                told.insert(name, distillation.into());
            }
            ("budget", value @ Value::Object(_)) => drop(told.insert(name, value)),
            ("extensions", Value::Object(orgs)) => {
                let is_org = |(org, said): (&String, &Value)| is_org(org) && said.is_object();
                if !orgs.iter().all(is_org) {
                    return Err(invalid(".extensions", "must be objects under names of vendors"));
                }
                let mut orgs = orgs;
                if let Some(Value::Object(ours)) = orgs.get_mut(ORG)
                    && let Some(priority) = ours.remove(OWN_PRIORITY)
                {
                    told.insert(PRIORITY.to_owned(), priority);
                    if ours.is_empty() {
                        orgs.remove(ORG);
                    }
                }
                if orgs.is_empty() {
                    continue;
                }
                told.insert(name, orgs.into());
            }
            ("budget" | "extensions", _) => {
                return Err(invalid(&format!(".{name}"), "must be an object"));
            }
            _ => return Err(invalid(&format!(".{name}"), "is no option of this version")),
        }
    }
    if version != Some(VERSION.into()) {
        return Err(invalid(".version", "must be 1"));
    }
    Ok(told)
}

fn is_section(name: &str) -> bool {
    ["run", "ai", "distillation", "budget", "extensions"].contains(&name)
}

fn read(
    told: &mut Object,
    section: Value,
    name: &str,
    known: &[(&str, Place, Fits)],
) -> Result<(), Problem> {
    let path = format!("configurable.{name}");
    let Value::Object(section) = section else {
        return Err(Problem::invalid_at(&path, "must be an object"));
    };
    for (option, value) in section {
        let path = format!("{path}.{option}");
        let row = known.iter().find(|(known, ..)| *known == option);
        let Some((_, place, fits)) = row else {
            return Err(Problem::invalid_at(&path, "is no option of this version"));
        };
        if value.is_null() {
            continue;
        }
        fits(&value).map_err(|why| Problem::invalid_at(&path, why))?;
        match place {
            Flat("reasoningVerbosity") if value == "none" => {
                told.insert("reasoningVerbosity".to_owned(), "off".into());
            }
            Flat(key) => drop(told.insert((*key).to_owned(), value)),
            Ai(key) => {
                let ai = told.entry("ai").or_insert_with(|| json!({}));
                ai[*key] = value;
            }
        }
    }
    Ok(())
}

/// The options of a run as the second major shows them, whichever it was made through.
pub(crate) fn nested(mut flat: Object) -> Value {
    let mut told = Object::from_iter([("version".to_owned(), VERSION.into())]);
    let mut ai = match flat.remove("ai") {
        Some(Value::Object(ai)) => ai,
        Some(other) => Object::from_iter([("model".to_owned(), other)]),
        None => Object::new(),
    };
    for (option, place, fits) in &AI {
        let key = match place {
            Flat(key) | Ai(key) => *key,
        };
        for spelling in [key.to_owned(), format!("ai.{key}")] {
            let said = flat.get(&spelling).cloned().map(|value| match (key, value.as_str()) {
                ("reasoningVerbosity", Some("off")) => "none".into(),
                _ => value,
            });
            if let Some(value) = said.filter(|value| fits(value).is_ok())
                && !ai.contains_key(*option)
            {
                flat.remove(&spelling);
                ai.insert((*option).to_owned(), value);
            }
        }
    }
    // What the object of the first major held beside them has no seat.
    let known = |name: &String| AI.iter().any(|(option, ..)| option == name);
    let (ai, rest): (Object, Object) = ai.into_iter().partition(|(name, _)| known(name));
    let mut sections = vec![("run", section(&mut flat, &RUN)), ("ai", ai)];
    if let Some(Value::Object(distillation)) = flat.remove("distillation") {
        sections.push(("distillation", distillation));
    }
    for (name, section) in sections.into_iter().filter(|(_, section)| !section.is_empty()) {
        told.insert(name.to_owned(), section.into());
    }
    if let Some(budget) = flat.remove("budget") {
        told.insert("budget".to_owned(), budget);
    }
    if !rest.is_empty() {
        flat.insert("ai".to_owned(), rest.into());
    }
    let mut extensions = match flat.remove("extensions") {
        Some(Value::Object(orgs)) if orgs.keys().all(|org| is_org(org)) => orgs,
        Some(other) => {
            flat.insert("extensions".to_owned(), other);
            Object::new()
        }
        None => Object::new(),
    };
    if let Some(priority) = flat.remove(PRIORITY) {
        flat.insert(OWN_PRIORITY.to_owned(), priority);
    }
    if !flat.is_empty() {
        let ours = extensions.entry(ORG).or_insert_with(|| json!({}));
        if let Value::Object(ours) = ours {
            ours.extend(flat);
        }
    }
    if !extensions.is_empty() {
        told.insert("extensions".to_owned(), extensions.into());
    }
    told.into()
}

fn section(flat: &mut Object, known: &[(&str, Place, Fits)]) -> Object {
    let mut section = Object::new();
    for (option, place, _) in known {
        let (Flat(key) | Ai(key)) = place;
        if let Some(value) = flat.remove(*key) {
            section.insert((*option).to_owned(), value);
        }
    }
    section
}

fn is_org(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    name.starts_with(|sign: char| sign.is_ascii_lowercase()) && name.split('-').all(part)
}

fn must(fits: bool, what: &'static str) -> Result<(), &'static str> {
    if fits { Ok(()) } else { Err(what) }
}

fn positive(value: &Value) -> Result<(), &'static str> {
    must(value.as_u64().is_some_and(|number| number > 0), "must be an integer of at least 1")
}

fn count(value: &Value) -> Result<(), &'static str> {
    must(value.is_u64(), "must be an integer of at least 0")
}

fn share(value: &Value) -> Result<(), &'static str> {
    let fits = value.as_f64().is_some_and(|number| (0.0..=1.0).contains(&number));
    must(fits, "must be a number from 0 to 1")
}

fn temperature(value: &Value) -> Result<(), &'static str> {
    let fits = value.as_f64().is_some_and(|number| (0.0..=2.0).contains(&number));
    must(fits, "must be a number from 0 to 2")
}

fn text(value: &Value) -> Result<(), &'static str> {
    must(value.is_string(), "must be a text")
}

fn texts(value: &Value) -> Result<(), &'static str> {
    let fits = value.as_object().is_some_and(|fields| fields.values().all(Value::is_string));
    must(fits, "must be an object of texts")
}

fn object(value: &Value) -> Result<(), &'static str> {
    must(value.is_object(), "must be an object")
}

fn verbosity(value: &Value) -> Result<(), &'static str> {
    let fits = matches!(value.as_str(), Some("none" | "summary" | "full"));
    must(fits, "must be none, summary or full")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(value: Value) -> Result<Value, String> {
        let Value::Object(fields) = value else { return Err("no object".to_owned()) };
        flat(fields).map(Value::Object).map_err(|problem| problem.message)
    }

    fn told(value: Value) -> Value {
        value.as_object().cloned().map(nested).unwrap_or_default()
    }

    /// V-15.
    #[test]
    fn options_come_back_as_they_were_sent() {
        let sent = json!({
            "version": 1,
            "run": { "recursionLimit": 5, "escalationThreshold": 0.25 },
            "ai": { "provider": "p", "model": "m", "temperature": 0, "reasoningVerbosity": "none",
                    "promptOverrides": { "system": "x" }, "maxRefusals": 0 },
            "distillation": { "tokenBudget": 7 },
            "budget": { "maxTokens": 9 },
            "extensions": { "acme-x": { "a": 1 } },
        });
        let flat = read_all(sent.clone()).unwrap_or_default();
        assert_eq!(flat["ai"], json!({ "provider": "p", "model": "m" }));
        assert_eq!(flat["reasoningVerbosity"], "off");
        assert_eq!(told(flat), sent);
    }

    #[test]
    fn the_priority_is_an_extension_of_ours() {
        let sent = json!({ "version": 1, "extensions": { "callboard": { "priority": "high" } } });
        let flat = read_all(sent.clone()).unwrap_or_default();
        assert_eq!(flat, json!({ "callboard.priority": "high" }));
        assert_eq!(told(flat), sent);
    }

    #[test]
    fn sections_that_are_null_are_absent() {
        let sent =
            json!({ "version": 1, "run": null, "ai": null, "budget": null, "extensions": null });
        assert_eq!(read_all(sent), Ok(json!({})));
    }

    /// V-15.
    #[test]
    fn whatever_is_not_of_the_closed_form_is_refused() {
        for wrong in [
            json!({}),
            json!({ "version": 2 }),
            json!({ "version": 1, "recursionLimit": 5 }),
            json!({ "version": 1, "ai.model": "m" }),
            json!({ "version": 1, "run": { "dance": 1 } }),
            json!({ "version": 1, "run": { "runTimeoutMs": 0 } }),
            json!({ "version": 1, "ai": { "temperature": 3 } }),
            json!({ "version": 1, "ai": [] }),
            json!({ "version": 1, "extensions": { "Acme": {} } }),
            json!({ "version": 1, "budget": 1 }),
        ] {
            assert!(read_all(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_of_the_first_major_find_their_place_and_none_is_lost() {
        let flat = json!({ "recursionLimit": 5, "model": "m", "ai": { "provider": "p", "odd": 1 }, "mine": [1] });
        assert_eq!(
            told(flat),
            json!({
                "version": 1, "run": { "recursionLimit": 5 }, "ai": { "provider": "p", "model": "m" },
                "extensions": { "callboard": { "mine": [1], "ai": { "odd": 1 } } },
            })
        );
    }
}

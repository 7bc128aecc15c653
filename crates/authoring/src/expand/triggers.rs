//! Triggers: a type alone, `schedule: "0 9 * * *"`, or the protocol's object.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::places::Places;
use crate::tree::Tree;

pub(super) fn expand(tree: &Tree, places: &mut Places) -> Value {
    let mut taken = BTreeSet::new();
    let mut triggers = Vec::new();
    for (index, written) in tree.get("triggers").map_or(&[][..], Tree::items).iter().enumerate() {
        let path = format!("triggers[{index}]");
        places.add(&path, written.spot, &path);
        let mut trigger = match written.text() {
            Some(kind) => json!({ "type": kind }),
            None => written.value(),
        };
        if !trigger.is_object() {
            continue;
        }
        if let Some(schedule) = written.get("schedule") {
            places.add(&format!("{path}.config"), schedule.spot, &format!("{path}.schedule"));
            trigger["config"] = match schedule.text() {
                Some(cron) => json!({ "cron": cron }),
                None => schedule.value(),
            };
            trigger["type"] = "schedule".into();
            if let Value::Object(fields) = &mut trigger {
                fields.remove("schedule");
            }
        }
        if trigger.get("id").is_none() {
            let kind = trigger["type"].as_str().unwrap_or("trigger").to_owned();
            let numbers = (2..).map(|number| format!("{kind}-{number}"));
            let mut names = std::iter::once(kind.clone()).chain(numbers);
            let free = names.find(|name| !taken.contains(name));
            trigger["id"] = free.unwrap_or(kind).into();
        }
        if trigger.get("enabled").is_none() {
            trigger["enabled"] = true.into();
        }
        taken.insert(trigger["id"].as_str().unwrap_or_default().to_owned());
        triggers.push(trigger);
    }
    Value::Array(triggers)
}

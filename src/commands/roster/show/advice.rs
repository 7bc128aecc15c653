//! Suggestions of what to do next for a member.

use callboard_protocol::{SubscriptionState, WorkItem, WorkState};

use super::{Activity, Feed};

/// One line for each thing that keeps the member from working, or that waits for a person.
pub(super) fn next_steps(activity: &Activity, work: &[WorkItem]) -> Vec<String> {
    let member = &activity.member;
    let id = &member.roster_id;
    let mut steps = Vec::new();
    if !member.enabled {
        let waiting = work.iter().filter(|item| item.state == WorkState::Todo).count();
        let with = match waiting {
            0 => String::new(),
            1 => ", and starts the waiting item".to_owned(),
            several => format!(", and starts the {several} waiting items"),
        };
        steps.push(format!("`callboard roster resume {id}` lets it work again{with}"));
    }
    steps.extend(activity.triggers.iter().filter_map(|feed| mend(feed, activity)));
    match member.workflows.first() {
        None => steps.push(format!(
            "`callboard roster update {id} --workflow WORKFLOW` gives it something to own; \
             `callboard workflows list` shows what there is"
        )),
        Some(first) if member.enabled && is_untouched(activity, work) => steps.push(format!(
            "nothing fires it yet: `callboard roster fire {id} {first}` runs it now, \
             `callboard schedules add {first} --as {id} --cron '0 9 * * MON-FRI'` by the clock"
        )),
        Some(_) => {}
    }
    if let Some(asked) = activity.waiting.first() {
        let (run, node) = (&asked.run_id, &asked.node_id);
        steps.push(format!("`callboard inbox answer {run} {node}` answers what waits longest"));
    }
    steps
}

/// What brings a subscription that takes nothing back to work.
fn mend(feed: &Feed, activity: &Activity) -> Option<String> {
    let Feed { subscription_id, workflow_id, source, state } = feed;
    let resume = format!("`callboard triggers resume {subscription_id}`");
    match state {
        SubscriptionState::Active => None,
        SubscriptionState::Paused => Some(format!("{resume} lets things come in again")),
        SubscriptionState::Failed => {
            Some(format!("{resume} lets things come in again, once the member owns {workflow_id}"))
        }
        SubscriptionState::DeadLettered => Some(format!(
            "{subscription_id} has given up: `callboard triggers dead-letters {subscription_id}` says \
             what, `callboard triggers add {workflow_id} --source {} --as {}` takes its place",
            source.as_str(),
            activity.member.roster_id
        )),
    }
}

/// Whether there is nothing that has begun, or would begin, a run.
fn is_untouched(activity: &Activity, work: &[WorkItem]) -> bool {
    activity.runs.is_empty()
        && activity.next.is_empty()
        && activity.triggers.is_empty()
        && work.is_empty()
}

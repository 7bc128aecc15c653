//! Questions that people answer in a browser.

use anyhow::Result;
use serde_json::{Value, json};

use crate::stage::Stage;

#[tokio::test]
async fn an_approval_is_given_from_the_inbox() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    let run = stage.run(json!({ "workflowId": "release" })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    stage.go("/console/inbox").await?;
    browser.shows("Ship it?").await?;
    browser.press("accept").await?;
    stage.becomes(&run, "completed").await?;
    browser.shows("Nobody asks anything").await
}

#[tokio::test]
async fn of_two_tabs_that_answer_one_question_the_first_counts() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    let run = stage.run(json!({ "workflowId": "release" })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    let path = format!("/console/inbox/{run}/gate");
    stage.go(&path).await?;
    browser.find("button[value=accept]").await?;
    let tabs = browser.tab().await?;
    stage.go(&path).await?;
    browser.click("button[value=reject]").await?;
    stage.at(&format!("/console/runs/{run}")).await?;
    browser.switch(&tabs.first).await?;
    browser.click("button[value=accept]").await?;
    browser.shows("Nothing is asked here").await?;
    let log: Value = serde_json::from_str(&stage.api.log(&run).await?)?;
    let events = log["events"].as_array().cloned().unwrap_or_default();
    let answers = events.iter().filter(|event| event["type"] == "interrupt.resolved");
    let answers: Vec<&Value> =
        answers.map(|event| &event["payload"]["resumeValue"]["action"]).collect();
    assert_eq!(answers, ["reject"]);
    Ok(())
}

/// K-13
#[tokio::test]
async fn a_form_refuses_what_its_schema_refuses_and_says_where() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    let run = stage.run(json!({ "workflowId": "order" })).await?;
    stage.becomes(&run, "waiting-input").await?;
    stage.go(&format!("/console/inbox/{run}/fill")).await?;
    // The browser itself holds back a number that is too large.
    browser.fill("[id='v/pieces']", "12").await?;
    browser.press("Answer").await?;
    browser.until("document.querySelector('input:invalid')?.id === 'v/pieces'").await?;
    browser.fill("[id='v/pieces']", "3").await?;
    browser.fill("[id='v/note']", "no").await?;
    browser.choose("[id='v/colour']", "blue").await?;
    browser.press("Answer").await?;
    let place =
        "document.querySelector('[role=alert]')?.closest('.field')?.querySelector('[id]')?.id";
    browser.until(&format!("{place} === 'v/note'")).await?;
    assert_eq!(stage.api.status(&run).await?, "waiting-input", "nothing was sent on");
    browser.fill("[id='v/note']", "soon").await?;
    browser.press("Answer").await?;
    stage.becomes(&run, "completed").await?;
    let log = stage.api.log(&run).await?;
    assert!(log.contains(r#"{"pieces":3,"colour":"blue","note":"soon"}"#), "{log}");
    Ok(())
}

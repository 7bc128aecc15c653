//! A member from hiring to dismissal, in a browser.

use anyhow::Result;

use crate::stage::Stage;

#[tokio::test]
async fn a_member_is_hired_fired_watched_and_dismissed() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    stage.go("/console/roster").await?;
    browser.fill("#persona", "Sally").await?;
    browser.choose("#agent", "Triager · community.callboard.starter.triager").await?;
    browser.click("input[name=workflow][value=triage-desk]").await?;
    browser.click("main form button.primary").await?;
    browser.until("document.querySelector('h1')?.innerText === 'Sally'").await?;
    let member = browser.url().await?;
    browser
        .fill(
            "input[aria-label=Inputs]",
            r#"{"message": "The lift has stopped. [[scripted: confidence 0.3]]"}"#,
        )
        .await?;
    browser.press("Fire now").await?;
    browser.until("location.pathname.startsWith('/console/runs/')").await?;
    // The low-confidence answer raises a question, and the page says so by itself.
    browser.press("Look at the question").await?;
    browser.press("accept").await?;
    browser.until("location.pathname.startsWith('/console/runs/')").await?;
    browser.press("Look at the question").await?;
    browser.press("accept").await?;
    browser.until("document.querySelector('#head')?.innerText.includes('completed')").await?;
    browser.until("document.querySelector('#head').innerText.includes('Sally')").await?;

    browser.open(&member).await?;
    browser.shows("triage-desk").await?;
    browser.fill("input[name=title]", "Answer the landlord").await?;
    browser
        .fill("input[name=inputs][placeholder='{}']", r#"{"message": "The rent is late."}"#)
        .await?;
    browser.press("Add work").await?;
    browser
        .until("document.querySelector('.board')?.innerText.includes('Answer the landlord')")
        .await?;
    browser.press("Pause").await?;
    browser.find("//button[normalize-space()='Resume']").await?;
    browser.press("Dismiss").await?;
    browser.confirm().await?;
    stage.at("/console/roster").await?;
    browser.shows("Nobody is hired").await
}

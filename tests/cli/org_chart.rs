//! The org chart from a terminal.

use std::path::Path;

use anyhow::Result;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::terminal::Terminal;

#[test]
fn a_chart_is_drawn_shown_and_drawn_again() -> Result<()> {
    let terminal = Terminal::new()?;
    let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/starter");
    let host = terminal.host(&["--packs", &starter.to_string_lossy()])?;
    let user = terminal.at(host.url());
    assert_snapshot!("org_chart_1_empty", user.run(&["org-chart", "show"])?);
    let triager = "community.callboard.starter.triager";
    let hire = ["roster", "hire", "--persona", "Sally", "--agent", triager, "--workflow", "noop"];
    let sally = user.output(&hire)?.trim().to_owned();
    let chart = json!({
        "departments": [{ "departmentId": "sales", "name": "Sales",
            "roles": [{ "roleId": "rep", "name": "Representative" }] }],
        "members": [{ "rosterId": sally, "departmentId": "sales", "roleId": "rep", "reportsTo": null }],
    });
    let path = terminal.folder().join("chart.json").to_string_lossy().into_owned();
    terminal.write("chart.json", &chart.to_string())?;
    let drawn = user.run(&["org-chart", "put", &path])?.replace(&sally, "[sally]");
    assert_snapshot!("org_chart_2_drawn", drawn);
    let shown = user.output(&["org-chart", "show", "--json"])?;
    assert_eq!(serde_json::from_str::<Value>(&shown)?["chart"]["members"], chart["members"]);
    // What was shown can be put back, once: it has the version that it was decided on.
    terminal.write("chart.json", &shown)?;
    let again: Value =
        serde_json::from_str(&user.output(&["org-chart", "put", &path, "--json"])?)?;
    assert_eq!(again["version"], 2);
    assert_snapshot!("org_chart_3_moved", user.run(&["org-chart", "put", &path])?);
    terminal.write("chart.json", &chart.to_string().replace(&sally, "host:nobody"))?;
    assert_snapshot!("org_chart_4_nobody", user.run(&["org-chart", "put", &path])?);
    terminal.write("chart.json", "{")?;
    let broken = user.run(&["org-chart", "put", &path])?.replace(&path, "[file]");
    assert_snapshot!("org_chart_5_broken", broken);
    Ok(())
}

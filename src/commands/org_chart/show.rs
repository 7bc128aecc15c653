//! `callboard org-chart show`: each member with its department, its role and whom it reports to.

use clap::Args;
use comfy_table::Cell;
use serde_json::Value;

use callboard_protocol::{Department, Placement};

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard org-chart show
  callboard org-chart show --json > chart.json")]
pub(crate) struct ShowArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.org_chart().await?;
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    show(&found)
}

/// Prints a chart with its version.
pub(super) fn show(found: &Value) -> Result<Exit, CommandError> {
    let chart = found["chart"].clone();
    let departments: Vec<Department> = serde_json::from_value(chart["departments"].clone())
        .map_err(|error| CommandError::unreadable(&error))?;
    let names = |member: &Placement| {
        let department = departments.iter().find(|it| it.department_id == member.department_id);
        let role = department
            .and_then(|department| department.roles.iter().find(|it| it.role_id == member.role_id));
        let department = department.map_or(&member.department_id, |it| &it.name);
        (words::plain(department), words::plain(role.map_or(&member.role_id, |it| &it.name)))
    };
    let headers = ["member", "department", "role", "reports to"];
    Listing::new("members", headers, "nobody stands anywhere")
        .remedy("`callboard org-chart put FILE` draws the chart")
        .show(chart, false, |member: Placement| {
            let (department, role) = names(&member);
            let chief = member.reports_to.as_ref().map_or("-", |chief| chief.as_str());
            [
                Cell::new(words::plain(member.roster_id.as_str())),
                Cell::new(department),
                Cell::new(role),
                Cell::new(words::plain(chief)),
            ]
        })
}

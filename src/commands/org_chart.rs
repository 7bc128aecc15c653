//! `callboard org-chart`: departments, roles and reporting lines of members.

use std::io::Read as _;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde_json::{Value, json};

use callboard_protocol::{Department, Placement};

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard org-chart show
  callboard org-chart show --json > chart.json
  callboard org-chart put chart.json

The chart grants no permissions."
)]
pub(crate) struct OrgChartArgs {
    #[command(subcommand)]
    command: OrgChartCommand,
}

#[derive(Debug, Subcommand)]
enum OrgChartCommand {
    /// Show departments, members and whom they report to
    Show(ShowArgs),
    /// Replace the chart from a file
    Put(PutArgs),
}

pub(crate) async fn run(args: OrgChartArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        OrgChartCommand::Show(args) => show(args, earlier).await,
        OrgChartCommand::Put(args) => put(args, earlier).await,
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard org-chart put chart.json
  callboard org-chart show --json | sed 's/Sales/Field/' | callboard org-chart put -

The file holds `departments` and `members`, or what `org-chart show --json` printed. A version in it
must be the host's current one, so that a change by someone else is not overwritten.")]
struct PutArgs {
    /// JSON file with the chart, or - for standard input
    #[arg(value_name = "FILE")]
    file: String,
    #[command(flatten)]
    host: HostArgs,
}

async fn put(args: PutArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let put = client.put_org_chart(&read(&args.file)?).await?;
    if args.host.json {
        return output::document(&put);
    }
    output::note(&format!("version {}", put["version"]));
    print(&put)
}

/// What the host takes: a chart that it showed stands under a key of its own, with its owner in it.
fn read(file: &str) -> Result<Value, CommandError> {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().read_to_string(&mut text).map(drop),
        path => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|error| CommandError::usage(format!("cannot read {file}: {error}")))?;
    let mut found: Value = serde_json::from_str(&text)
        .map_err(|error| CommandError::usage(format!("{file} is not JSON: {error}")))?;
    if found.get("chart").is_none() {
        return Ok(found);
    }
    let part = |name: &str| found["chart"][name].clone();
    let mut chart = json!({ "departments": part("departments"), "members": part("members") });
    chart["version"] = found["version"].take();
    Ok(chart)
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard org-chart show
  callboard org-chart show --json > chart.json")]
struct ShowArgs {
    #[command(flatten)]
    host: HostArgs,
}

async fn show(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let found = client.org_chart().await?;
    if args.host.json {
        return output::document(&found);
    }
    print(&found)
}

/// Prints a chart with its version.
fn print(found: &Value) -> Result<Exit, CommandError> {
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
    Listing::new("members", headers, "the chart has no members")
        .remedy("`callboard org-chart put FILE` creates one")
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

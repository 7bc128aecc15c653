//! `callboard db copy`: a database to another place, whole and compared.

use std::path::PathBuf;

use clap::Args;
use comfy_table::Cell;
use serde_json::json;

use callboard_store::{CopyEnd, CopyError, copy};

use crate::args::environment;
use crate::exit::{CommandError, Exit};
use crate::screen::{output, progress, words};
use crate::wire::database::SEAL_KEY;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard db copy --from ./callboard-data --to \"$CALLBOARD_DATABASE_URL\"
  CALLBOARD_SEAL_KEY=… callboard db copy --from \"$CALLBOARD_DATABASE_URL\" --to ./backup

A folder must not be in use. A shared database is read as one moment, also while hosts serve. Sealed values go as they are: the
copy needs the same key. The target must be empty; it is read again and compared before it is kept.")]
pub(super) struct CopyArgs {
    /// Data folder or postgres:// address to copy
    #[arg(long, value_name = "DIR|URL")]
    from: String,
    /// Data folder or postgres:// address to copy to; it must be empty
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn end(text: &str) -> CopyEnd {
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return CopyEnd::Shared(text.to_owned());
    }
    CopyEnd::Folder(PathBuf::from(text))
}

pub(super) async fn run(args: CopyArgs) -> Result<Exit, CommandError> {
    let (from, to) = (end(&args.from), end(&args.to));
    if from == to {
        return Err(CommandError::usage("--from and --to are the same"));
    }
    let key = environment(SEAL_KEY);
    let bar = progress::waiting("copying");
    let tell = |table: &'static str, rows: u64| bar.set_message(format!("{table}: {rows} rows"));
    let copied = copy(&from, &to, key.as_deref().map(str::trim), tell).await.map_err(uncopied)?;
    drop(bar);
    if args.json {
        let tables = copied.iter().map(|it| {
            json!({ "table": it.table, "rows": it.rows, "digest": format!("{:032x}", it.digest) })
        });
        return output::document(&json!({ "tables": tables.collect::<Vec<_>>() }));
    }
    let rows = copied.iter().map(|it| [Cell::new(it.table), Cell::new(it.rows)]);
    output::table(["table", "rows"], rows.collect())?;
    let whole: u64 = copied.iter().map(|it| it.rows).sum();
    output::note(&format!("{whole} rows copied, read again and found equal"));
    if matches!((&from, &to), (CopyEnd::Folder(_), CopyEnd::Shared(_))) {
        output::hint(&format!(
            "hosts of the copy need the key of the folder: copy {}/host.key into their data folders",
            words::plain(&args.from)
        ));
    }
    Ok(Exit::Done)
}

fn uncopied(error: CopyError) -> CommandError {
    let hint = error.hint();
    CommandError::failed(error.to_string()).hint(hint)
}

//! Everything that this program prints goes through here: colours where they are supported, JSON for machines.
//!
//! Text is always styled; the streams strip it where a terminal, `NO_COLOR` or `CLICOLOR` says so.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Attribute, Cell, ColumnConstraint, ContentArrangement, Table, presets};
use owo_colors::OwoColorize;
use serde::Serialize;

use crate::exit::{CommandError, Exit};
use crate::screen::words;

/// Writes one line to standard output.
pub(crate) fn line(text: &str) -> Result<(), CommandError> {
    writeln!(anstream::stdout().lock(), "{text}")?;
    Ok(())
}

/// Writes text as it stands and lets it be seen at once.
pub(crate) fn text(text: &str) -> Result<(), CommandError> {
    let mut out = anstream::stdout().lock();
    write!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// Writes one JSON document for machines, indented so that people can read it too.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), CommandError> {
    line(&words::pretty(value))
}

/// The end of a command whose answer is this document.
pub(crate) fn document<T: Serialize>(value: &T) -> Result<Exit, CommandError> {
    json(value)?;
    Ok(Exit::Done)
}

/// The end of a command whose answer is this line.
pub(crate) fn done(text: &str) -> Result<Exit, CommandError> {
    line(text)?;
    Ok(Exit::Done)
}

/// Writes one JSON document on one line, for streams of them.
pub(crate) fn json_line<T: Serialize>(value: &T) -> Result<(), CommandError> {
    line(&words::compact(value))
}

/// Prints something beside the result, on standard error. A failure of that cannot be reported.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// What to do next. It may repeat the words of a host or a file, as an error does.
pub(crate) fn hint(text: &str) {
    note(&format!("{} {}", "hint:".cyan().bold(), words::plain(text)));
}

pub(crate) fn error(error: &CommandError) {
    if error.is_silent() {
        return;
    }
    note(&format!("{} {}", "error:".red().bold(), words::plain(&error.what)));
    if let Some(text) = &error.hint {
        hint(text);
    }
}

/// Whether a person watches both streams, so that a spinner helps.
pub(crate) fn is_watched() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Whether a person reads standard output, rather than a file or another program.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// A column that is broken into less than this, or than it has, cannot be read.
const NARROWEST_COLUMN: u16 = 12;
/// Between two columns.
const GAP: u16 = 2;

/// A table without frames: columns are aligned on a terminal and in a pipe alike, but only a terminal wraps them.
/// The first column is an id, which is copied and therefore never broken.
pub(crate) fn table<const N: usize>(
    headers: [&str; N],
    rows: Vec<[Cell; N]>,
) -> Result<(), CommandError> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(
        headers.map(|header| Cell::new(header.to_uppercase()).add_attribute(Attribute::Bold)),
    );
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    let fits = |width| width >= narrowest(&table.column_max_content_widths());
    if is_terminal() && table.width().is_some_and(fits) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        if let Some(ids) = table.column_mut(0) {
            ids.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for text in table.lines() {
        line(text.trim_end())?;
    }
    Ok(())
}

/// What a table needs at least, with its ids whole. In less, wrapping makes it worse than a terminal that breaks lines.
fn narrowest(columns: &[u16]) -> u16 {
    let needed = columns.iter().enumerate().map(|(place, width)| {
        let column = if place == 0 { *width } else { NARROWEST_COLUMN.min(*width) };
        column.saturating_add(GAP)
    });
    needed.fold(0, u16::saturating_add)
}

/// A heading with its value, as `runs show` prints them.
pub(crate) fn field(name: &str, value: &str) -> Result<(), CommandError> {
    line(&format!("{} {value}", format!("{name:<10}").bold()))
}

#[cfg(test)]
mod tests {
    use super::narrowest;

    #[test]
    fn a_table_is_wrapped_only_where_its_columns_can_be_read() {
        assert_eq!(narrowest(&[53, 7, 13]), 55 + 9 + 14);
        assert_eq!(narrowest(&[36, 200]), 38 + 14);
    }
}

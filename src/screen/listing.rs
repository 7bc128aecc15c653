//! A list of the host on its way to the screen: as it came for machines, as a table for people.

use comfy_table::Cell;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::{CommandError, Exit};
use crate::screen::output;

/// How one kind of thing is listed.
pub(crate) struct Listing<const N: usize> {
    field: &'static str,
    headers: [&'static str; N],
    empty: &'static str,
    remedy: Option<&'static str>,
    next: Option<&'static str>,
}

impl<const N: usize> Listing<N> {
    /// The list stands under `field`; `empty` is said where there is nothing in it.
    pub(crate) fn new(
        field: &'static str,
        headers: [&'static str; N],
        empty: &'static str,
    ) -> Self {
        Self { field, headers, empty, remedy: None, next: None }
    }

    /// What to do about an empty list.
    pub(crate) fn remedy(self, text: &'static str) -> Self {
        Self { remedy: Some(text), ..self }
    }

    /// What a person at a terminal may do with one of these.
    pub(crate) fn next(self, text: &'static str) -> Self {
        Self { next: Some(text), ..self }
    }

    pub(crate) fn show<T: DeserializeOwned>(
        &self,
        mut found: Value,
        json: bool,
        row: impl Fn(T) -> [Cell; N],
    ) -> Result<Exit, CommandError> {
        if json {
            output::json(&found)?;
            return Ok(Exit::Done);
        }
        let items: Vec<T> = serde_json::from_value(found[self.field].take())
            .map_err(|error| CommandError::unreadable(&error))?;
        if items.is_empty() {
            output::note(self.empty);
            self.remedy.into_iter().for_each(output::hint);
            return Ok(Exit::Done);
        }
        output::table(self.headers, items.into_iter().map(row).collect())?;
        if let Some(cursor) = found["nextCursor"].as_str() {
            output::hint(&format!("there are more: add --cursor {cursor}"));
        } else if output::is_terminal() {
            self.next.into_iter().for_each(output::hint);
        }
        Ok(Exit::Done)
    }
}

/// The parameters that were given.
pub(crate) fn given<const N: usize>(
    asked: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    asked.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

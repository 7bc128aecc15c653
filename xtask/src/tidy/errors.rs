//! The page of error codes, generated from the server's own table so that the two cannot differ.

use anyhow::{Context, Result, ensure};

use super::Finding;
use crate::source::Source;
use crate::workspace::TextFile;

pub(super) const PAGE: &str = "docs/reference/errors.md";

/// The file whose `codes!` table is the only place that names codes: the type of a problem's code is made from it.
const TABLE: &str = "crates/server/src/problem.rs";
const OPENING: &str = "\ncodes! {";

/// One public code, as the server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Code {
    name: String,
    status: u16,
    meaning: String,
}

/// Statuses by the names that the table uses.
const STATUSES: [(&str, u16); 20] = [
    ("BAD_REQUEST", 400),
    ("UNAUTHORIZED", 401),
    ("FORBIDDEN", 403),
    ("NOT_FOUND", 404),
    ("METHOD_NOT_ALLOWED", 405),
    ("NOT_ACCEPTABLE", 406),
    ("REQUEST_TIMEOUT", 408),
    ("CONFLICT", 409),
    ("GONE", 410),
    ("PAYLOAD_TOO_LARGE", 413),
    ("UNSUPPORTED_MEDIA_TYPE", 415),
    ("MISDIRECTED_REQUEST", 421),
    ("UNPROCESSABLE_ENTITY", 422),
    ("UPGRADE_REQUIRED", 426),
    ("TOO_MANY_REQUESTS", 429),
    ("INTERNAL_SERVER_ERROR", 500),
    ("NOT_IMPLEMENTED", 501),
    ("BAD_GATEWAY", 502),
    ("SERVICE_UNAVAILABLE", 503),
    ("INSUFFICIENT_STORAGE", 507),
];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let codes = match codes(files) {
        Ok(codes) => codes,
        Err(error) => return vec![Finding::fault(TABLE, error.to_string())],
    };
    let written = files.iter().find(|file| file.path == PAGE).map(|file| file.text.as_str());
    if written == Some(page(&codes).as_str()) {
        return Vec::new();
    }
    vec![Finding::fault(PAGE, "differs from the server's table; run `cargo xtask errors`")]
}

/// Reads the table out of the server's source, so that tidy needs no built server.
pub(super) fn codes(files: &[TextFile]) -> Result<Vec<Code>> {
    let file =
        files.iter().find(|file| file.path == TABLE).context("there is no table of codes")?;
    let rest = file.text.split_once(OPENING).context("there is no table of codes")?.1;
    let table = rest.split_once("\n}").context("the table of codes has no end")?.0;
    let source = Source::read(table);
    let statuses = source.code.split(';').filter_map(|row| {
        // A row is `Variant = "name", STATUS, "meaning"`; without its strings, the status stands between two commas.
        row.split(',').nth(1).map(str::trim)
    });
    let mut codes = Vec::new();
    for (strings, status) in source.strings.chunks(2).zip(statuses) {
        let [name, meaning] = strings else { break };
        let known = STATUSES.iter().find(|(named, _)| *named == status);
        let (_, status) = known.with_context(|| format!("unknown status {status}"))?;
        codes.push(Code {
            name: name.text.clone(),
            status: *status,
            meaning: meaning.text.clone(),
        });
    }
    ensure!(
        codes.len() * 2 == source.strings.len() && !codes.is_empty(),
        "the table of codes has an odd row"
    );
    codes.sort_by(|left, right| (left.status, &left.name).cmp(&(right.status, &right.name)));
    Ok(codes)
}

pub(super) fn page(codes: &[Code]) -> String {
    let mut page = format!(
        "<!-- Written by `cargo xtask errors` from {TABLE}. -->\n\
         # Error codes\n\n\
         For programmers who call the host: every code that it answers with, and what it means.\n\n\
         Every answer that is not a success has the body `{{\"error\": code, \"message\": text, \"details\"?: object}}`.\n\
         Programs branch on `error`; the message is for people and may change.\n\n\
         | status | code | meaning |\n|---|---|---|\n",
    );
    for Code { name, status, meaning } in codes {
        page.push_str(&format!("| {status} | `{name}` | {meaning} |\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::{PAGE, TABLE, check, codes, page};
    use crate::workspace::TextFile;

    const SOURCE: &str = r#"
codes! {
    NotFound = "not_found", NOT_FOUND, "There is none; or none, that you may see.";
    Forbidden = "forbidden", FORBIDDEN, "The key lacks a scope.";
}
"#;

    fn server() -> TextFile {
        TextFile { path: TABLE.into(), text: SOURCE.into() }
    }

    #[test]
    fn the_page_follows_the_table() {
        let codes = codes(&[server()]).unwrap();
        let named: Vec<_> = codes.iter().map(|code| (code.status, code.name.as_str())).collect();
        assert_eq!(named, [(403, "forbidden"), (404, "not_found")]);
        let written = TextFile { path: PAGE.into(), text: page(&codes) };
        assert_eq!(check(&[server(), written]), []);
    }

    #[test]
    fn a_page_that_differs_is_found() {
        assert_eq!(check(&[server()]).len(), 1);
        let old = TextFile { path: PAGE.into(), text: "| 410 | `gone` | |".into() };
        assert_eq!(check(&[server(), old]).len(), 1);
    }
}

//! Rules about single files: their opening, their length, what they may say and where SQL may live.

use super::Finding;
use crate::source::Source;
use crate::workspace::TextFile;

/// Above this a file wants to become two.
const LONG: usize = 500;
/// Above this it must.
const TOO_LONG: usize = 600;

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(machine_paths(file));
        if file.path.ends_with(".sql") && !file.path.starts_with(STORE) {
            findings.push(Finding::fault(&file.path, "SQL lives in crates/store"));
        }
        if file.path.ends_with(".rs") {
            findings.extend(rust(file));
        }
    }
    findings
}

fn rust(file: &TextFile) -> Vec<Finding> {
    let source = Source::read(&file.text);
    let mut findings = Vec::new();
    if !file.text.starts_with("//!") {
        findings.push(Finding::fault(&file.path, "does not open with `//!` saying what it owns"));
    }
    findings.extend(length(file));
    findings.extend(unfinished(file, &source));
    findings.extend(purity(file, &source));
    findings.extend(clock(file, &source));
    findings.extend(appends(file, &source));
    findings.extend(sql(file, &source));
    findings
}

const STORE: &str = "crates/store/";

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.starts_with("tests/") || path.ends_with("/tests.rs")
}

/// Lines before the tests that sit at the end of a file.
fn length(file: &TextFile) -> Option<Finding> {
    if is_test(&file.path) {
        return None;
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod "))
        .unwrap_or(lines.len());
    match tests {
        TOO_LONG.. if tests > TOO_LONG => {
            Some(Finding::fault(&file.path, format!("{tests} lines; at most {TOO_LONG}")))
        }
        LONG.. if tests > LONG => {
            Some(Finding::remark(&file.path, format!("{tests} lines; could it be two files?")))
        }
        _ => None,
    }
}

/// What is forbidden in code, with what to do instead.
const FORBIDDEN: [(&str, &str); 6] = [
    ("todo!(", "finish it or open an issue"),
    ("unimplemented!(", "finish it or open an issue"),
    ("dbg!(", "use tracing, or remove it"),
    ("#[allow(", "suppress with #[expect(…, reason = …)]"),
    ("#![allow(", "suppress with #![expect(…, reason = …)]"),
    ("#[ignore", "a test runs, or says in one line why it skipped itself"),
];

fn unfinished(file: &TextFile, source: &Source) -> Vec<Finding> {
    let in_code = FORBIDDEN.iter().flat_map(|(pattern, instead)| {
        source.code_lines(pattern).map(move |line| {
            Finding::fault(format!("{}:{line}", file.path), format!("`{pattern}`: {instead}"))
        })
    });
    let marks = [concat!("FIX", "ME"), concat!("XX", "X")];
    let in_comments = source
        .comments
        .iter()
        .filter(move |comment| marks.iter().any(|mark| comment.text.contains(mark)))
        .map(|comment| {
            Finding::fault(format!("{}:{}", file.path, comment.line), "finish it or open an issue")
        });
    in_code.chain(in_comments).collect()
}

/// What must not appear in the two crates that only compute.
const IMPURE: [&str; 8] = [
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "async fn ",
    "async move",
    ".await",
];

fn purity(file: &TextFile, source: &Source) -> Vec<Finding> {
    let pure =
        file.path.starts_with("crates/core/src/") || file.path.starts_with("crates/protocol/src/");
    if !pure {
        return Vec::new();
    }
    IMPURE
        .iter()
        .flat_map(|pattern| {
            source.code_lines(pattern).map(move |line| {
                Finding::fault(
                    format!("{}:{line}", file.path),
                    format!("`{pattern}`: this crate does no I/O and never waits"),
                )
            })
        })
        .collect()
}

/// The one file through which time and new ids enter code that a simulation must be able to repeat.
const CLOCK: &str = "crates/engine/src/clock.rs";

fn clock(file: &TextFile, source: &Source) -> Vec<Finding> {
    let timed =
        ["crates/engine/src/", "crates/agents/src/", "crates/store/src/", "crates/backends/src/"];
    if file.path == CLOCK || !timed.iter().any(|folder| file.path.starts_with(folder)) {
        return Vec::new();
    }
    ["SystemTime::now", "Instant::now", "Uuid::"]
        .iter()
        .flat_map(|pattern| source.code_lines(pattern))
        .map(|line| {
            Finding::fault(
                format!("{}:{line}", file.path),
                "time and fresh names come from the engine's clock",
            )
        })
        .collect()
}

/// The files that may make a batch of an append: `accounted`, through which every decision goes, and the end of a run that
/// nobody can fold.
const RECORDERS: [&str; 3] = [
    "crates/engine/src/budget/accounts.rs",
    "crates/engine/src/store/batch.rs",
    "crates/engine/src/unprocessable.rs",
];

fn appends(file: &TextFile, source: &Source) -> Vec<Finding> {
    if RECORDERS.contains(&file.path.as_str())
        || is_test(&file.path)
        || file.path.starts_with(STORE)
    {
        return Vec::new();
    }
    source
        .code_lines("of_append(")
        .map(|line| {
            Finding::fault(
                format!("{}:{line}", file.path),
                "a log is appended to by `Engine::commit` alone",
            )
        })
        .collect()
}

/// Only the store speaks SQL; the benchmark speaks it to measure the same rows without us.
fn sql(file: &TextFile, source: &Source) -> Vec<Finding> {
    if file.path.starts_with(STORE) || file.path.starts_with("xtask/") {
        return Vec::new();
    }
    let statements = source.strings.iter().filter(|string| is_sql(&string.text)).map(|string| {
        Finding::fault(format!("{}:{}", file.path, string.line), "SQL lives in crates/store")
    });
    let names = ["rusqlite", "tokio_postgres"].into_iter().flat_map(|name| {
        source.code_lines(name).map(move |line| {
            Finding::fault(
                format!("{}:{line}", file.path),
                format!("only crates/store names {name}"),
            )
        })
    });
    statements.chain(names).collect()
}

fn is_sql(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["SELECT", rest @ ..] => rest.contains(&"FROM"),
        ["UPDATE", _, "SET", ..]
        | ["INSERT", "INTO" | "OR", ..]
        | ["DELETE", "FROM", ..]
        | ["CREATE", "TABLE" | "INDEX" | "UNIQUE" | "TRIGGER" | "VIEW", ..]
        | ["ALTER" | "DROP", "TABLE" | "INDEX", ..]
        | ["BEGIN", "IMMEDIATE" | "EXCLUSIVE", ..]
        | ["PRAGMA", _, ..] => true,
        _ => false,
    }
}

/// Folders of somebody's machine. Spelt in two halves, so that this file passes its own rule.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Use", "rs/")];

fn machine_paths(file: &TextFile) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let path = MACHINE_PATHS.iter().find(|path| names_path(line, path))?;
            Some(Finding::fault(
                format!("{}:{}", file.path, index + 1),
                format!("`{path}` exists on one machine only"),
            ))
        })
        .collect()
}

/// Whether the line holds `path` as an absolute path, not as the middle of a longer one or of a URL.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        line[..at]
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_alphanumeric() && !"/.}_-".contains(before))
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::workspace::TextFile;

    fn faults(path: &str, text: &str) -> Vec<String> {
        check(&[TextFile { path: path.into(), text: text.into() }])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_planted_violation_is_found() {
        for (path, body) in [
            ("crates/engine/src/a.rs", "fn f() { todo!() }"),
            ("crates/engine/src/a.rs", "#[allow(dead_code)] fn f() {}"),
            ("crates/engine/src/a.rs", "#[ignore] fn f() {}"),
            ("crates/engine/src/a.rs", concat!("// FIX", "ME later")),
            ("crates/core/src/a.rs", "use std::fs;"),
            ("crates/protocol/src/a.rs", "async fn f() {}"),
            ("crates/server/src/a.rs", "const Q: &str = \"SELECT a FROM runs\";"),
            ("crates/server/src/a.rs", "const Q: &str = \"UPDATE runs SET a = 1\";"),
            ("crates/server/src/a.rs", "use rusqlite::Connection;"),
            ("crates/server/src/a.rs", "fn f() { Batch::of_append(x) }"),
            ("crates/engine/src/a.rs", "fn f() { SystemTime::now(); }"),
            ("crates/server/src/a.rs", concat!("const P: &str = \"/wo", "rk/main\";")),
        ] {
            assert_eq!(faults(path, &format!("//! Owns it.\n{body}\n")).len(), 1, "{path}: {body}");
        }
        assert_eq!(faults("crates/engine/a.sql", "").len(), 1);
        assert_eq!(faults("src/a.rs", "fn f() {}\n").len(), 1);
        assert_eq!(faults("docs/a.md", concat!("see /ho", "me/me/notes\n")).len(), 1);
    }

    #[test]
    fn what_only_looks_like_one_is_not() {
        for (path, body) in [
            ("crates/engine/src/a.rs", "const HELP: &str = \"todo!(\";"),
            ("crates/store/src/a.rs", "const Q: &str = \"SELECT a FROM runs\";"),
            ("crates/server/src/a.rs", "const HELP: &str = \"Select one of these\";"),
            (
                "crates/server/src/a.rs",
                concat!("const P: &str = \"https://example.org/ho", "me/x\";"),
            ),
            ("crates/core/tests/a.rs", "use std::fs;"),
        ] {
            assert_eq!(faults(path, &format!("//! Owns it.\n{body}\n")), [""; 0], "{path}: {body}");
        }
    }

    #[test]
    fn length_counts_what_is_not_a_test() {
        let body = |lines: usize| format!("//! Owns it.\n{}", "fn f() {}\n".repeat(lines));
        assert_eq!(faults("src/a.rs", &body(490)), [""; 0]);
        assert!(faults("src/a.rs", &body(520))[0].starts_with("note:"));
        assert!(faults("src/a.rs", &body(620))[0].starts_with("error:"));
        assert_eq!(faults("tests/a.rs", &body(620)), [""; 0]);
        let tested =
            format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", body(400), "fn t() {}\n".repeat(400));
        assert_eq!(faults("src/a.rs", &tested), [""; 0]);
    }
}

//! The security guide: every row of its tables names a test, and the test is there.

use super::Finding;
use crate::workspace::TextFile;

const PAGE: &str = "docs/guides/security.md";

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    match files.iter().find(|file| file.path == PAGE) {
        Some(page) => unproven(page, files),
        None => vec![Finding::fault(PAGE, "the page is missing")],
    }
}

fn unproven(page: &TextFile, files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut past_header = false;
    for (index, line) in page.text.lines().enumerate() {
        let place = || format!("{}:{}", page.path, index + 1);
        if !line.starts_with('|') {
            past_header = false;
        } else if line.starts_with("|---") {
            past_header = true;
        } else if past_header {
            let tests: Vec<&str> = named_tests(line).collect();
            if tests.is_empty() {
                findings.push(Finding::fault(place(), "the row names no `file.rs::test`"));
            }
            let gone = tests.into_iter().filter(|test| !exists(test, files));
            findings.extend(gone.map(|test| Finding::fault(place(), format!("{test} is no test"))));
        }
    }
    findings
}

/// The texts in backticks that read `path/of/file.rs::name_of_test`.
fn named_tests(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|text| text.contains(".rs::"))
}

fn exists(test: &str, files: &[TextFile]) -> bool {
    let Some((path, name)) = test.split_once("::") else { return false };
    let function = format!("fn {name}(");
    files.iter().any(|file| file.path == path && file.text.contains(&function))
}

#[cfg(test)]
mod tests {
    use super::unproven;
    use crate::workspace::TextFile;

    #[test]
    fn a_row_without_a_test_or_with_one_that_is_gone_is_found() {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let page = file(
            "docs/guides/security.md",
            "| what | test |\n|---|---|\n| a | `tests/a.rs::holds` |\n| b | `tests/a.rs::gone` |\n| c | none |\n",
        );
        let found = unproven(&page, &[file("tests/a.rs", "#[test]\nfn holds() {}\n")]);
        let lines: Vec<&str> = found.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(lines, ["docs/guides/security.md:4", "docs/guides/security.md:5"], "{found:?}");
    }
}

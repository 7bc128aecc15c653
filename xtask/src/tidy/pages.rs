//! The pages that people read: the ones that must exist, whom each helps, and links that lead somewhere.

use super::Finding;
use crate::workspace::TextFile;

const PAGES: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/reference/configuration.md",
    "docs/guides/operating.md",
    "docs/background/performance.md",
];

/// As readers look for pages: to learn, to get something done, to look something up, to understand.
const SHELVES: [&str; 4] = ["start", "guides", "reference", "background"];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let missing = PAGES
        .iter()
        .filter(|page| !files.iter().any(|file| file.path == **page))
        .map(|page| Finding::fault(*page, "the page is missing"));
    let broken = files
        .iter()
        .filter(|file| file.path.ends_with(".md"))
        .flat_map(|page| broken_links(page, files));
    missing.chain(broken).chain(files.iter().filter_map(addressed_to_nobody)).collect()
}

/// Every page on a shelf says in its first line whom it helps to do what. Decisions have a form of their own.
fn addressed_to_nobody(page: &TextFile) -> Option<Finding> {
    let (shelf, name) = page.path.strip_prefix("docs/")?.split_once('/')?;
    if !SHELVES.contains(&shelf) || name.contains('/') {
        return None;
    }
    let is_text = |line: &&str| !line.is_empty() && !line.starts_with(['#', '<']);
    let first = page.text.lines().find(is_text).unwrap_or_default();
    (!first.starts_with("For ")).then(|| {
        let what = "does not begin with whom it helps to do what (\"For operators: …\")";
        Finding::fault(&page.path, what)
    })
}

fn broken_links(page: &TextFile, files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            let outside = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
            // Files without an ending, such as the licences, are not in the list of texts.
            let unlisted = !path.contains('.');
            if !outside && !unlisted && !leads_somewhere(&resolve(&page.path, path), files) {
                findings.push(Finding::fault(
                    format!("{}:{}", page.path, index + 1),
                    format!("{target} leads nowhere"),
                ));
            }
        }
    }
    findings
}

fn leads_somewhere(path: &str, files: &[TextFile]) -> bool {
    files.iter().any(|file| file.path == path || file.path.starts_with(&format!("{path}/")))
}

/// The target of a link, relative to the root.
fn resolve(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{addressed_to_nobody, broken_links};
    use crate::workspace::TextFile;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let page = file(
            "docs/a.md",
            "[b](b.md#x) [c](../README.md) [d](gone.md) [e](https://example.org/e.md)",
        );
        let found = broken_links(&page, &[file("docs/b.md", ""), file("README.md", "")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.starts_with("gone.md"));
    }

    #[test]
    fn a_page_on_a_shelf_says_whom_it_helps() {
        let is_fault = |path: &str, text: &str| {
            addressed_to_nobody(&TextFile { path: path.into(), text: text.into() }).is_some()
        };
        assert!(is_fault("docs/guides/a.md", "# A\n\nA is for operators.\n"));
        assert!(is_fault("docs/start/a.md", "# A\n"));
        assert!(!is_fault("docs/guides/a.md", "<!-- made -->\n# A\n\nFor operators: a.\n"));
        assert!(!is_fault("docs/background/decisions/1.md", "# A\n\nWhy.\n"));
        assert!(!is_fault("README.md", "# A\n\nWhat.\n"));
    }
}

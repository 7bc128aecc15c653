//! Pages about the code name things: each path and each symbol that they have in backticks is in the tree, and a symbol
//! in brackets behind a path is defined there.

use std::collections::BTreeSet;

use super::Finding;
use crate::source::Source;
use crate::workspace::TextFile;

const PAGES: [&str; 2] = ["ARCHITECTURE.md", "docs/background/invariants.md"];
/// What the language itself has.
const LANGUAGE: [&str; 2] = ["unsafe", "unwrap"];
/// A name follows one of these where it is defined.
const KEYWORDS: [&str; 8] = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod"];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let tree = Tree::read(files);
    let pages = files.iter().filter(|file| PAGES.contains(&file.path.as_str()));
    pages.flat_map(|page| missing(page, &tree)).collect()
}

fn missing(page: &TextFile, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_picture = false;
    for (index, line) in page.text.lines().enumerate() {
        if line.starts_with("```") {
            is_picture = !is_picture;
        } else if !is_picture {
            let place = format!("{}:{}", page.path, index + 1);
            let names = line.split('`').skip(1).step_by(2);
            let gone = names.filter(|name| !tree.has(name));
            findings.extend(gone.map(|name| Finding::fault(&place, format!("there is no {name}"))));
            let elsewhere = placed(line).filter(|(path, name)| !tree.has_in(path, name));
            findings.extend(elsewhere.map(|(path, name)| {
                Finding::fault(&place, format!("{path} does not define {name}"))
            }));
        }
    }
    findings
}

/// Each symbol that a line has in brackets behind the path of a file: ``path (`One`, `Two`)``.
fn placed(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let behind = line.split("` (`").skip(1);
    let before = line.split("` (`").map(|text| text.rsplit('`').next().unwrap_or(text));
    let pairs = before.zip(behind).filter(|(path, _)| path.ends_with(".rs"));
    pairs.flat_map(|(path, names)| {
        let names = names.split(')').next().unwrap_or(names);
        names
            .split('`')
            .step_by(2)
            .map(move |name| (path, name))
            .filter(|(_, name)| !name.is_empty())
    })
}

/// What the tree holds, as far as a page can name it.
struct Tree<'f> {
    files: &'f [TextFile],
    rust: Vec<Rust<'f>>,
    /// Every word in quotes: codes, events, scopes, fields of the protocol.
    quoted: BTreeSet<String>,
}

/// One file with what it defines and what it speaks of.
struct Rust<'f> {
    path: &'f str,
    defined: BTreeSet<String>,
    words: BTreeSet<String>,
}

impl<'f> Tree<'f> {
    fn read(files: &'f [TextFile]) -> Self {
        let mut tree = Self { files, rust: Vec::new(), quoted: BTreeSet::new() };
        // The checks themselves speak of names that are gone.
        let is_product = |path: &str| path.ends_with(".rs") && !path.starts_with("xtask/");
        for file in files.iter().filter(|file| is_product(&file.path)) {
            let Source { code, strings, .. } = Source::read(&file.text);
            tree.quoted.extend(strings.into_iter().map(|string| string.text));
            let defined = code.lines().flat_map(definitions).map(ToOwned::to_owned).collect();
            let words = words(&code).map(ToOwned::to_owned).collect();
            tree.rust.push(Rust { path: &file.path, defined, words });
        }
        tree
    }

    fn has(&self, name: &str) -> bool {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-./:".contains(c);
        // Commands, flags and requests; and what is left of a word that ends in a new line.
        if name.is_empty() || name.starts_with('-') || !name.chars().all(is_name) {
            return true;
        }
        let is_known = LANGUAGE.contains(&name) || self.quoted.contains(name);
        if is_known || self.has_path(name) || self.is_setting(name) {
            return true;
        }
        match name.rsplit_once("::") {
            Some((owner, member)) => self.has_member(owner, member),
            None => self.defines(name.rsplit('.').next().unwrap_or(name)) || self.is_column(name),
        }
    }

    /// A file or a folder, by its whole path or by the end of it.
    fn has_path(&self, name: &str) -> bool {
        let name = name.trim_end_matches('/');
        self.files.iter().any(|file| {
            let path = format!("/{}", file.path);
            path.ends_with(&format!("/{name}")) || path.contains(&format!("/{name}/"))
        })
    }

    fn defines(&self, name: &str) -> bool {
        self.rust.iter().any(|file| file.defined.contains(name))
    }

    /// Whether the file of that path defines the symbol, or the last part of it.
    fn has_in(&self, path: &str, name: &str) -> bool {
        let symbol = name.rsplit("::").next().unwrap_or(name);
        let mut at = self.rust.iter().filter(|file| file.path == path);
        at.any(|file| file.defined.contains(symbol))
    }

    /// Defined in a file that speaks of its owner, or lies below it.
    fn has_member(&self, owner: &str, member: &str) -> bool {
        let owner = owner.rsplit("::").next().unwrap_or(owner);
        let mut defining = self.rust.iter().filter(|file| file.defined.contains(member));
        defining.any(|file| file.words.contains(owner) || file.path.contains(&format!("{owner}/")))
    }

    /// Other crates stand in the manifests, and what is forbidden of them in the lints.
    fn is_setting(&self, name: &str) -> bool {
        let mut settings = self.files.iter().filter(|file| file.path.ends_with(".toml"));
        settings.any(|file| {
            file.text.contains(&format!("\"{name}\"")) || file.text.contains(&format!("\n{name} ="))
        })
    }

    fn is_column(&self, name: &str) -> bool {
        let mut tables = self.files.iter().filter(|file| file.path.ends_with(".sql"));
        tables.any(|file| words(&file.text).any(|word| word == name))
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The names that a line of code defines: of items, and of a field or a variant at its beginning.
fn definitions(line: &str) -> impl Iterator<Item = &str> {
    let all: Vec<&str> = words(line).collect();
    let items = all.windows(2).filter(|pair| KEYWORDS.contains(&pair[0])).map(|pair| pair[1]);
    let start = line.trim_start();
    let start = ["pub ", "pub(crate) ", "pub(super) "]
        .iter()
        .find_map(|it| start.strip_prefix(it))
        .unwrap_or(start);
    let first = words(start).next().filter(|word| start.starts_with(word));
    let behind = first.and_then(|word| start.get(word.len()..)).unwrap_or_default().trim_start();
    let is_variant = first.is_some_and(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
        && (behind.is_empty() || behind.starts_with([',', '(', '{', '=']));
    let is_field = behind.starts_with(':') && !behind.starts_with("::");
    let member = first.filter(|_| is_variant || is_field);
    items.chain(member).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::workspace::TextFile;

    fn gone(page: &str) -> Vec<String> {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let files = [
            file("ARCHITECTURE.md", page),
            file(
                "crates/core/src/run.rs",
                "pub struct Run {\n    pub wake_at: u64,\n}\nimpl Run {\n    fn apply(&self) { pending() }\n}\n\
                 enum Next {\n    Wait { until: u64 },\n}\nconst CODE: &str = \"run.resumed\";\n",
            ),
            file("crates/store/src/schema.sql", "CREATE TABLE child_orders (head INTEGER);"),
            file("clippy.toml", "disallowed-methods = [\"tokio::spawn\"]"),
            file("Cargo.toml", "[dependencies]\nrusqlite = 1\n"),
        ];
        let found = check(&files);
        found.into_iter().map(|finding| finding.what.replace("there is no ", "")).collect()
    }

    #[test]
    fn what_is_there_may_be_named() {
        let page = "`crates/core/src/run.rs` `src/run.rs` `crates/store` `run.rs` `core` `Run` `Run::apply` `Next::Wait`\n\
                    `wake_at` `run.resumed` `child_orders` `tokio::spawn` `rusqlite` `unwrap` `cargo tidy` `--flag` `GET /v1/x`\n\
                    ```\n`a_picture`\n```\n";
        assert_eq!(gone(page), Vec::<String>::new());
    }

    #[test]
    fn what_is_gone_is_found() {
        let page = "`Driver::record_with` and `pending`\n`crates/core/src/gone.rs` `gone.rs` `Run::gone` `Other::apply`\n";
        let expected = [
            "Driver::record_with",
            "pending",
            "crates/core/src/gone.rs",
            "gone.rs",
            "Run::gone",
            "Other::apply",
        ];
        assert_eq!(gone(page), expected);
    }

    #[test]
    fn a_symbol_behind_a_path_is_defined_there() {
        let page =
            "`crates/core/src/run.rs` (`Run::apply`, `Next`); `crates/core/src/run.rs` (`Run`)\n";
        assert_eq!(gone(page), Vec::<String>::new());
        let page = "`crates/core/src/run.rs` (`Next`, `pending`); `crates/store/src/schema.sql` (`head`)\n";
        assert_eq!(gone(page), ["pending", "crates/core/src/run.rs does not define pending"]);
    }
}

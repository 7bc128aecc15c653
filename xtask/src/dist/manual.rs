//! Manual pages, made from what `--help` says: one for the program, one for each command with those below it.

use std::path::Path;

use anyhow::{Context, Result};

use super::said;

/// Names and texts of all pages.
pub(super) fn pages(binary: &Path, version: &str) -> Result<Vec<(String, String)>> {
    let help = said(binary, &["--help"])?;
    let mut pages = vec![("callboard".to_owned(), page("callboard", version, &[("", &help)])?)];
    for command in commands(&help) {
        let own = said(binary, &[&command, "--help"])?;
        let mut parts = vec![(command.clone(), own.clone())];
        for below in commands(&own) {
            let text = said(binary, &[&command, &below, "--help"])?;
            parts.push((format!("{command} {below}"), text));
        }
        let parts: Vec<(&str, &str)> =
            parts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let name = format!("callboard-{command}");
        pages.push((name.clone(), page(&name, version, &parts)?));
    }
    Ok(pages)
}

/// The names under `Commands:`, without the one that prints help.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // A name stands two columns in; what belongs to it, farther.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn page(name: &str, version: &str, parts: &[(&str, &str)]) -> Result<String> {
    let (_, first) = parts.first().context("a page without text")?;
    let about = first.lines().next().unwrap_or_default();
    let mut page = format!(
        ".TH {} 1 \"\" \"callboard {version}\" \"Callboard\"\n.SH NAME\n{name} \\- {}\n",
        name.to_uppercase(),
        escaped(about)
    );
    for (part, text) in parts {
        let heading = match *part {
            "" => "DESCRIPTION".to_owned(),
            part => part.to_uppercase(),
        };
        page += &format!(".SH {heading}\n.nf\n");
        for line in text.lines() {
            page += &escaped(line);
            page.push('\n');
        }
        page += ".fi\n";
    }
    page += ".SH SEE ALSO\n/usr/share/doc/callboard\n";
    Ok(page)
}

/// A line that the formatter prints as it stands.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_and_text_stays_text() {
        let help = "About\n\nCommands:\n  serve  Run the host\n  runs   Runs: list,\n         show\n  help   Print\n\nOptions:\n  -h  Help\n";
        assert_eq!(commands(help), ["serve", "runs"]);
        assert_eq!(escaped(".so /etc/passwd\\n"), "\\&.so /etc/passwd\\en");
    }
}

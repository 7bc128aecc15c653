//! The one place where xtask prints.

use std::fmt::Display;

#[expect(
    clippy::print_stdout,
    reason = "a task reports to the person or the CI log that started it"
)]
pub(crate) fn line(text: impl Display) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "errors belong on standard error")]
pub(crate) fn problem(text: impl Display) {
    eprintln!("{text}");
}

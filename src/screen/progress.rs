//! Bars for what takes a while, drawn only where a person watches.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use crate::screen::output;

/// Fast enough to look alive, slow enough to cost nothing.
const TICK: Duration = Duration::from_millis(100);
/// Small enough that a bar moves, large enough not to slow the transfer down.
const CHUNK: usize = 64 << 10;

/// Bytes on their way, of so many as are known to come.
pub(crate) fn bytes(what: &str, total: Option<u64>) -> ProgressBar {
    let template = match total {
        Some(_) => "{msg:.dim} {bar:30.cyan} {bytes}/{total_bytes}",
        None => "{msg:.dim} {spinner:.cyan} {bytes}",
    };
    let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
    shown(bar, template, what)
}

/// Something that says nothing until it is done.
pub(crate) fn waiting(what: &str) -> ProgressBar {
    shown(ProgressBar::no_length(), "{spinner:.cyan} {msg:.dim}", what)
}

/// What goes on below the lines that are printed meanwhile.
pub(crate) fn below(margin: &str) -> ProgressBar {
    let template = format!("{margin}{{spinner:.cyan}} {{wide_msg:.dim}}");
    shown(ProgressBar::no_length(), &template, "")
}

/// It is gone with its last owner, however that ends: what stays on the screen is the result.
fn shown(bar: ProgressBar, template: &str, what: &str) -> ProgressBar {
    if !output::is_watched() {
        return ProgressBar::hidden();
    }
    let bar = bar.with_message(what.to_owned()).with_finish(ProgressFinish::AndClear);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
    }
    bar.enable_steady_tick(TICK);
    bar
}

/// A body in pieces, each counted when it is taken.
pub(crate) fn counted(
    body: Vec<u8>,
    bar: ProgressBar,
) -> impl Stream<Item = Result<Vec<u8>, Infallible>> + Send + 'static {
    stream::unfold((body, 0), move |(body, sent)| {
        let piece = body[sent..].chunks(CHUNK).next().map(<[u8]>::to_vec);
        bar.inc(piece.as_ref().map_or(0, |piece| piece.len() as u64));
        async move {
            let piece = piece?;
            let sent = sent + piece.len();
            Some((Ok(piece), (body, sent)))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::TryStreamExt;

    #[tokio::test]
    async fn a_counted_body_is_the_same_body() {
        for length in [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let body: Vec<u8> = (0..length).map(|place| (place % 251) as u8).collect();
            let bar = ProgressBar::hidden();
            let pieces: Vec<Vec<u8>> =
                counted(body.clone(), bar.clone()).try_collect().await.unwrap();
            assert!(pieces.iter().all(|piece| piece.len() <= CHUNK), "{length}");
            assert_eq!((pieces.concat(), bar.position()), (body, length as u64));
        }
    }
}

//! Lines of a pipe, each within a bound.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// One line, or the length of one that was too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    TooLong(usize),
}

#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    most: usize,
    /// Bytes of a line that is being skipped, counted from its start.
    skipped: usize,
    is_returned: bool,
}

/// What one read of a pipe holds; a multiple of what agents write at once.
const BUFFER: usize = 64 * 1024;

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, most: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(BUFFER, reader),
            line: Vec::new(),
            most,
            skipped: 0,
            is_returned: true,
        }
    }

    /// Waits until there is something to read; zero is the end. May be dropped while it waits.
    pub(crate) async fn ready(&mut self) -> io::Result<usize> {
        self.reader.fill_buf().await.map(<[u8]>::len)
    }

    /// Takes the next line from what has been read, if it is whole. Never waits.
    pub(crate) fn next_ready(&mut self) -> Option<Line<'_>> {
        if std::mem::take(&mut self.is_returned) {
            self.line.clear();
            self.skipped = 0;
        }
        let buffer = self.reader.buffer();
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        if self.skipped > 0 || self.line.len() + piece.len() > self.most {
            self.skipped += self.line.len() + piece.len();
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(piece);
        }
        let read = piece.len() + usize::from(end.is_some());
        self.reader.consume(read);
        end.map(|_| self.returned())
    }

    /// What stands after the last line feed, at the end of the pipe.
    pub(crate) fn last(&mut self) -> Option<Line<'_>> {
        (!self.is_returned && (self.skipped > 0 || !self.line.is_empty())).then(|| self.returned())
    }

    fn returned(&mut self) -> Line<'_> {
        self.is_returned = true;
        if self.skipped > 0 { Line::TooLong(self.skipped) } else { Line::Whole(&self.line) }
    }

    /// Reads to the end and discards, so that the writer is never blocked by a full pipe.
    pub(crate) async fn drain(&mut self) {
        while self.reader.fill_buf().await.is_ok_and(|read| !read.is_empty()) {
            let read = self.reader.buffer().len();
            self.reader.consume(read);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Lines};

    async fn read(input: &[u8], most: usize) -> Vec<Result<Vec<u8>, usize>> {
        let mut lines = Lines::new(input, most);
        let mut found = Vec::new();
        let mut keep = |line: Line<'_>| {
            found.push(match line {
                Line::Whole(line) => Ok(line.to_vec()),
                Line::TooLong(bytes) => Err(bytes),
            });
        };
        while lines.ready().await.unwrap() > 0 {
            while let Some(line) = lines.next_ready() {
                keep(line);
            }
        }
        if let Some(line) = lines.last() {
            keep(line);
        }
        found
    }

    #[tokio::test]
    async fn lines_are_what_stands_between_line_feeds() {
        assert_eq!(read(b"a\n\nbc", 10).await, [Ok(b"a".into()), Ok(b"".into()), Ok(b"bc".into())]);
        assert_eq!(read(b"a\n", 10).await, [Ok(b"a".into())]);
        assert_eq!(read(b"", 10).await, []);
    }

    #[tokio::test]
    async fn a_line_beyond_the_bound_is_counted_and_skipped() {
        assert_eq!(read(b"abcd\nef\n", 3).await, [Err(4), Ok(b"ef".into())]);
        assert_eq!(read(b"abc\nabcd", 3).await, [Ok(b"abc".into()), Err(4)]);
        let mut long = vec![b'x'; 200_000];
        long.extend_from_slice(b"\nok\n");
        assert_eq!(read(&long, 1_000).await, [Err(200_000), Ok(b"ok".into())]);
    }
}

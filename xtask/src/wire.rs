//! A lean HTTP/1.1 client over one kept-alive connection: cheap enough to share two cores with what it measures.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What to ask.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Request {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), ..Self::default() }
    }

    pub(crate) fn post(path: impl Into<String>, body: &Value) -> Self {
        Self { method: "POST", path: path.into(), ..Self::default() }
            .header("content-type", "application/json")
            .raw(body.to_string())
    }

    pub(crate) fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn bearer(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    pub(crate) fn raw(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// The request's bytes; a load generator renders once and sends often.
    pub(crate) fn render(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: callboard\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = self.body.as_deref().unwrap_or_default();
        if self.body.is_some() || self.method != "GET" {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(held, _)| held == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| {
            format!("{} with a body that is no JSON: {}", self.status, self.text())
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// How the length of a body is given.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// One connection, kept open between requests.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Room for one answer; bodies of runs are small.
const READ: usize = 16 * 1024;

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream =
            TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(READ) })
    }

    pub(crate) async fn send(&mut self, request: &Request) -> Result<Answer> {
        self.send_bytes(&request.render()).await
    }

    pub(crate) async fn send_bytes(&mut self, request: &[u8]) -> Result<Answer> {
        // What an exchange has left behind was read.
        self.buffer.clear();
        // A server that refuses early stops reading; its answer says more than the broken pipe.
        let sent = self.stream.write_all(request).await;
        let (mut answer, framing) = match (self.head().await, sent) {
            (Ok(head), _) => head,
            (Err(_), Err(error)) => return Err(error.into()),
            (Err(error), Ok(())) => return Err(error),
        };
        match framing {
            Framing::Length(length) => answer.body = self.exactly(length).await?,
            Framing::Chunked => {
                while let Some(chunk) = self.chunk().await? {
                    answer.body.extend_from_slice(&chunk);
                }
            }
            Framing::UntilClose => {
                while self.fill().await? {}
                answer.body = std::mem::take(&mut self.buffer);
            }
        }
        Ok(answer)
    }

    /// Sends and answers status and body without keeping either: for loads, where every copy is time taken from
    /// the host. Only for answers that tell their length.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<(u16, &str)> {
        self.buffer.clear();
        self.stream.write_all(request).await?;
        let (start, end, status) = loop {
            if !self.fill().await? {
                bail!("the connection closed before an answer");
            }
            let Some(start) = find(&self.buffer, b"\r\n\r\n").map(|at| at + 4) else { continue };
            let head = std::str::from_utf8(&self.buffer[..start])?;
            let status = head.get(9..12).context("no status line")?.parse()?;
            let length = head.split_once("content-length: ").context("no content-length")?.1;
            let length: usize = length.split_once('\r').context("no content-length")?.0.parse()?;
            break (start, start + length, status);
        };
        while self.buffer.len() < end {
            if !self.fill().await? {
                bail!("the connection closed in the middle of a body");
            }
        }
        Ok((status, std::str::from_utf8(&self.buffer[start..end])?))
    }

    /// Sends, and leaves the body to be read piece by piece.
    pub(crate) async fn stream(mut self, request: &Request) -> Result<(Answer, Body)> {
        self.stream.write_all(&request.render()).await?;
        let (answer, framing) = self.head().await?;
        let left = match framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let chunked = matches!(framing, Framing::Chunked);
        Ok((answer, Body { connection: self, chunked, left }))
    }

    async fn head(&mut self) -> Result<(Answer, Framing)> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at;
            }
            if !self.fill().await? {
                bail!("the connection closed before an answer");
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
        let text = String::from_utf8_lossy(&head);
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status =
            first.split(' ').nth(1).and_then(|word| word.parse().ok()).context("no status line")?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let answer = Answer { status, headers, body: Vec::new() };
        let framing = if matches!(status, 204 | 304) || status < 200 {
            Framing::Length(0)
        } else if let Some(length) = answer.header("content-length") {
            Framing::Length(length.parse()?)
        } else if answer
            .header("transfer-encoding")
            .is_some_and(|coding| coding.contains("chunked"))
        {
            Framing::Chunked
        } else {
            Framing::UntilClose
        };
        Ok((answer, framing))
    }

    /// Reads what has come; false when the other side has closed.
    async fn fill(&mut self) -> Result<bool> {
        self.buffer.reserve(READ);
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }

    async fn exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.buffer.len() < length {
            if !self.fill().await? {
                bail!("the connection closed in the middle of a body");
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// The next chunk of a chunked body; none after the last.
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                break at;
            }
            if !self.fill().await? {
                bail!("the connection closed between two chunks");
            }
        };
        let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
        let size = std::str::from_utf8(&line)?.trim().split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(size, 16).context("a chunk without a size")?;
        let mut chunk = self.exactly(size + 2).await?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }
}

/// The body of an answer that goes on.
#[derive(Debug)]
pub(crate) struct Body {
    connection: Connection,
    chunked: bool,
    left: Option<usize>,
}

impl Body {
    /// What came next; none when the server has ended the body.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if self.chunked {
            return self.connection.chunk().await;
        }
        if self.left == Some(0) {
            return Ok(None);
        }
        if self.connection.buffer.is_empty() && !self.connection.fill().await? {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.connection.buffer);
        self.left = self.left.map(|left| left.saturating_sub(bytes.len()));
        Ok(Some(bytes))
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

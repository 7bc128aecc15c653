//! A receiver of webhooks on this machine: it takes whatever comes and remembers the order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Receiver {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    /// Listens until the test ends.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                // A sender that dies in the middle of its request has not sent anything.
                let _ = take(socket, &sink);
            }
        });
        Ok(Self { url, seen })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The ids of the events that arrived, in order, as often as they did.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn take(socket: TcpStream, seen: &Mutex<Vec<String>>) -> Result<()> {
    let mut reader = BufReader::new(socket);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body: Value = serde_json::from_slice(&body)?;
    let event = body["event"]["eventId"].as_str().context("a delivery without an event")?;
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(event.to_owned());
    let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    reader.into_inner().write_all(answer)?;
    Ok(())
}

//! Real sockets: the server starts, speaks, and stops although somebody is still listening.

use std::time::Duration;

use callboard_server::serve;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::given::{LIVE, TestHost};

/// More than any test opens.
const CONNECTIONS: usize = 1024;

/// Long enough for the slowest machine; what takes this long hangs.
const HANGS: Duration = Duration::from_secs(60);

async fn request(address: std::net::SocketAddr, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("connected");
    let text = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {LIVE}\r\n\r\n");
    socket.write_all(text.as_bytes()).await.expect("sent");
    socket
}

async fn read_until(socket: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains(wanted) {
        let count = socket.read(&mut buffer).await.expect("read");
        assert_ne!(count, 0, "closed before {wanted:?}: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    text
}

#[tokio::test]
async fn open_streams_and_idle_connections_do_not_keep_the_host_from_stopping() {
    let host = TestHost::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let tasks = TaskTracker::new();
    let served =
        tasks.spawn(serve(listener, host.router.clone(), CONNECTIONS, host.shutdown.clone()));

    let run = host.run("wait", json!({ "delayMs": 3_600_000 })).await;
    let mut stream = request(address, &format!("/v1/runs/{run}/events")).await;
    let head = read_until(&mut stream, "event: run.started").await;
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("transfer-encoding: chunked"),
        "{head}"
    );
    let mut idle = request(address, "/healthz").await;
    assert!(
        read_until(&mut idle, "\"ok\"").await.contains("content-length"),
        "a whole answer has a length"
    );
    let _silent = TcpStream::connect(address).await.expect("connected");

    host.shutdown.cancel();
    tokio::time::timeout(HANGS, served).await.expect("the server stops").expect("without a panic");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.expect("the stream was closed, not cut");
    assert!(String::from_utf8_lossy(&rest).ends_with("0\r\n\r\n"), "{rest:?}");
}

/// Nobody holds a place for a body that will be refused.
#[tokio::test]
async fn a_body_that_is_announced_as_too_large_is_not_waited_for() {
    let host = TestHost::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let tasks = TaskTracker::new();
    tasks.spawn(serve(listener, host.router.clone(), CONNECTIONS, host.shutdown.clone()));
    let mut socket = TcpStream::connect(address).await.expect("connected");
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {LIVE}\r\ncontent-length: 5000000\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.expect("sent");
    let answer = read_until(&mut socket, "payload_too_large").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("connection: close"), "a client must not send its next request here");
    // A client that goes on sending is read a little longer, so that it gets to the answer.
    socket.write_all(&vec![b'x'; 5_000_000]).await.expect("nobody hangs up on it");
    host.shutdown.cancel();
}

#[tokio::test]
async fn bytes_that_are_no_http_end_only_their_own_connection() {
    let host = TestHost::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let tasks = TaskTracker::new();
    tasks.spawn(serve(listener, host.router.clone(), CONNECTIONS, host.shutdown.clone()));
    let mut odd = TcpStream::connect(address).await.expect("connected");
    odd.write_all(b"\x16\x03\x01 what is this\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    odd.read_to_end(&mut answer).await.expect("closed");
    let mut fine = request(address, "/healthz").await;
    read_until(&mut fine, "\"ok\"").await;
    host.shutdown.cancel();
    tasks.close();
    tokio::time::timeout(HANGS, tasks.wait()).await.expect("the server stops");
}

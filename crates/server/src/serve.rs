//! Sockets: accepts connections, speaks HTTP/1.1 on them, and lets them end when the host does.
//!
//! A stranger's connection costs little and for no long time: its head is bounded in size and time, and it gives way
//! where there are too many.

use std::time::Duration;

use axum::http::header;
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::client::Peer;
use crate::connections::{Connection, Connections};
use crate::linger::{Lingering, Unread};
use crate::routes::Surface;
use crate::tls::Tls;

/// A connection that sends no whole head in this time is closed. Longer than the 90 seconds for which common
/// clients keep idle connections, so that it is they who close them and no request meets a closing door.
const HEADERS_WITHIN: Duration = Duration::from_secs(95);

/// What a connection may hold of bytes that were not looked at: a head, or a piece of a body. Heads of clients that we know
/// take a tenth of it.
const MOST_BUFFERED: usize = 64 * 1024;

/// What connections get to finish after the stop. Streams end by themselves; this is for clients that do not read.
const DRAIN: Duration = Duration::from_secs(5);

/// A pause after a failed accept: out of file descriptors, trying at once would only burn the processor.
const AFTER_ACCEPT_ERROR: Duration = Duration::from_millis(50);

/// Serves until stopped, then waits for what is open, but not for long.
pub async fn serve(
    listener: TcpListener,
    surface: Surface,
    most_connections: usize,
    shutdown: CancellationToken,
) {
    serve_over(None, listener, surface, most_connections, shutdown).await;
}

/// The same over TLS, where there is a certificate.
pub async fn serve_over(
    tls: Option<Tls>,
    listener: TcpListener,
    surface: Surface,
    most_connections: usize,
    shutdown: CancellationToken,
) {
    // Connections are the one kind of task that comes from outside, so they have a tracker of their own.
    let connections = TaskTracker::new();
    let all_open = Connections::new(most_connections);
    let cut = CancellationToken::new();
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((socket, peer)) => {
                let cut = cut.child_token();
                let Some(connection) = all_open.admit(cut.clone()) else {
                    tracing::warn!("a connection was refused: all others are at work");
                    continue;
                };
                let peer = Peer { address: peer.ip(), is_tls: tls.is_some() };
                let tls = tls.clone();
                let line = Line { peer, surface: surface.clone(), open: connection };
                let talk = open(socket, tls, line, shutdown.clone());
                connections.spawn(async move { cut.run_until_cancelled_owned(talk).await });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                all_open.make_room();
                shutdown.run_until_cancelled(tokio::time::sleep(AFTER_ACCEPT_ERROR)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::info!(open = connections.len(), "cutting connections that did not end");
        cut.cancel();
        connections.wait().await;
    }
}

/// What the requests of one connection have in common.
struct Line {
    peer: Peer,
    surface: Surface,
    open: Connection,
}

async fn open(socket: TcpStream, tls: Option<Tls>, line: Line, shutdown: CancellationToken) {
    // Frames of a stream are small and must not wait for each other.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "no-delay not set");
    }
    let Some(tls) = tls else { return converse(socket, line, shutdown).await };
    match tls.accept(socket).await {
        Ok(socket) => converse(socket, line, shutdown).await,
        Err(error) => tracing::debug!(%error, "no TLS was agreed on"),
    }
}

async fn converse<S>(socket: S, line: Line, shutdown: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Line { peer, surface, open } = line;
    let unread = Unread::default();
    let socket = Lingering::new(socket, unread.clone());
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(open.clone());
        request.extensions_mut().insert(peer);
        let unread = unread.clone();
        surface.clone().call(request).map(move |answered| {
            if answered.as_ref().is_ok_and(|it| it.headers().contains_key(header::CONNECTION)) {
                unread.mark();
            }
            answered
        })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(MOST_BUFFERED)
        .serve_connection(TokioIo::new(socket), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

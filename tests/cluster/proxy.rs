//! A network between a host and its database that can be cut, frozen, also in one direction only, and slowed down.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Open,
    /// Every connection is closed, and no new one lasts.
    Cut,
    /// Nothing comes through, and nobody learns of it.
    Frozen,
    /// What hosts say arrives; the answers do not.
    WithoutAnswers,
    /// Everything takes this much longer, each way.
    Slow(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToHost,
}

impl Network {
    fn carries(self, way: Way) -> bool {
        match self {
            Self::Open | Self::Slow(_) => true,
            Self::WithoutAnswers => way == Way::ToServer,
            Self::Cut | Self::Frozen => false,
        }
    }
}

/// Listens until the test ends.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    network: watch::Sender<Network>,
}

impl Proxy {
    pub(crate) async fn before(server: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (network, state) = watch::channel(Network::Open);
        let tasks = TaskTracker::new();
        tasks.clone().spawn(async move {
            while let Ok((host, _)) = listener.accept().await {
                tasks.spawn(carry(host, server, state.clone()));
            }
        });
        Ok(Self { port, network })
    }

    pub(crate) fn turn(&self, network: Network) {
        self.network.send_replace(network);
    }

    /// The same database, by way of this network.
    pub(crate) fn address(&self, of_server: &str, port: u16) -> String {
        of_server.replace(&format!(":{port}/"), &format!(":{}/", self.port))
    }
}

/// Ends both sides of a connection as soon as one of them ends.
async fn carry(host: TcpStream, server: u16, mut network: watch::Receiver<Network>) {
    if *network.borrow() == Network::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else { return };
    let ((from_host, to_host), (from_server, to_server)) = (host.into_split(), server.into_split());
    let states = (network.clone(), network.clone());
    tokio::select! {
        () = pump(from_host, to_server, states.0, Way::ToServer) => {}
        () = pump(from_server, to_host, states.1, Way::ToHost) => {}
        _ = network.wait_for(|network| *network == Network::Cut) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: watch::Receiver<Network>,
    way: Way,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes).await.unwrap_or(0);
        // The end of a connection is news as well: it does not get through a network that is frozen.
        let Ok(state) = network.wait_for(|network| network.carries(way)).await.map(|it| *it) else {
            return;
        };
        if read == 0 {
            return;
        }
        if let Network::Slow(by) = state {
            tokio::time::sleep(by).await;
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

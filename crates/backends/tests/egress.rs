//! The way out, against names that move and receivers on loopback that misbehave.

#![cfg(test)]

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use callboard_agents::{Fetch, FetchError};
use callboard_backends::{Answer, Egress, EgressError, Lookup, Method, Outgoing, Reach};
use callboard_core::EgressList;
use callboard_engine::{Deliver, DeliverError, Parcel};
use callboard_protocol::Tenant;
use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// Names as a test wants them: each lookup takes the next answer, the last one stays.
#[derive(Debug)]
struct Moving(Mutex<VecDeque<Vec<IpAddr>>>);

impl Moving {
    fn through(answers: &[&[&str]]) -> Arc<Self> {
        let read = |text: &&str| text.parse().unwrap();
        let answers = answers.iter().map(|answer| answer.iter().map(read).collect()).collect();
        Arc::new(Self(Mutex::new(answers)))
    }

    fn left(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[async_trait]
impl Lookup for Moving {
    async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        answer.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

fn post(url: String) -> Outgoing {
    let headers = vec![("X-Sign".to_owned(), "abc".to_owned())];
    let within = Duration::from_secs(5);
    Outgoing { method: Method::Post, url, headers, body: b"{}".to_vec(), within, most: 8 }
}

/// Answers the first request with this text and hands back what it was sent.
async fn receiver(answer: &'static str) -> (SocketAddr, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = TaskTracker::new().spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n{}") {
            let mut buffer = [0; 1024];
            let count = socket.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        socket.write_all(answer.as_bytes()).await.unwrap();
        text
    });
    (address, task)
}

#[tokio::test]
async fn only_public_addresses_over_tls_are_admitted() {
    let lookup = Moving::through(&[&["1.1.1.1", "2606:4700::1111"]]);
    let egress = Egress::new(Reach::Public, lookup);
    for url in ["https://example.com/hook", "https://1.1.1.1/", "https://example.com:8443/?a=b"] {
        assert_eq!(egress.admit(&"acme".into(), url).await, Ok(()), "{url}");
    }
    for url in [
        "http://example.com/",
        "ftp://example.com/",
        "not a url",
        "https://",
        "https://user:password@example.com/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://169.254.169.254/latest",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://a.localhost/",
        "https://metadata/",
        "https://metadata.google.internal/",
    ] {
        let refused = egress.admit(&"acme".into(), url).await;
        assert!(matches!(refused, Err(DeliverError::Refused(_))), "{url}: {refused:?}");
    }
}

#[tokio::test]
async fn one_private_address_behind_a_name_is_enough_to_refuse_it() {
    let egress = Egress::new(Reach::Public, Moving::through(&[&["1.1.1.1", "10.0.0.1"]]));
    let refused = egress.admit(&"acme".into(), "https://example.com/").await;
    assert!(matches!(refused, Err(DeliverError::Refused(_))), "{refused:?}");
    let egress = Egress::new(Reach::Public, Moving::through(&[]));
    let unknown = egress.admit(&"acme".into(), "https://example.com/").await;
    assert!(matches!(unknown, Err(DeliverError::NoAnswer(_))), "{unknown:?}");
}

#[tokio::test]
async fn a_name_that_moved_inside_is_not_followed_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://example.com:{}/", listener.local_addr().unwrap().port());
    let egress = Egress::new(Reach::Public, Moving::through(&[&["1.1.1.1"], &["127.0.0.1"]]));
    assert_eq!(egress.admit(&"acme".into(), &url).await, Ok(()));
    let refused = egress.send(post(url)).await;
    assert!(matches!(refused, Err(EgressError::Refused(_))), "{refused:?}");
    assert!(listener.accept().now_or_never().is_none(), "somebody connected");
}

#[tokio::test]
async fn an_address_in_the_url_is_checked_when_it_is_sent_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let egress = Egress::new(Reach::Public, Moving::through(&[]));
    let refused = egress.send(post(format!("https://{}/", listener.local_addr().unwrap()))).await;
    assert!(matches!(refused, Err(EgressError::Refused(_))), "{refused:?}");
    assert!(listener.accept().now_or_never().is_none(), "somebody connected");
}

#[tokio::test]
async fn each_request_looks_its_name_up_once_and_goes_there() {
    let lookup = Moving::through(&[&["127.0.0.1"], &["127.0.0.1"], &["127.0.0.1"]]);
    let egress = Egress::new(Reach::Anywhere, lookup.clone());
    for left in [2, 1] {
        let (address, received) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        let url = format!("http://receiver.test:{}/hook", address.port());
        let answer = egress.send(post(url)).await.unwrap();
        let headers = [("content-length".to_owned(), "2".to_owned())].into();
        assert_eq!(answer, Answer { status: 200, headers, body: b"ok".to_vec(), is_cut: false });
        let request = received.await.unwrap();
        assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("x-sign: abc\r\n"), "{request}");
        assert_eq!(lookup.left(), left);
    }
}

#[tokio::test]
async fn credentials_of_the_machine_are_out_of_reach_even_where_private_addresses_are_not() {
    let lookup = Moving::through(&[&["169.254.169.254"]]);
    let egress = Egress::new(Reach::Anywhere, lookup);
    for url in [
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://metadata.google.internal/",
    ] {
        let refused = egress.admit(&"acme".into(), url).await;
        assert!(matches!(refused, Err(DeliverError::Refused(_))), "{url}: {refused:?}");
    }
    let moved = egress.send(post("http://inside.example/".to_owned())).await;
    assert!(matches!(moved, Err(EgressError::Refused(_))), "{moved:?}");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_a_way() {
    let (elsewhere, followed) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{elsewhere}/\r\ncontent-length: 0\r\n\r\n"
    );
    let (address, received) = receiver(answer.leak()).await;
    let egress = Egress::new(Reach::Anywhere, Moving::through(&[]));
    let answer = egress.send(post(format!("http://{address}/"))).await.unwrap();
    assert_eq!(answer.status, 307);
    received.await.unwrap();
    assert!(followed.now_or_never().is_none(), "the redirect was followed");
}

#[tokio::test]
async fn a_long_answer_is_cut() {
    let (address, _task) =
        receiver("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123456789").await;
    let egress = Egress::new(Reach::Anywhere, Moving::through(&[]));
    let answer = egress.send(post(format!("http://{address}/"))).await.unwrap();
    assert_eq!((answer.body, answer.is_cut), (b"01234567".to_vec(), true));
}

/// Time jumps as soon as everybody waits, so this takes none.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let egress = Egress::new(Reach::Anywhere, Moving::through(&[]));
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let silence = egress.send(post(url)).await;
    assert_eq!(silence, Err(EgressError::NoAnswer("no answer in time".to_owned())));
}

#[tokio::test]
async fn errors_and_debug_output_hold_nothing_of_the_request() {
    let egress = Egress::new(Reach::Anywhere, Moving::through(&[]));
    let url = "http://receiver.test:1/token-in-path".to_owned();
    let parcel = Parcel {
        tenant: "acme".into(),
        url,
        headers: vec![("X-Sign".to_owned(), "signature".to_owned())],
        body: "content".to_owned(),
        within: Duration::from_secs(5),
    };
    let mut shown = format!("{parcel:?} {:?}", post("http://x/token".to_owned()));
    let failed = Deliver::post(&egress, parcel).await.unwrap_err();
    shown.push_str(&format!("{failed} {failed:?}"));
    for secret in ["token", "signature", "content", "receiver.test"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// Answers one request for a file.
async fn shelf(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    TaskTracker::new().spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (mut text, mut buffer) = (String::new(), [0; 1024]);
        while !text.ends_with("\r\n\r\n") {
            let count = socket.read(&mut buffer).await.unwrap();
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        assert!(text.starts_with("GET /v1/packs/a.tgz HTTP/1.1\r\n"), "{text}");
        socket.write_all(answer.as_bytes()).await.unwrap();
    });
    address
}

#[tokio::test]
async fn registries_inside_are_asked_only_where_that_is_allowed() {
    let there = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\npack";
    let url = format!("http://{}/v1/packs/a.tgz", shelf(there).await);
    let guarded = Egress::new(Reach::Public, Moving::through(&[&["127.0.0.1"]]));
    for url in [url.as_str(), "https://127.0.0.1/v1/packs/a.tgz", "https://packs.example/a.tgz"] {
        let refused = Fetch::get(&guarded, url).await;
        assert!(matches!(refused, Err(FetchError::Refused(_))), "{url}: {refused:?}");
    }
    let open = Egress::new(Reach::Anywhere, Moving::through(&[]));
    assert_eq!(Fetch::get(&open, &url).await, Ok(b"pack".to_vec()));
    let gone = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let url = format!("http://{}/v1/packs/a.tgz", shelf(gone).await);
    assert_eq!(Fetch::get(&open, &url).await, Err(FetchError::NotFound));
}

/// A tenant's lists hold for whatever it sends; another tenant and the host itself are not meant.
#[tokio::test]
async fn a_tenants_lists_refuse_by_their_rule() {
    let egress = Egress::new(Reach::Anywhere, Moving::through(&[]));
    let (acme, other) = ("acme".into(), "other".into());
    let list = EgressList {
        allow: vec!["*.corp.test".to_owned()],
        deny: vec!["bad.corp.test".to_owned()],
    };
    egress.set_lists(BTreeMap::from([(Tenant::clone(&acme), list)]));
    let refused = |url: &str| match egress.admit_of(&acme, url) {
        Err(EgressError::Refused(why)) => why,
        admitted => panic!("{url}: {admitted:?}"),
    };
    let allow = "the host may not be reached: tenants.acme.egress.allow";
    assert_eq!(refused("http://receiver.test/token"), allow);
    assert_eq!(refused("http://127.0.0.1:9/"), allow);
    let deny = "the host may not be reached: tenants.acme.egress.deny \"bad.corp.test\"";
    assert_eq!(refused("https://bad.corp.test:8443/x"), deny);
    assert_eq!(refused("https://user@bad.corp.test./x"), deny);
    egress.admit_of(&acme, "https://good.corp.test/x").unwrap();
    egress.admit_of(&other, "https://bad.corp.test/x").unwrap();
    let sent = egress.send_of(&acme, post("http://receiver.test:1/".to_owned())).await;
    assert!(matches!(sent, Err(EgressError::Refused(_))), "before anything is looked up: {sent:?}");
    let webhook = Deliver::admit(&egress, &acme, "http://receiver.test/").await;
    assert!(matches!(webhook, Err(DeliverError::Refused(_))), "{webhook:?}");
}

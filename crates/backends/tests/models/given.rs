//! A provider that answers once, and somebody who asks it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use callboard_agents::{
    Delta, Message, Model as _, ModelError, ModelRequest, ToolReply, ToolSpec, Turn, WantedCall,
};
use callboard_backends::{BaseUrl, LiveModel, ProviderKind, ProviderSettings, Timeouts};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What must never be seen outside of a header.
pub(crate) const KEY: &str = "sk-0123456789abcdef";
/// What must never be seen in an error.
pub(crate) const PROMPT: &str = "the secret plan";

/// An answer, with an end of one's choice.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) pieces: Vec<String>,
    pub(crate) end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As it should be.
    Whole,
    /// The connection breaks in the middle of the body.
    Cut,
    /// Nothing more comes, and nothing ends.
    Silence,
    /// Not even a head comes.
    Nothing,
}

impl Reply {
    pub(crate) fn stream(pieces: impl IntoIterator<Item = String>) -> Self {
        let pieces = pieces.into_iter().collect();
        Self { status: 200, headers: Vec::new(), pieces, end: End::Whole }
    }

    pub(crate) fn status(status: u16) -> Self {
        let body = json!({ "error": { "message": format!("{PROMPT} {KEY}") } }).to_string();
        Self { status, ..Self::stream([body]) }
    }

    pub(crate) fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }
}

/// An event without a name.
pub(crate) fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// An event that has the name of its type.
pub(crate) fn event(value: &Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap())
}

/// The request as it arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Method and path.
    pub(crate) line: String,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: Value,
}

pub(crate) struct Provider {
    listener: TcpListener,
    seen: Arc<Mutex<Seen>>,
    asked: AtomicUsize,
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener, seen: Arc::default(), asked: AtomicUsize::new(0) }
    }

    pub(crate) fn model(&self, kind: ProviderKind) -> LiveModel {
        self.model_with(kind, Timeouts::default())
    }

    pub(crate) fn model_with(&self, kind: ProviderKind, timeouts: Timeouts) -> LiveModel {
        let address = format!("http://{}", self.listener.local_addr().unwrap());
        LiveModel::new(ProviderSettings {
            name: "acme".into(),
            kind,
            base_url: BaseUrl::parse(kind, &address).unwrap(),
            key: Some(KEY.to_owned().into()),
            timeouts,
        })
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// How many questions came.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Answers one question after the other; whoever asks more often hears the last answer again.
    pub(crate) async fn answer_all(&self, replies: &[Reply]) -> ! {
        let mut silent = Vec::new();
        loop {
            let (stream, _) = self.listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            *self.seen.lock().unwrap() = read(&mut stream).await;
            let place = self.asked.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1);
            let mut stream = stream.into_inner();
            write(&mut stream, &replies[place]).await;
            match replies[place].end {
                End::Whole | End::Cut => drop(stream),
                End::Silence | End::Nothing => silent.push(stream),
            }
        }
    }

    /// Answers once and is never done: whoever asks decides when it is over.
    pub(crate) async fn answer(&self, reply: &Reply) -> ! {
        let (stream, _) = self.listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let seen = read(&mut stream).await;
        *self.seen.lock().unwrap() = seen;
        let mut stream = stream.into_inner();
        write(&mut stream, reply).await;
        match reply.end {
            End::Whole | End::Cut => drop(stream),
            // From here on only timers can move anything, so time may run by itself.
            End::Nothing => tokio::time::pause(),
            End::Silence => {}
        }
        std::future::pending().await
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Seen {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).await.unwrap() > 0, "{head}");
    }
    let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.unwrap();
    Seen { line, head, body: serde_json::from_slice(&body).unwrap_or_default() }
}

/// A client that has heard enough goes away, so nobody insists on writing.
async fn write(stream: &mut TcpStream, reply: &Reply) {
    if reply.end == End::Nothing {
        return;
    }
    let mut head = format!(
        "HTTP/1.1 {} Fine\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
         connection: close\r\n",
        reply.status
    );
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
    for piece in &reply.pieces {
        let piece = format!("{:x}\r\n{piece}\r\n", piece.len());
        let _ = stream.write_all(piece.as_bytes()).await;
    }
    if reply.end == End::Whole {
        let _ = stream.write_all(b"0\r\n\r\n").await;
    }
}

/// What came of one question.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) turn: Result<Turn, ModelError>,
    pub(crate) deltas: Vec<Delta>,
    pub(crate) seen: Seen,
}

pub(crate) async fn ask(kind: ProviderKind, request: &ModelRequest, reply: Reply) -> Asked {
    let provider = Provider::start().await;
    let model = provider.model(kind);
    let mut deltas = Vec::new();
    let turn = tokio::select! {
        turn = model.turn(request, &mut deltas) => turn,
        _ = provider.answer(&reply) => unreachable!(),
    };
    Asked { turn, deltas, seen: provider.seen() }
}

pub(crate) fn request() -> ModelRequest {
    ModelRequest {
        model: "acme/m-1".parse().unwrap(),
        system: Some("Be brief.".into()),
        messages: vec![Message::User { text: PROMPT.into() }],
        tools: Vec::new(),
        response_schema: None,
        max_output_tokens: 500,
        temperature: Some(0.5),
        seed: None,
        idempotency_key: "effect-1".into(),
        key: None,
        call_prefix: "inv-0".into(),
        run: None,
    }
}

/// The second step of a conversation: a tool was called, and this is what it said.
pub(crate) fn with_tools() -> ModelRequest {
    let call = WantedCall {
        id: "run:inv-0-0".into(),
        provider_id: Some("theirs_1".into()),
        // Not as providers want it, like a name that a model made up.
        name: "mcp:files.read".into(),
        arguments: json!({ "path": "a" }).as_object().cloned().unwrap(),
        signatures: Vec::new(),
    };
    let result =
        ToolReply { call_id: call.id.clone(), name: call.name.clone(), content: "contents".into() };
    let mut request = request();
    request.messages.push(Message::Assistant { text: String::new(), calls: vec![call] });
    request.messages.push(Message::Tool { result });
    request.tools = vec![ToolSpec {
        name: "mcp_files_read".into(),
        description: "Reads a file.".into(),
        parameters: Arc::new(json!({
            "type": "object", "properties": { "path": { "type": "string" } }
        })),
    }];
    request.call_prefix = "inv-1".into();
    request
}

pub(crate) fn with_schema() -> ModelRequest {
    let schema = json!({ "type": "object", "required": ["title"], "properties": {
        "title": { "type": "string", "minLength": 1 }, "note": { "type": "string" } } });
    ModelRequest { response_schema: Some(Arc::new(schema)), ..request() }
}

/// Whether strict modes got what they can hold of that schema, in whatever order.
pub(crate) fn is_reduced(found: &Value) -> bool {
    let mut found = found.clone();
    let required = found["required"].as_array_mut().unwrap();
    required.sort_by_key(|name| name.as_str().map(str::to_owned));
    found
        == json!({ "type": "object", "additionalProperties": false, "required": ["note", "title"],
        "properties": {
            "title": { "type": "string" },
            "note": { "anyOf": [{ "type": "string" }, { "type": "null" }] } } })
}

pub(crate) fn text(asked: &Asked) -> String {
    let texts = asked.deltas.iter().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        Delta::Thinking(_) => None,
    });
    texts.collect()
}

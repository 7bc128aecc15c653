//! One Chromium without a screen, driven over WebDriver. Whatever it asks for, it waits until the page has it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Reached only when a page does not come to what a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(30);
/// The name under which WebDriver hands out elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ESCAPE: &str = "\u{e00c}";

#[derive(Debug)]
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    http: reqwest::Client,
    _profile: TempDir,
}

/// None, with a line that says so, where the browser is missing and not required.
pub(crate) fn installed() -> Option<(PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| {
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|place| place.exists())
    };
    let found = find("chromedriver").zip(find("chromium"));
    if found.is_none() {
        let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|part| part.trim() == "browser");
        assert!(!is_required, "chromium and chromedriver are required and not there");
        // Past the capture of test output: a skipped test must be seen.
        let told =
            writeln!(std::io::stderr(), "skipped: chromium or chromedriver is not installed");
        told.expect("standard error is open");
    }
    found
}

impl Browser {
    pub(crate) async fn start(programs: &(PathBuf, PathBuf)) -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let (driver, port) = start_driver(&programs.0, profile.path())?;
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        let mut browser = Self { driver, port, session: String::new(), http, _profile: profile };
        let options = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": { "binary": programs.1, "args": arguments(browser._profile.path()) },
        } } });
        let made = browser.send("POST", "/session", Some(options)).await?;
        browser.session = made["sessionId"].as_str().context("a session")?.to_owned();
        Ok(browser)
    }

    pub(crate) async fn open(&self, url: &str) -> Result<()> {
        self.ask("POST", "/url", json!({ "url": url })).await?;
        // The driver may answer while the rest of a long page is still on its way.
        self.until("document.readyState === 'complete'").await
    }

    pub(crate) async fn url(&self) -> Result<String> {
        let url = self.ask("GET", "/url", Value::Null).await?;
        Ok(url.as_str().unwrap_or_default().to_owned())
    }

    /// What the text of a function comes to in the page.
    pub(crate) async fn eval(&self, script: &str) -> Result<Value> {
        self.ask("POST", "/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Waits until an expression is true in the page.
    pub(crate) async fn until(&self, expression: &str) -> Result<()> {
        let script = format!("return Boolean({expression});");
        let deadline = Instant::now() + PATIENCE;
        loop {
            // A page that is being left cannot answer.
            if matches!(self.eval(&script).await, Ok(Value::Bool(true))) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let page = self.eval("return document.body.innerText").await;
                bail!("never true: {expression}\non {:?}: {page:?}", self.url().await);
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Waits until the page shows a text.
    pub(crate) async fn shows(&self, text: &str) -> Result<()> {
        self.until(&format!("document.body?.innerText.includes({})", json!(text))).await
    }

    pub(crate) async fn count(&self, css: &str) -> Result<u64> {
        let script = format!("return document.querySelectorAll({}).length", json!(css));
        self.eval(&script).await?.as_u64().context("a count")
    }

    /// Clicks as a person does: on something that is there, in view and in front.
    pub(crate) async fn click(&self, css: &str) -> Result<()> {
        self.act(css, "click", json!({})).await
    }

    /// Clicks the first link, button or line to open that says this.
    pub(crate) async fn press(&self, words: &str) -> Result<()> {
        let path = format!(
            "//*[self::a or self::button or self::summary][normalize-space()={}]",
            json!(words)
        );
        self.act(&path, "click", json!({})).await
    }

    /// Types into a field, over what stands there.
    pub(crate) async fn fill(&self, css: &str, text: &str) -> Result<()> {
        self.act(css, "clear", json!({})).await?;
        self.act(css, "value", json!({ "text": text })).await
    }

    pub(crate) async fn choose(&self, css: &str, words: &str) -> Result<()> {
        let quoted = json!(css);
        self.find(css).await?;
        let script = format!(
            "const field = document.querySelector({quoted}); const found = [...field.options].find((option) => option.text === {}); \
             if (found) field.value = found.value; return Boolean(found);",
            json!(words)
        );
        ensure!(self.eval(&script).await? == json!(true), "{css} does not offer {words}");
        Ok(())
    }

    /// Keys, wherever the page listens.
    pub(crate) async fn keys(&self, text: &str) -> Result<()> {
        let signs = text.chars().map(String::from);
        let strokes = signs.flat_map(|sign| {
            [json!({ "type": "keyDown", "value": sign }), json!({ "type": "keyUp", "value": sign })]
        });
        let strokes: Vec<Value> = strokes.collect();
        let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": strokes }] });
        self.ask("POST", "/actions", actions).await.map(drop)
    }

    /// Says yes to what the page asks before it does something.
    pub(crate) async fn confirm(&self) -> Result<()> {
        self.ask("POST", "/alert/accept", json!({})).await.map(drop)
    }

    /// Opens another tab and goes there; answers how to come back.
    pub(crate) async fn tab(&self) -> Result<Tab> {
        let before = self.ask("GET", "/window", Value::Null).await?;
        let made = self.ask("POST", "/window/new", json!({ "type": "tab" })).await?;
        let tab = Tab { first: before, second: made["handle"].clone() };
        self.switch(&tab.second).await?;
        Ok(tab)
    }

    pub(crate) async fn switch(&self, handle: &Value) -> Result<()> {
        self.ask("POST", "/window", json!({ "handle": handle })).await.map(drop)
    }

    /// A command of DevTools, for what WebDriver has no word.
    pub(crate) async fn devtools(&self, command: &str, parameters: Value) -> Result<Value> {
        self.ask("POST", "/goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    /// What the browser wrote down since it was last asked: `browser` or `performance`.
    pub(crate) async fn log(&self, kind: &str) -> Result<Vec<Value>> {
        let entries = self.ask("POST", "/se/log", json!({ "type": kind })).await?;
        Ok(entries.as_array().cloned().unwrap_or_default())
    }

    async fn act(&self, place: &str, verb: &str, body: Value) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let element = self.find(place).await?;
            let done = self.ask("POST", &format!("/element/{element}/{verb}"), body.clone()).await;
            match done {
                Ok(_) => return Ok(()),
                // A live page may put a newer piece there in between.
                Err(_) if Instant::now() < deadline => tokio::time::sleep(EVERY).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the page has it. A path begins with slashes; everything else is CSS.
    pub(crate) async fn find(&self, place: &str) -> Result<String> {
        let using = if place.starts_with("//") { "xpath" } else { "css selector" };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let wanted = json!({ "using": using, "value": place });
            if let Ok(found) = self.ask("POST", "/element", wanted).await {
                return Ok(found[ELEMENT].as_str().context("an element")?.to_owned());
            }
            if Instant::now() > deadline {
                let page = self.eval("return document.body.innerText").await;
                bail!("no {place} on {:?}: {page:?}", self.url().await);
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Result<Value> {
        let path = format!("/session/{}{path}", self.session);
        self.send(method, &path, Some(body).filter(|body| !body.is_null())).await
    }

    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value> {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let mut request = self.http.request(method.parse()?, url);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer: Value = request.send().await?.json().await?;
        match answer["value"]["error"].as_str() {
            Some(error) => bail!("{path}: {error}: {}", answer["value"]["message"]),
            None => Ok(answer["value"].clone()),
        }
    }
}

/// Two tabs of one browser.
#[derive(Debug)]
pub(crate) struct Tab {
    pub(crate) first: Value,
    pub(crate) second: Value,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser when the session ends; killed before that it would leave it behind.
        if let Ok(mut socket) = TcpStream::connect(("127.0.0.1", self.port)) {
            let (session, port) = (&self.session, self.port);
            let _ = socket.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = write!(
                socket,
                "DELETE /session/{session} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
            );
            let _ = socket.read(&mut [0; 64]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn start_driver(program: &Path, home: &Path) -> Result<(Child, u16)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut driver = Command::new(program)
        .arg("--port=0")
        .env_clear()
        .env("PATH", path)
        .env("HOME", home)
        .env("TMPDIR", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("chromedriver does not start")?;
    let output = driver.stdout.take().context("standard output")?;
    let mut lines = BufReader::new(output).lines();
    let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let (_, rest) = line.split_once("successfully on port ")?;
        rest.trim_end_matches('.').parse().ok()
    });
    // Read on, so that the driver never waits for somebody to read.
    std::thread::spawn(move || lines.count());
    Ok((driver, port.context("chromedriver named no port")?))
}

fn arguments(profile: &Path) -> Vec<String> {
    let fixed = [
        "--headless=new",
        // Whoever runs the tests may be root, in a container with little shared memory and without a graphics card.
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-proxy-server",
        "--hide-scrollbars",
        // Nobody outside is reached, whatever a page tries.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--window-size=1440,900",
    ];
    let own = format!("--user-data-dir={}", profile.join("profile").display());
    fixed.into_iter().map(str::to_owned).chain([own]).collect()
}

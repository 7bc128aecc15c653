//! `[mcp.servers.NAME]`: whose tools agents may be given beside the built-in ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::Spanned;

use callboard_backends::{McpServer, McpWay};
use callboard_server::is_scope;

use super::source::{Source, Value};
use crate::exit::CommandError;

/// The longest name that leaves room for a tool's in what model providers accept.
const LONGEST_NAME: usize = 32;
const KEYS: [&str; 7] = ["command", "env", "url", "headers", "required_scopes", "read", "write"];

/// A section as it is being read.
#[derive(Default)]
struct Section {
    command: Vec<String>,
    env: Option<BTreeMap<String, String>>,
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    required_scopes: Vec<String>,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

impl Source<'_> {
    pub(super) fn mcp(&self, value: &Value<'_>) -> Result<Vec<McpServer>, CommandError> {
        let table = self.section(value, "mcp")?;
        let mut servers = Vec::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if name != "servers" {
                let path = format!("mcp.{name}");
                return Err(self.unknown(key.span().start, &path, name, &["servers"]));
            }
            for (key, value) in self.section(value, "mcp.servers")? {
                servers.push(self.server(key, value)?);
            }
        }
        Ok(servers)
    }

    fn server(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Value<'_>,
    ) -> Result<McpServer, CommandError> {
        let name = key.get_ref().to_string();
        let path = format!("mcp.servers.{name}");
        let place = self.place(key.span().start);
        let accepted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !(1..=LONGEST_NAME).contains(&name.len()) || !name.chars().all(accepted) {
            let what = format!("{place}: {name:?} is not a name for an MCP server");
            return Err(CommandError::usage(what)
                .hint(format!("up to {LONGEST_NAME} letters, digits, _ and -")));
        }
        let mut section = Section::default();
        for (key, value) in self.section(value, &path)? {
            let field = key.get_ref().as_ref();
            let path = format!("{path}.{field}");
            match field {
                "command" => section.command = self.texts(value, &path)?,
                "env" => section.env = Some(self.pairs(value, &path)?),
                "url" => section.url = Some(self.text(value, &path)?),
                "headers" => section.headers = Some(self.pairs(value, &path)?),
                "read" => section.read = self.paths(value, &path)?,
                "write" => section.write = self.paths(value, &path)?,
                "required_scopes" => section.required_scopes = self.texts(value, &path)?,
                other => return Err(self.unknown(key.span().start, &path, other, &KEYS)),
            }
        }
        section.finish(name).map_err(|why| CommandError::usage(format!("{place}: {path} {why}")))
    }

    fn pairs(
        &self,
        value: &Value<'_>,
        path: &str,
    ) -> Result<BTreeMap<String, String>, CommandError> {
        let table = self.section(value, path)?;
        let pair = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Value<'_>)| {
            let name = key.get_ref().to_string();
            let text = self.text(value, &format!("{path}.{name}"))?;
            Ok((name, text))
        };
        table.iter().map(pair).collect()
    }
}

impl Section {
    /// What is said of a section that does not fit together repeats none of its values.
    fn finish(self, name: String) -> Result<McpServer, String> {
        if let Some(scope) = self.required_scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(format!("requires {scope:?}, which no key can hold"));
        }
        let mut command = self.command.into_iter();
        let way = match (command.next(), self.url) {
            (Some(program), None) if self.headers.is_none() => McpWay::Command {
                program,
                arguments: command.collect(),
                environment: self.env.unwrap_or_default(),
            },
            (None, Some(url)) if self.env.is_none() => {
                if !(url.starts_with("https://") || url.starts_with("http://")) {
                    return Err("has a url that does not begin with https://".to_owned());
                }
                McpWay::Url { url, headers: self.headers.unwrap_or_default() }
            }
            (Some(_), Some(_)) => return Err("has both a command and a url".to_owned()),
            (None, None) => return Err("needs a command or a url".to_owned()),
            (Some(_), None) => return Err("has headers, which go with a url".to_owned()),
            (None, Some(_)) => return Err("has env, which goes with a command".to_owned()),
        };
        let Self { required_scopes, read, write, .. } = self;
        Ok(McpServer { name, way, required_scopes, read, write })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(text: &str) -> Result<Vec<McpServer>, String> {
        Config::parse("c.toml", text).map(|config| config.mcp).map_err(|error| error.what)
    }

    #[test]
    fn programs_and_addresses_are_read() {
        let text = "[mcp.servers.github]\ncommand = [\"npx\", \"-y\", \"server\"]\nenv = { TOKEN = \"t\" }\nread = [\"/srv/docs\"]\n
            [mcp.servers.far]\nurl = \"https://mcp.example/mcp\"\nheaders = { x-token = \"t\" }
            required_scopes = [\"tools:far\"]\n";
        let pair = |name: &str| BTreeMap::from([(name.to_owned(), "t".to_owned())]);
        let far = McpServer {
            name: "far".to_owned(),
            way: McpWay::Url {
                url: "https://mcp.example/mcp".to_owned(),
                headers: pair("x-token"),
            },
            required_scopes: vec!["tools:far".to_owned()],
            read: Vec::new(),
            write: Vec::new(),
        };
        let github = McpServer {
            name: "github".to_owned(),
            way: McpWay::Command {
                program: "npx".to_owned(),
                arguments: vec!["-y".to_owned(), "server".to_owned()],
                environment: pair("TOKEN"),
            },
            required_scopes: Vec::new(),
            read: vec!["/srv/docs".into()],
            write: Vec::new(),
        };
        let mut servers = read(text).unwrap();
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(servers, [far, github]);
        assert_eq!(read(""), Ok(Vec::new()));
    }

    #[test]
    fn a_wrong_entry_is_named_with_its_line() {
        for (text, expected) in [
            ("[mcp.servers.a]\n", "c.toml:1: mcp.servers.a needs a command or a url"),
            (
                "[mcp.servers.a]\ncommand = \"npx\"",
                "c.toml:2: mcp.servers.a.command must be a list of texts, not a string",
            ),
            ("[mcp.servers.a]\ncommand = []", "c.toml:1: mcp.servers.a needs a command or a url"),
            (
                "[mcp.servers.a]\ncommand = [\"x\"]\nurl = \"https://x\"",
                "c.toml:1: mcp.servers.a has both a command and a url",
            ),
            (
                "[mcp.servers.a]\nurl = \"ftp://x\"",
                "c.toml:1: mcp.servers.a has a url that does not begin with https://",
            ),
            (
                "[mcp.servers.a]\nurl = \"https://x\"\nenv = {}",
                "c.toml:1: mcp.servers.a has env, which goes with a command",
            ),
            ("[mcp.servers.a]\ncomand = []", "c.toml:2: unknown key mcp.servers.a.comand"),
            (
                "[mcp.servers.a]\ncommand = [\"x\"]\nenv = { A = 1 }",
                "c.toml:3: mcp.servers.a.env.A must be text, not an integer",
            ),
            (
                "[mcp.servers.\"a b\"]\ncommand = [\"x\"]",
                "c.toml:1: \"a b\" is not a name for an MCP server",
            ),
            (
                "[mcp.servers.a]\ncommand = [\"x\"]\nrequired_scopes = [\"mail\"]",
                "c.toml:1: mcp.servers.a requires \"mail\", which no key can hold",
            ),
            ("[mcp.server.a]\ncommand = [\"x\"]", "c.toml:1: unknown key mcp.server"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
    }
}

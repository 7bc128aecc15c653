//! The coding agents that a host knows, under the names that models have.

use std::collections::{BTreeMap, BTreeSet};

use callboard_agent_api::backends::acp::AcpProgram;
use callboard_agent_api::{
    AgentBackend, AgentKind, CliBackend, CliConfig, Grant, backends, capability,
};

/// One coding agent.
#[derive(Debug, Clone, Copy)]
pub struct CodingKind {
    /// What comes after `cli/`.
    pub name: &'static str,
    /// The program's usual name.
    pub program: &'static str,
    /// The variable that it reads its key from, where there is one.
    pub(super) key: Option<&'static str>,
    /// Where its sessions lie below its home, where they are files of text that can be moved.
    pub(super) sessions: &'static [&'static str],
    make: fn(CliConfig) -> CliBackend,
}

/// In the order in which people are told of them.
pub const CODING_KINDS: [CodingKind; 5] = [
    CodingKind {
        name: "claude-code",
        program: "claude",
        key: Some("ANTHROPIC_API_KEY"),
        sessions: &[".claude/projects"],
        make: backends::claude_code::backend,
    },
    CodingKind {
        name: "codex",
        program: "codex",
        key: Some(CODEX_KEY),
        sessions: &[],
        make: backends::codex::backend,
    },
    CodingKind {
        name: "gemini-cli",
        program: "gemini",
        key: Some("GEMINI_API_KEY"),
        sessions: &[],
        make: backends::gemini_cli::backend,
    },
    CodingKind {
        name: "opencode",
        program: "opencode",
        key: None,
        sessions: &[],
        make: backends::opencode::backend,
    },
    CodingKind {
        name: "aider",
        program: "aider",
        key: None,
        sessions: &[],
        make: backends::aider::backend,
    },
];

/// Codex without a login takes its key from here, and from nowhere else.
const CODEX_KEY: &str = "CODEX_API_KEY";

/// What a coding agent can do, for people to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindFacts {
    pub name: &'static str,
    pub program: &'static str,
    pub capabilities: BTreeSet<String>,
    /// What must be on an allowlist for it to be started at all, in the allowlist's words.
    pub needs: Vec<String>,
}

impl KindFacts {
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.contains(capability)
    }

    pub fn is_live(&self) -> bool {
        self.has(capability::EVENTS_LIVE)
    }

    pub fn resumes(&self) -> bool {
        self.has(capability::SESSION_RESUME)
    }

    pub fn forks(&self) -> bool {
        self.has(capability::SESSION_FORK)
    }

    /// Whether its sessions can be named before they begin.
    pub fn names_sessions(&self) -> bool {
        self.capabilities.iter().any(|id| id.ends_with(".session.new_id.v1"))
    }

    pub fn takes_a_model(&self) -> bool {
        self.has(capability::MODEL)
    }
}

impl CodingKind {
    pub(super) fn backend(&self, config: CliConfig) -> CliBackend {
        (self.make)(config)
    }

    /// Says what it can do, without starting it.
    pub fn facts(&self) -> KindFacts {
        let backend = self.backend(CliConfig::default());
        KindFacts {
            name: self.name,
            program: self.program,
            capabilities: backend.capabilities().ids,
            needs: self.needs(&backend),
        }
    }

    /// The grants without which it is refused, whatever else is granted.
    fn needs(&self, backend: &CliBackend) -> Vec<String> {
        let without = |left_out: Grant| -> BTreeSet<Grant> {
            Grant::ALL.into_iter().filter(|grant| *grant != left_out).collect()
        };
        let is_needed = |grant: &Grant| backend.check_grants(&without(*grant)).is_err();
        Grant::ALL.into_iter().filter(is_needed).map(|grant| self.allowlisted(grant)).collect()
    }

    fn allowlisted(&self, grant: Grant) -> String {
        match grant {
            Grant::ReadFiles => "openwop:core.files.read".to_owned(),
            Grant::WriteFiles => "openwop:core.files.write".to_owned(),
            Grant::FetchWeb => "openwop:core.openwop.http.fetch".to_owned(),
            _ => format!("cli:{}.shell", self.name),
        }
    }

    /// What it is told in the words that it knows, where the host's own are others.
    pub(super) fn own_variables(
        &self,
        host: &BTreeMap<String, String>,
        is_private: bool,
    ) -> BTreeMap<String, String> {
        let mut own = BTreeMap::new();
        let mut copy = |from: &str, to: &str| {
            if let Some(value) = host.get(from).filter(|_| !host.contains_key(to)) {
                own.insert(to.to_owned(), value.clone());
            }
        };
        match self.name {
            "gemini-cli" => copy("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
            // A home of its own may hold a login, which a key would push aside.
            "codex" if is_private => copy("OPENAI_API_KEY", CODEX_KEY),
            "claude-code" => {
                own.insert("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".to_owned(), "1".to_owned());
            }
            _ => {}
        }
        if let Some(value) = host.get(CODEX_KEY).filter(|_| self.name == "codex") {
            own.insert(CODEX_KEY.to_owned(), value.clone());
        }
        own
    }
}

/// An agent that the operator named, which speaks the Agent Client Protocol. None: it cannot be called so.
pub(super) fn acp(name: &str, command: &[String], config: CliConfig) -> Option<CliBackend> {
    let (program, args) = command.split_first()?;
    let program = AcpProgram {
        kind: AgentKind::new(name.replace('-', "_")).ok()?,
        program: program.clone(),
        args: args.to_vec(),
        variables: Vec::new(),
    };
    Some(backends::acp::backend(program, config))
}

pub(super) fn find(name: &str) -> Option<&'static CodingKind> {
    CODING_KINDS.iter().find(|kind| kind.name == name)
}

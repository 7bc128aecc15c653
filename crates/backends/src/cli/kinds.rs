//! The coding agents that a host knows, under the names that models have.

use std::collections::{BTreeMap, BTreeSet};

use callboard_agent_api::backends::acp::AcpProgram;
use callboard_agent_api::{
    AgentBackend, AgentKind, CliBackend, CliConfig, Grant, Launcher, backends, capability,
};

use super::{CliSettings, grants};

/// One coding agent.
#[derive(Debug, Clone, Copy)]
pub struct CodingKind {
    /// What comes after `cli/`.
    pub name: &'static str,
    /// The program's usual name.
    pub program: &'static str,
    /// The variable that it reads its key from, where there is one.
    pub(super) key: Option<&'static str>,
    /// Where its sessions lie below its home, where they can be moved.
    pub(super) sessions: &'static [&'static str],
    make: fn(CliConfig) -> CliBackend,
    /// How it is made to ask before it leaves its sandbox, where it can.
    asking: Option<fn(CliConfig) -> CliBackend>,
    walls: Walls,
}

/// Who locks in what an agent starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walls {
    Host,
    /// It mounts folders for each command, which is impossible inside the sandbox.
    Own,
}

/// In the order in which they are listed for people.
pub const CODING_KINDS: [CodingKind; 5] = [
    CodingKind {
        name: "claude-code",
        program: "claude",
        key: Some("ANTHROPIC_API_KEY"),
        sessions: &[".claude/projects"],
        make: backends::claude_code::backend,
        asking: None,
        walls: Walls::Host,
    },
    CodingKind {
        name: "codex",
        program: "codex",
        key: Some(CODEX_KEY),
        sessions: &[".codex/sessions"],
        make: backends::codex::backend,
        asking: Some(backends::codex::app_server),
        walls: Walls::Own,
    },
    CodingKind {
        name: "gemini-cli",
        program: "gemini",
        key: Some("GEMINI_API_KEY"),
        // Each folder that it has worked in has a name of its own.
        sessions: &[".gemini/tmp/*/chats"],
        make: backends::gemini_cli::backend,
        asking: None,
        walls: Walls::Host,
    },
    CodingKind {
        name: "opencode",
        program: "opencode",
        key: None,
        // What is not yet in its database lies beside it.
        sessions: &[".local/share/opencode/opencode.db", ".local/share/opencode/opencode.db-wal"],
        make: backends::opencode::backend,
        asking: None,
        walls: Walls::Host,
    },
    CodingKind {
        name: "aider",
        program: "aider",
        key: None,
        sessions: &[],
        make: backends::aider::backend,
        asking: None,
        walls: Walls::Host,
    },
];

/// Codex without a login takes its key from here, and from nowhere else.
const CODEX_KEY: &str = "CODEX_API_KEY";

/// What a coding agent can do, for people to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindFacts {
    pub name: String,
    pub program: String,
    pub capabilities: BTreeSet<String>,
    /// What must be on an allowlist for it to be started at all, in the allowlist's words.
    pub needs: Vec<String>,
}

impl CliSettings {
    /// What every coding agent can do, those of the operator's own after the others. Nothing is started.
    pub fn kinds(&self) -> Vec<KindFacts> {
        let known = CODING_KINDS.iter().map(|kind| {
            let ours = self.agents.get(kind.name);
            let config = CliConfig {
                program: ours.and_then(|ours| ours.program.clone()),
                ..CliConfig::default()
            };
            let backend = kind.backend(config, ours.is_some_and(|ours| ours.approvals));
            KindFacts::of(kind.name, &backend)
        });
        let own = self.agents.iter().filter_map(|(name, ours)| {
            let backend = acp(name, ours.acp.as_deref()?, CliConfig::default())?;
            Some(KindFacts::of(name, &backend))
        });
        known.chain(own).collect()
    }
}

impl KindFacts {
    fn of(name: &str, backend: &CliBackend) -> Self {
        let without = |left_out: Grant| -> BTreeSet<Grant> {
            Grant::ALL.into_iter().filter(|grant| *grant != left_out).collect()
        };
        // Refused without it, whatever else is granted.
        let is_needed = |grant: &Grant| backend.check_grants(&without(*grant)).is_err();
        let needs = Grant::ALL.into_iter().filter(is_needed);
        Self {
            name: name.to_owned(),
            program: backend.program_path().to_string_lossy().into_owned(),
            capabilities: backend.capabilities().ids,
            needs: needs.filter_map(|grant| grants::name(name, grant)).collect(),
        }
    }

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
    pub(super) fn backend(&self, mut config: CliConfig, approvals: bool) -> CliBackend {
        if self.walls == Walls::Own {
            config.launcher = config.launcher.map(Launcher::with_own_walls);
        }
        match self.asking.filter(|_| approvals) {
            Some(asking) => asking(config),
            None => (self.make)(config),
        }
    }

    /// Whether it can be made to ask before it leaves its sandbox.
    pub fn can_ask(&self) -> bool {
        self.asking.is_some()
    }

    /// Variables under the program's own names, where they differ from the host's.
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

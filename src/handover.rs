//! Hides secrets of the host from other processes: they are removed from the command line and the environment before
//! anything else happens, since both can be read for as long as a process lives.
//!
//! A program cannot rewrite the two, but it can execute itself again under the same process id: with arguments and
//! variables without secrets, and with all of them in an anonymous file as its standard input, which is
//! emptied as soon as it was read. From then on they are in memory only, which no process of the same user may read.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::exit::CommandError;
use crate::settings::read_secret;

/// Says that standard input holds what the process was started with.
const HANDED_OVER: &str = "CALLBOARD_HANDED_OVER";
/// Flags whose value is a secret, or may hold one.
const SECRET_FLAGS: [&str; 2] = ["--api-key", "--database-url"];
/// Our own variables that hold one. The others are read where they stand.
const SECRET_VARIABLES: [&str; 5] = [
    "CALLBOARD_API_KEYS",
    "CALLBOARD_API_KEY",
    "CALLBOARD_SEAL_KEY",
    "CALLBOARD_DATABASE_URL",
    "CALLBOARD_OIDC_CLIENT_SECRET",
];
/// Names that other tools use for what may hold a secret.
const OTHERS_SECRETS: [&str; 3] =
    ["DATABASE_URL", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];
/// What libraries of this process read from the environment themselves. Whatever is not listed may be a secret.
const STAYS: [&str; 30] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TZ",
    "TZDIR",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NOTIFY_SOCKET",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LLVM_PROFILE_FILE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];
const STAYS_WITH: [&str; 6] = ["CALLBOARD_", "LC_", "LD_", "RUST_", "MIMALLOC_", "XDG_"];

type Variables = BTreeMap<OsString, OsString>;

/// The environment as it was at the start, where it was handed over.
static VARIABLES: OnceLock<Variables> = OnceLock::new();
/// What stands in the files that variables with `_FILE` after their name give.
static FROM_FILES: OnceLock<BTreeMap<&'static str, String>> = OnceLock::new();

/// The arguments of this process, after a host has put its secrets away.
pub(crate) fn arguments() -> Result<Vec<OsString>, CommandError> {
    let given: Vec<OsString> = std::env::args_os().collect();
    if given.get(1).is_none_or(|command| command != "serve") {
        return Ok(given);
    }
    let arguments = if std::env::var_os(HANDED_OVER).is_some() {
        let (arguments, variables) = take().map_err(|error| {
            CommandError::failed(format!("what the host was started with is lost: {error}"))
                .hint(format!("leave {HANDED_OVER} out of the environment"))
        })?;
        // Nobody has asked for a variable yet.
        let _ = VARIABLES.set(variables);
        arguments
    } else {
        // Comes back only where it cannot be done, on a machine without /proc for instance; `lock` is what is left then.
        hand_over(&given);
        given
    };
    Ok(arguments)
}

/// From here on only the superuser can read this process's memory, its environment or its open files. Returns whether
/// the kernel supports that.
pub(crate) fn lock() -> bool {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok()
}

/// Reads the files that hold secrets instead of the environment: every variable with a secret has a twin that ends in
/// `_FILE`. Keys of providers are read where it is known which of them are used.
pub(crate) fn read_files() -> Result<(), CommandError> {
    let mut read = BTreeMap::new();
    for name in SECRET_VARIABLES.into_iter().chain(OTHERS_SECRETS) {
        let twin = format!("{name}_FILE");
        let is_set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let Some(path) = is_set(&twin) else { continue };
        if is_set(name).is_some() {
            return Err(CommandError::usage(format!("{name} and {twin} are both set"))
                .hint("unset one of them"));
        }
        read.insert(name, read_secret(&twin, path.as_ref())?);
    }
    // A process starts once.
    let _ = FROM_FILES.set(read);
    Ok(())
}

/// Whether this variable names a file with a secret in it.
pub(crate) fn names_secret(name: &str) -> bool {
    let secret = name.strip_suffix("_FILE");
    secret.is_some_and(|name| SECRET_VARIABLES.contains(&name) || OTHERS_SECRETS.contains(&name))
}

/// Whether the file that its twin names said what this variable says.
pub(crate) fn is_from_file(name: &str) -> bool {
    FROM_FILES.get().is_some_and(|files| files.contains_key(name))
}

/// A variable as it was at the start.
pub(crate) fn variable(name: &str) -> Option<String> {
    if let Some(read) = FROM_FILES.get().and_then(|files| files.get(name)) {
        return Some(read.clone());
    }
    match VARIABLES.get() {
        Some(variables) => variables.get(OsStr::new(name))?.to_str().map(str::to_owned),
        None => std::env::var(name).ok(),
    }
}

/// All of them. What is no text is of no use to a program either.
pub(crate) fn variables() -> BTreeMap<String, String> {
    let all = match VARIABLES.get() {
        Some(variables) => variables.clone(),
        None => std::env::vars_os().collect(),
    };
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    all.into_iter().filter_map(text).collect()
}

/// Starts this program in its own place. Returns only if that failed, and nothing has changed then.
fn hand_over(given: &[OsString]) {
    let variables: Variables = std::env::vars_os().collect();
    let started = || -> io::Result<io::Error> {
        let mut file = File::from(memfd_create("callboard", MemfdFlags::CLOEXEC)?);
        file.write_all(&pack(given, &variables))?;
        file.rewind()?;
        let staying = variables.iter().filter(|(name, _)| may_stay(name));
        let mut again = Command::new(std::env::current_exe()?);
        again.args(without_secrets(&given[1..])).env_clear().envs(staying).env(HANDED_OVER, "1");
        if let Some(name) = given.first() {
            again.arg0(name);
        }
        Ok(again.stdin(Stdio::from(file)).exec())
    };
    // Either error means the same: the host goes on as it was started.
    let _ = started();
}

/// Reads the passed secrets, and erases the source.
fn take() -> io::Result<(Vec<OsString>, Variables)> {
    let mut file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut packed = Vec::new();
    file.read_to_end(&mut packed)?;
    file.set_len(0)?;
    unpack(&packed).ok_or_else(|| io::Error::other("it is cut off"))
}

fn may_stay(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_known = STAYS.contains(&name) || STAYS_WITH.iter().any(|start| name.starts_with(start));
    is_known && !SECRET_VARIABLES.contains(&name)
}

/// The command line without secrets, as others may read it. The rest stays as it was typed.
fn without_secrets(arguments: &[OsString]) -> Vec<OsString> {
    let mut left = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let bytes = argument.as_bytes();
        let is_whole = SECRET_FLAGS.iter().any(|flag| bytes == flag.as_bytes());
        let is_joined = SECRET_FLAGS.iter().any(|flag| {
            bytes.strip_prefix(flag.as_bytes()).is_some_and(|value| value.starts_with(b"="))
        });
        if is_whole {
            rest.next();
        } else if !is_joined {
            left.push(argument.clone());
        }
    }
    left
}

/// Neither arguments nor variables can hold the byte that is put between them.
fn pack(arguments: &[OsString], variables: &Variables) -> Vec<u8> {
    let mut packed = format!("{}\0", arguments.len()).into_bytes();
    for argument in arguments {
        packed.extend_from_slice(argument.as_bytes());
        packed.push(0);
    }
    for (name, value) in variables {
        for part in [name.as_bytes(), b"=", value.as_bytes(), b"\0"] {
            packed.extend_from_slice(part);
        }
    }
    packed
}

fn unpack(packed: &[u8]) -> Option<(Vec<OsString>, Variables)> {
    let mut parts = packed.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    let count: usize = str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let arguments: Vec<OsString> =
        parts.by_ref().take(count).map(|part| OsString::from_vec(part.to_vec())).collect();
    let pair = |part: &[u8]| {
        let end = part.iter().position(|byte| *byte == b'=')?;
        let own = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((own(&part[..end]), own(&part[end + 1..])))
    };
    let variables = parts.map(pair).collect::<Option<Variables>>()?;
    (arguments.len() == count).then_some((arguments, variables))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn secrets_leave_the_command_line_and_the_rest_stays() {
        let given = words(
            "serve --api-key a=acme --listen :1 --api-key=b --database-url=postgres://u:p@h --data d",
        );
        assert_eq!(without_secrets(&given), words("serve --listen :1 --data d"));
        assert_eq!(without_secrets(&words("serve --api-key")), words("serve"));
    }

    #[test]
    fn only_variables_that_libraries_read_stay_in_the_environment() {
        for name in ["PATH", "LC_ALL", "RUST_BACKTRACE", "CALLBOARD_LISTEN", "TMPDIR"] {
            assert!(may_stay(OsStr::new(name)), "{name}");
        }
        for name in ["OPENAI_API_KEY", "CALLBOARD_API_KEYS", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD"]
        {
            assert!(!may_stay(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn what_is_handed_over_comes_back() {
        let odd = OsString::from_vec(vec![0xff, b'=', b'\n']);
        let arguments = vec!["callboard".into(), OsString::new(), odd.clone()];
        let variables = Variables::from([
            ("A".into(), "b=c".into()),
            ("EMPTY".into(), OsString::new()),
            ("ODD".into(), odd),
        ]);
        let packed = pack(&arguments, &variables);
        assert_eq!(unpack(&packed), Some((arguments, variables)));
        assert_eq!(unpack(&packed[..packed.len() - 1]), None);
        assert_eq!(unpack(b""), None);
    }
}

//! What was typed, set and written in the file, as one whole that can be served.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use callboard_backends::Reach;
use callboard_engine::RetryPace;
use callboard_server::{Majors, SCOPES, StaticKey, StaticKeyError, TrustedProxies, is_host_name};

use super::{LONGEST_MS, SHORTEST_LEASE_MS, ServeArgs};
use crate::args::environment;
use crate::config::{Config, PUBLIC_URL, TlsFiles, read_origin};
use crate::exit::CommandError;
use crate::process::LogFormat;
use crate::settings::{
    Lookup, Parse, Setting, log_format, log_level, paths, plain, port, read_secret, switch, whole,
    words,
};
use crate::wire::{Again, Settings};

const DEFAULT_PORT: u16 = 8787;
const DEFAULT_HEARTBEAT_MS: u64 = 10_000;

/// Everything that a start needs to know, with where each value came from.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) settings: Settings,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    pub(crate) lookup: Lookup,
}

pub(crate) fn settle(args: ServeArgs) -> Result<Settled, CommandError> {
    let again = args.clone();
    let mut settled = settle_once(args)?;
    settled.settings.again = Some(Again::new(move || {
        let Settled { settings, lookup, .. } = settle_once(again.clone())?;
        let mut shown = lookup.shown;
        shown.extend(settings.config.effective(settings.variable)?);
        Ok((settings, shown))
    }));
    Ok(settled)
}

fn settle_once(args: ServeArgs) -> Result<Settled, CommandError> {
    let named = args.config.or_else(|| environment("CALLBOARD_CONFIG").map(PathBuf::from));
    let config = Config::load(named.as_deref())?;
    let mut lookup = Lookup::new(&config);
    let file = &config.server;
    let listen = listen(&mut lookup, args.listen, file.listen.clone())?;
    let hosts = Some(args.hosts).filter(|hosts| !hosts.is_empty());
    let hosts = Setting {
        key: "server.hosts",
        flag: ("--host", hosts),
        variables: &[("CALLBOARD_HOSTS", words)],
        file: file.hosts.clone(),
        default: Vec::new(),
    };
    let hosts = checked_hosts(lookup.find(hosts, shown)?)?;
    let data = lookup.data(args.data, &config)?;
    let database_url = lookup.database_url(args.database_url, &config)?;
    let workflows = (args.workflows, file.workflows.clone());
    let workflows = folders(&mut lookup, "server.workflows", WORKFLOWS, workflows)?;
    let packs = folders(&mut lookup, "server.packs", PACKS, (args.packs, file.packs.clone()))?;
    let front = front(&mut lookup, &config)?;
    let given = args.api_keys.iter().map(|key| key.expose().to_owned()).collect();
    let api_keys = api_keys(&mut lookup, given, &config)?;
    let given = [args.test_seams, args.without_v1, args.allow_private_egress];
    let [test_seams, without_v1, allow_private_egress] = switches(&mut lookup, given, &config)?;
    let webhook_retry = Setting {
        key: "server.webhook_retry_ms",
        flag: ("--webhook-retry-ms", args.webhook_retry_ms),
        variables: &[("CALLBOARD_WEBHOOK_RETRY_MS", whole::<1, LONGEST_MS>)],
        file: file.webhook_retry_ms,
        default: 1_000,
    };
    let webhook_retry = Duration::from_millis(lookup.find(webhook_retry, shown)?);
    let (lease, heartbeat) = claims(&mut lookup, (args.lease, args.heartbeat), &config)?;
    let (log, log_format) = logging(&mut lookup, (args.log, args.log_format), &config)?;
    let settings = Settings {
        listen,
        hosts,
        public_url: front.public_url,
        proxies: front.proxies,
        tls: front.tls,
        data,
        database_url,
        workflows,
        packs,
        api_keys,
        test_seams,
        majors: if without_v1 { Majors::Second } else { Majors::Both },
        webhook_pace: RetryPace::of_first_wait(webhook_retry),
        variable: environment,
        reach: if allow_private_egress { Reach::Anywhere } else { Reach::Public },
        lease,
        heartbeat,
        config,
        again: None,
    };
    Ok(Settled { settings, log, log_format, lookup })
}

/// A flag and the variable that says the same.
type Names = (&'static str, &'static str);

const WORKFLOWS: Names = ("--workflows", "CALLBOARD_WORKFLOWS");
const PACKS: Names = ("--packs", "CALLBOARD_PACKS");

/// A flag that is given replaces what is written elsewhere; it does not add to it.
fn folders(
    lookup: &mut Lookup,
    key: &'static str,
    (flag, variable): Names,
    (given, file): (Vec<PathBuf>, Option<Vec<PathBuf>>),
) -> Result<Vec<PathBuf>, CommandError> {
    let given = Some(given).filter(|folders| !folders.is_empty());
    let variables: &[(_, Parse<_>)] = &[(variable, paths)];
    let setting = Setting { key, flag: (flag, given), variables, file, default: Vec::new() };
    lookup.find(setting, shown)
}

/// What is on or off, in the order of the names.
fn switches(
    lookup: &mut Lookup,
    given: [bool; 3],
    config: &Config,
) -> Result<[bool; 3], CommandError> {
    let file = &config.server;
    let names = [
        ("server.test_seams", "--test-seams", "CALLBOARD_TEST_SEAMS", file.test_seams),
        ("server.without_v1", "--without-v1", "CALLBOARD_WITHOUT_V1", file.without_v1),
        (
            "server.allow_private_egress",
            "--allow-private-egress",
            "CALLBOARD_ALLOW_PRIVATE_EGRESS",
            file.allow_private_egress,
        ),
    ];
    let mut switched = given;
    for ((key, flag, variable, file), is_on) in names.into_iter().zip(&mut switched) {
        let variables: &[(_, Parse<_>)] = &[(variable, switch)];
        let flag = (flag, is_on.then_some(true));
        *is_on = lookup.find(Setting { key, flag, variables, file, default: false }, shown)?;
    }
    Ok(switched)
}

fn shown<T: Serialize>(value: &T) -> Value {
    json!(value)
}

/// An address without a port gets the one that the platform names, or ours.
fn listen(
    lookup: &mut Lookup,
    given: Option<String>,
    file: Option<String>,
) -> Result<String, CommandError> {
    let setting = Setting {
        key: "server.listen",
        flag: ("--listen", given),
        variables: &[("CALLBOARD_LISTEN", plain), ("PORT", port)],
        file,
        default: format!("127.0.0.1:{DEFAULT_PORT}"),
    };
    let address = lookup.find(setting, shown)?;
    let Ok(ip) = address.parse::<IpAddr>() else { return Ok(address) };
    let port = match environment("PORT") {
        Some(text) => text
            .trim()
            .parse()
            .map_err(|_| CommandError::usage("PORT must be a port, 0 to 65535"))?,
        None => DEFAULT_PORT,
    };
    lookup.overruled.retain(|(name, _)| *name != "PORT");
    let whole = std::net::SocketAddr::new(ip, port).to_string();
    if let Some(last) = lookup.shown.last_mut() {
        last.value = json!(whole);
    }
    Ok(whole)
}

/// How long a claim lasts, and how often it is renewed.
fn claims(
    lookup: &mut Lookup,
    (lease, heartbeat): (Option<u64>, Option<u64>),
    config: &Config,
) -> Result<(Duration, Duration), CommandError> {
    let lease = Setting {
        key: "server.lease_ms",
        flag: ("--lease", lease),
        variables: &[("CALLBOARD_LEASE_MS", whole::<SHORTEST_LEASE_MS, LONGEST_MS>)],
        file: config.server.lease_ms,
        default: 30_000,
    };
    let lease = lookup.find(lease, shown)?;
    let heartbeat = Setting {
        key: "server.heartbeat_ms",
        flag: ("--heartbeat", heartbeat),
        variables: &[("CALLBOARD_HEARTBEAT_MS", whole::<1, LONGEST_MS>)],
        file: config.server.heartbeat_ms,
        default: DEFAULT_HEARTBEAT_MS.min(lease / 3),
    };
    let heartbeat = lookup.find(heartbeat, shown)?;
    if heartbeat == 0 || heartbeat > lease / 2 {
        let what = format!("--heartbeat {heartbeat} does not go with --lease {lease}");
        return Err(CommandError::usage(what)
            .hint("a claim must survive one missed heartbeat: 1 to half of the lease"));
    }
    Ok((Duration::from_millis(lease), Duration::from_millis(heartbeat)))
}

fn logging(
    lookup: &mut Lookup,
    (filter, format): (Option<String>, Option<LogFormat>),
    config: &Config,
) -> Result<(String, LogFormat), CommandError> {
    let filter = Setting {
        key: "server.log",
        flag: ("--log", filter),
        variables: &[("CALLBOARD_LOG", plain), ("LOG_LEVEL", log_level)],
        file: config.server.log.clone(),
        default: "info".to_owned(),
    };
    let named: Parse<LogFormat> =
        |text| LogFormat::named(text).ok_or_else(|| "must be text or json".to_owned());
    let format = Setting {
        key: "server.log_format",
        flag: ("--log-format", format),
        variables: &[("CALLBOARD_LOG_FORMAT", named), ("LOG_JSON", log_format)],
        file: config.server.log_format,
        default: LogFormat::Text,
    };
    Ok((lookup.find(filter, shown)?, lookup.find(format, |format| json!(format.name()))?))
}

fn checked_hosts(hosts: Vec<String>) -> Result<Vec<String>, CommandError> {
    match hosts.iter().find(|name| !is_host_name(name)) {
        Some(wrong) => Err(CommandError::usage(format!("--host {wrong}: not a host's name"))
            .hint("write the name alone, without http:// and port: callboard.example.com")),
        None => Ok(hosts),
    }
}

/// How the host is reached.
struct Front {
    public_url: Option<String>,
    proxies: TrustedProxies,
    tls: Option<TlsFiles>,
}

fn front(lookup: &mut Lookup, config: &Config) -> Result<Front, CommandError> {
    let file = &config.server;
    let public_url = Setting {
        key: "server.public_url",
        flag: ("", None),
        variables: &[("CALLBOARD_PUBLIC_URL", |text| {
            read_origin(text).ok_or_else(|| format!("must be {PUBLIC_URL}"))
        })],
        file: file.public_url.clone(),
        default: String::new(),
    };
    let public_url = lookup.find(public_url, shown)?;
    let proxies = Setting {
        key: "server.trusted_proxies",
        flag: ("", None),
        variables: &[("CALLBOARD_TRUSTED_PROXIES", words)],
        file: file.trusted_proxies.clone(),
        default: Vec::new(),
    };
    let proxies = lookup.find(proxies, shown)?;
    let proxies = TrustedProxies::read(proxies.iter().map(String::as_str)).map_err(|wrong| {
        CommandError::usage(format!("server.trusted_proxies: {wrong:?} is no network"))
            .hint("write addresses or networks, such as 10.0.0.0/8 or ::1")
    })?;
    let mut path = |key, variables, file: Option<&PathBuf>| {
        let (file, default) = (file.cloned(), PathBuf::new());
        let path = Setting { key, flag: ("", None), variables, file, default };
        let path = lookup.find(path, shown)?;
        Ok::<_, CommandError>(Some(path).filter(|path| !path.as_os_str().is_empty()))
    };
    let any: Parse<PathBuf> = |text| Ok(PathBuf::from(text));
    let tls = file.tls.as_ref();
    let certificate = [("CALLBOARD_TLS_CERT", any)];
    let cert = path("server.tls.cert", &certificate, tls.map(|tls| &tls.cert))?;
    let private = [("CALLBOARD_TLS_KEY", any)];
    let key = path("server.tls.key", &private, tls.map(|tls| &tls.key))?;
    let tls = match (cert, key) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
        (None, None) => None,
        _ => {
            return Err(CommandError::usage("TLS needs both a certificate and its key").hint(
                "set cert and key in [server.tls], or CALLBOARD_TLS_CERT and CALLBOARD_TLS_KEY",
            ));
        }
    };
    Ok(Front { public_url: Some(public_url).filter(|url| !url.is_empty()), proxies, tls })
}

/// Read here rather than by the parser of arguments, which would repeat a wrong one with its secret.
fn api_keys(
    lookup: &mut Lookup,
    given: Vec<String>,
    config: &Config,
) -> Result<Vec<StaticKey>, CommandError> {
    let file = config.server.api_keys_file.as_deref();
    let file = file.map(|path| read_secret("server.api_keys_file", path)).transpose()?;
    let setting = Setting {
        key: "server.api_keys",
        flag: ("--api-key", Some(given).filter(|keys| !keys.is_empty())),
        variables: &[("CALLBOARD_API_KEYS", keys)],
        file: file.as_deref().map(keys).transpose().map_err(CommandError::usage)?,
        default: Vec::new(),
    };
    let texts = lookup.find(setting, |keys| json!(keys.iter().map(|_| "…").collect::<Vec<_>>()))?;
    let origin = lookup.shown.last().map(|shown| shown.origin.to_string()).unwrap_or_default();
    texts.iter().map(|text| parse_key(&origin, text)).collect()
}

/// Keys with a comma or a line's end between them.
fn keys(text: &str) -> Result<Vec<String>, String> {
    words(&text.replace('\n', ","))
}

fn parse_key(place: &str, text: &str) -> Result<StaticKey, CommandError> {
    text.parse().map_err(|error: StaticKeyError| {
        let wrong = CommandError::usage(format!("{place}: {error}"));
        match error {
            StaticKeyError::UnknownScope(_) => {
                wrong.hint(format!("known scopes: {}", SCOPES.join(", ")))
            }
            StaticKeyError::Empty
            | StaticKeyError::NotSendable
            | StaticKeyError::EmptyRealm
            | StaticKeyError::Unwritable(_) => {
                wrong.hint("write it as KEY[=TENANT[/WORKSPACE][+SCOPE…]]")
            }
        }
    })
}

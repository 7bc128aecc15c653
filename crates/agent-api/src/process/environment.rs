//! The environment of a child: a short list from the host, then what was set on purpose.

use std::collections::BTreeMap;
use std::path::Path;

/// What any program needs of its host. Everything else stays with the host, above all its secrets.
const FOR_EVERYONE: [&str; 17] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TERM",
    "USER",
    "LOGNAME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Later ones win: the host's listed variables, the folders of the run, the backend's, the request's.
pub(crate) fn compose(
    host: &BTreeMap<String, String>,
    allowed: &[&str],
    folders: BTreeMap<String, String>,
    backend: &BTreeMap<String, String>,
    request: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let listed =
        |name: &String| FOR_EVERYONE.contains(&name.as_str()) || allowed.contains(&name.as_str());
    let mut environment: BTreeMap<String, String> = host
        .iter()
        .filter(|(name, _)| listed(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    environment.extend(folders);
    environment.extend(backend.clone());
    environment.extend(request.clone());
    environment
}

/// Everything that agents keep goes below the home that they are given.
pub(crate) fn folders(home: &Path, temporary: &Path) -> BTreeMap<String, String> {
    [
        ("HOME", home.to_path_buf()),
        ("XDG_CONFIG_HOME", home.join(".config")),
        ("XDG_DATA_HOME", home.join(".local/share")),
        ("XDG_STATE_HOME", home.join(".local/state")),
        ("XDG_CACHE_HOME", home.join(".cache")),
        ("TMPDIR", temporary.to_path_buf()),
    ]
    .into_iter()
    .map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn only_listed_variables_of_the_host_are_passed_on() {
        let host = map(&[
            ("PATH", "/bin"),
            ("ANTHROPIC_API_KEY", "k"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("HOME", "/h"),
        ]);
        let none = BTreeMap::new();
        let composed = compose(&host, &["ANTHROPIC_API_KEY"], map(&[("HOME", "/p")]), &none, &none);
        assert_eq!(composed, map(&[("PATH", "/bin"), ("ANTHROPIC_API_KEY", "k"), ("HOME", "/p")]));
    }

    // T66
    #[test]
    fn the_request_wins_over_the_backend_which_wins_over_the_home() {
        let composed = compose(
            &map(&[("PATH", "/bin")]),
            &[],
            map(&[("HOME", "/private"), ("TMPDIR", "/t")]),
            &map(&[("HOME", "/backend"), ("A", "backend")]),
            &map(&[("A", "request"), ("HOME", "/request")]),
        );
        assert_eq!(composed["HOME"], "/request");
        assert_eq!(composed["A"], "request");
        assert_eq!(composed["TMPDIR"], "/t");
    }
}

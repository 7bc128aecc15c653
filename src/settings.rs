//! Where each value of a host comes from: a flag wins over the environment, the environment over the file, the file
//! over the default.

mod environment;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::args::environment;
use crate::config::Config;
use crate::exit::CommandError;

pub(crate) use environment::{
    log_format, log_level, paths, plain, port, postgres, switch, whole, words,
};

/// Says that the database is the one in the data folder, whatever else is set.
pub(crate) const EMBEDDED: &str = "sqlite";
/// Where the embedded database is, unless something is said.
const DEFAULT_DATA: &str = "./callboard-data";

/// Where a value was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Variable(String),
    File(PathBuf),
    Default,
}

impl Origin {
    /// A variable, or the file that its twin names.
    pub(crate) fn of_variable(name: &str) -> Self {
        let is_from_file = crate::handover::is_from_file(name);
        Self::Variable(if is_from_file { format!("{name}_FILE") } else { name.to_owned() })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => f.write_str(name),
            Self::Variable(name) => f.write_str(name),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One effective value as `config show` prints it, without secrets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// How a variable's text becomes a value; what is wrong with it is said without the text, which may be a secret.
pub(crate) type Parse<T> = fn(&str) -> Result<T, String>;

/// One thing that can be set.
pub(crate) struct Setting<'s, T> {
    /// Its key in the file, also where the file cannot say it.
    pub(crate) key: &'static str,
    pub(crate) flag: (&'static str, Option<T>),
    /// Our own name first, then names that other tools use.
    pub(crate) variables: &'s [(&'static str, Parse<T>)],
    pub(crate) file: Option<T>,
    pub(crate) default: T,
}

/// Looks values up, and remembers where each was found.
#[derive(Debug)]
pub(crate) struct Lookup {
    file: Option<PathBuf>,
    variable: fn(&str) -> Option<String>,
    pub(crate) shown: Vec<Shown>,
    /// Names of other tools that are set and not used, with what was used instead.
    pub(crate) overruled: Vec<(&'static str, Origin)>,
}

impl Lookup {
    pub(crate) fn new(config: &Config) -> Self {
        let (shown, overruled) = (Vec::new(), Vec::new());
        Self { file: config.path.clone(), variable: environment, shown, overruled }
    }

    /// The value, which is shown as `show` makes it.
    pub(crate) fn find<T>(
        &mut self,
        setting: Setting<'_, T>,
        show: impl FnOnce(&T) -> Value,
    ) -> Result<T, CommandError> {
        let Setting { key, flag: (flag, given), variables, file, default } = setting;
        let mut found = given.map(|value| (value, Origin::Flag(flag)));
        for (name, parse) in variables {
            let Some(text) = (self.variable)(name) else { continue };
            if let Some((_, origin)) = &found {
                if !name.starts_with("CALLBOARD_") {
                    self.overruled.push((name, origin.clone()));
                }
                continue;
            }
            let value = parse(&text).map_err(|why| CommandError::usage(format!("{name} {why}")))?;
            found = Some((value, Origin::of_variable(name)));
        }
        let file = file.zip(self.file.clone()).map(|(value, path)| (value, Origin::File(path)));
        let (value, origin) = found.or(file).unwrap_or((default, Origin::Default));
        self.shown.push(Shown { key: key.to_owned(), value: show(&value), origin });
        Ok(value)
    }

    /// The data folder.
    pub(crate) fn data(
        &mut self,
        given: Option<PathBuf>,
        config: &Config,
    ) -> Result<PathBuf, CommandError> {
        let setting = Setting {
            key: "server.data",
            flag: ("--data", given),
            variables: &[("CALLBOARD_DATA", |text| Ok(PathBuf::from(text)))],
            file: config.server.data.clone(),
            default: PathBuf::from(DEFAULT_DATA),
        };
        self.find(setting, |path| json!(path))
    }

    /// The address of a shared database; none is the one in the data folder.
    pub(crate) fn database_url(
        &mut self,
        given: Option<String>,
        config: &Config,
    ) -> Result<Option<String>, CommandError> {
        let setting = Setting {
            key: "server.database_url",
            flag: ("--database-url", given),
            variables: &[("CALLBOARD_DATABASE_URL", plain), ("DATABASE_URL", postgres)],
            file: config.server.database_url.clone(),
            default: EMBEDDED.to_owned(),
        };
        let url = self.find(setting, |url| json!(without_password(url)))?;
        Ok(Some(url).filter(|url| url != EMBEDDED))
    }
}

/// An address as it may be shown: everything but the password.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // The other form that PostgreSQL takes: words with values.
        return if url.contains("password") { "…".to_owned() } else { url.to_owned() };
    };
    if rest.contains("password=") {
        return format!("{scheme}://…");
    }
    match rest.rsplit_once('@').map(|(user, place)| (user.split_once(':'), place)) {
        Some((Some((user, _)), place)) => format!("{scheme}://{user}:…@{place}"),
        _ => url.to_owned(),
    }
}

/// Reads a file that holds a secret and nothing else.
pub(crate) fn read_secret(named_by: &str, path: &Path) -> Result<String, CommandError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandError::usage(format!("{named_by}: cannot read {shown}: {error}"))
    })?;
    match text.trim() {
        "" => Err(CommandError::usage(format!("{named_by}: {shown} is empty"))),
        secret => Ok(secret.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (given, shown) in [
            ("postgres://u:s3cret@h:5432/n", "postgres://u:…@h:5432/n"),
            ("postgres://u:s3@cret@h/n", "postgres://u:…@h/n"),
            ("postgres://u@h/n", "postgres://u@h/n"),
            ("postgres://h/n?password=s3cret", "postgres://…"),
            ("host=h user=u password=s3cret", "…"),
            ("host=h user=u", "host=h user=u"),
            ("sqlite", "sqlite"),
        ] {
            assert_eq!(without_password(given), shown, "{given}");
        }
    }
}

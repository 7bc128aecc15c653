//! `[sandbox]`: whom the programs run as that the host starts.

use super::source::{Source, Value};
use crate::exit::CommandError;
use crate::sandbox::User;

/// The section as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sandbox {
    /// Whom coding agents and MCP servers run as, where the host is the superuser.
    pub(crate) user: Option<User>,
    /// Whether they see the system's folders and their own alone.
    pub(crate) strict: bool,
}

impl Source<'_> {
    pub(super) fn sandbox(&self, value: &Value<'_>) -> Result<Sandbox, CommandError> {
        let mut sandbox = Sandbox::default();
        for (key, value) in self.section(value, "sandbox")? {
            let name = key.get_ref().as_ref();
            let path = format!("sandbox.{name}");
            match name {
                "user" => {
                    let user = self.text(value, &path)?;
                    let place = self.place(value.span().start);
                    let unknown = || {
                        let what = format!("{place}: {path}: this machine has no user {user}");
                        CommandError::usage(what).hint("name one of /etc/passwd, such as nobody")
                    };
                    sandbox.user = Some(User::named(&user).ok_or_else(unknown)?);
                }
                "strict" => sandbox.strict = self.switch(value, &path)?,
                other => {
                    return Err(self.unknown(key.span().start, &path, other, &["user", "strict"]));
                }
            }
        }
        Ok(sandbox)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn a_user_is_one_that_the_machine_has() {
        let read = |text: &str| Config::parse("c.toml", text).map_err(|error| error.what);
        let root = read("[sandbox]\nuser = \"root\"").unwrap().sandbox.user.unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        let wrong = read("[sandbox]\nuser = \"no such user\"").unwrap_err();
        assert_eq!(wrong, "c.toml:2: sandbox.user: this machine has no user no such user");
    }
}

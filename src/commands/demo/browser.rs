//! The console in the browser of whoever sits before the screen.

use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

/// What a browser needs of the environment, and nothing beside it: keys of models stay here.
const PASSED: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "SHELL",
    "TMPDIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "BROWSER",
    "DBUS_SESSION_BUS_ADDRESS",
    "DESKTOP_SESSION",
];
/// The beginning of those of the desktop.
const DESKTOP: &str = "XDG_";

/// The program that opens an address, where there is a display and nobody sits at the other end of a line.
fn opener(
    variable: impl Fn(&str) -> Option<OsString>,
    is_terminal: bool,
    system: &str,
) -> Option<&'static str> {
    let has = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    if !is_terminal || has("SSH_CONNECTION") || has("CI") {
        return None;
    }
    match system {
        "macos" => Some("open"),
        _ if has("DISPLAY") || has("WAYLAND_DISPLAY") => Some("xdg-open"),
        _ => None,
    }
}

fn is_passed(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| PASSED.contains(&name) || name.starts_with(DESKTOP))
}

/// Opens an address and answers whether a program was there to do it. What becomes of it is the desktop's; nobody waits.
pub(super) fn open(address: &str, is_terminal: bool) -> bool {
    let Some(program) = opener(|name| std::env::var_os(name), is_terminal, std::env::consts::OS)
    else {
        return false;
    };
    let passed = std::env::vars_os().filter(|(name, _)| is_passed(name));
    let mut command = Command::new(program);
    command.arg(address).env_clear().envs(passed);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut started) = command.spawn() else { return false };
    // Waited for where it holds up nobody, so that nothing is left of it.
    std::thread::spawn(move || started.wait());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(set: &[(&str, &str)], is_terminal: bool, system: &str) -> Option<&'static str> {
        let variable = |name: &str| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(*value))
        };
        opener(variable, is_terminal, system)
    }

    #[test]
    fn a_browser_opens_where_there_is_a_display_and_a_person() {
        let display = ("DISPLAY", ":0");
        assert_eq!(found(&[display], true, "linux"), Some("xdg-open"));
        assert_eq!(found(&[("WAYLAND_DISPLAY", "wayland-0")], true, "linux"), Some("xdg-open"));
        assert_eq!(found(&[], true, "macos"), Some("open"));
        assert_eq!(found(&[display], false, "linux"), None, "a script reads what is printed");
        assert_eq!(found(&[], true, "linux"), None);
        assert_eq!(found(&[("DISPLAY", "")], true, "linux"), None);
        for other in [("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22"), ("CI", "true")] {
            assert_eq!(found(&[display, other], true, "linux"), None);
            assert_eq!(found(&[other], true, "macos"), None);
        }
    }

    #[test]
    fn a_browser_gets_no_key() {
        for name in ["ANTHROPIC_API_KEY", "CALLBOARD_API_KEY", "CALLBOARD_SEAL_KEY", "XDG"] {
            assert!(!is_passed(OsStr::new(name)), "{name}");
        }
        assert!(is_passed(OsStr::new("HOME")) && is_passed(OsStr::new("XDG_RUNTIME_DIR")));
    }
}

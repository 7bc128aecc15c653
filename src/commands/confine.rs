//! `callboard confine`: the first thing that a coding agent or an MCP server is. It gives up what the host may do and
//! the program need not, and then becomes the program. Not for people to type; the host puts it before its children.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

use crate::exit::CommandError;
use crate::sandbox::{self, Folders, Sight, User};
use crate::wire;

#[derive(Debug, Args)]
pub(crate) struct ConfineArgs {
    /// Let the program see the system's folders and what is named here, and nothing else
    #[arg(long)]
    strict: bool,
    /// A folder or file that it may read and execute in any case; repeatable
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// A folder or file that it may also change; repeatable
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// A folder that is made the program's own; repeatable
    #[arg(long, value_name = "PATH")]
    own: Vec<PathBuf>,
    /// What it sees in none of them; repeatable
    #[arg(long, value_name = "PATH")]
    hide: Vec<PathBuf>,
    /// The program locks in what it starts by itself, which takes mounts: hide nothing from it, and leave it its powers
    #[arg(long)]
    own_walls: bool,
    /// Whom it runs as, where this process may choose
    #[arg(long, value_name = "UID:GID")]
    user: Option<User>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Comes back only with why the program was not started.
pub(crate) fn run(args: &ConfineArgs) -> CommandError {
    let Some((program, arguments)) = args.command.split_first() else {
        return CommandError::usage("no program");
    };
    match lock_in(args, Path::new(program)) {
        Ok(mut command) => {
            let error = command.args(arguments).exec();
            let shown = Path::new(program).display();
            CommandError::failed(format!("{shown} cannot be started: {error}"))
        }
        Err(error) => CommandError::failed(format!("the program cannot be locked in: {error}")),
    }
}

fn lock_in(args: &ConfineArgs, program: &Path) -> io::Result<Command> {
    let mut read = args.read.clone();
    if args.strict {
        read.extend(program_folders(program));
        let path = std::env::var_os("PATH").unwrap_or_default();
        for folder in std::env::split_paths(&path).filter(|folder| folder.is_absolute()) {
            read.extend(with_libraries(&folder));
        }
    }
    let mut command = Command::new(program);
    let user = args.user.filter(|_| geteuid().is_root());
    if let Some(user) = user {
        // What the operator gives stays the operator's.
        let ours = args.own.iter().filter(|folder| !args.write.contains(folder));
        for folder in ours {
            user.take_over(folder)?;
            let_pass(folder)?;
        }
        command.uid(user.uid).gid(user.gid);
    }
    if args.own_walls {
        return Ok(command);
    }
    sandbox::enter(&Folders {
        sight: if args.strict { Sight::Given } else { Sight::Open },
        read,
        write: args.write.clone(),
        own: args.own.clone(),
        hidden: args.hide.clone(),
    })?;
    give_up_capabilities();
    Ok(command)
}

/// Lets others pass through the host's own folders to the child's, and look into none of them.
fn let_pass(folder: &Path) -> io::Result<()> {
    let is_ours = |folder: &&Path| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(wire::sandbox::PREFIX))
    };
    let Some(top) = folder.ancestors().find(is_ours) else { return Ok(()) };
    for way in folder.ancestors().skip(1).take_while(|way| way.starts_with(top)) {
        let mut permissions = way.metadata()?.permissions();
        permissions.set_mode(permissions.mode() | 0o011);
        std::fs::set_permissions(way, permissions)?;
    }
    Ok(())
}

/// Whoever stays the superuser has none of its powers left once the program begins. Others have none to give up.
fn give_up_capabilities() {
    for bit in 0..u64::BITS {
        // Fails for powers that this kernel does not know.
        let _ = remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit));
    }
}

/// Where a program lies as it was named, where it truly lies, and what belongs to it there.
fn program_folders(program: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = program.parent().into_iter().flat_map(with_libraries).collect();
    let Ok(real) = program.canonicalize() else { return folders };
    // Packages of Node find each other anywhere below the outermost folder of that name.
    let outermost = real.ancestors().filter(|folder| folder.ends_with("node_modules")).last();
    if let Some(packages) = outermost {
        folders.push(packages.to_owned());
    }
    folders.extend(real.parent().into_iter().flat_map(with_libraries));
    folders
}

/// A folder of programs, and the libraries beside it; all of a Python environment.
fn with_libraries(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    if let Some(prefix) = folder.parent().filter(|_| folder.ends_with("bin")) {
        folders.extend(["lib", "lib64", "libexec"].map(|name| prefix.join(name)));
        if prefix.join("pyvenv.cfg").is_file() {
            folders.push(prefix.to_owned());
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_what_belongs_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let package = top.join("lib/node_modules/agent/node_modules/x");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::create_dir(top.join("bin")).unwrap();
        std::fs::write(package.join("cli.js"), "").unwrap();
        std::os::unix::fs::symlink(package.join("cli.js"), top.join("bin/agent")).unwrap();
        let folders = program_folders(&top.join("bin/agent"));
        for seen in ["bin", "lib", "lib/node_modules"] {
            assert!(folders.contains(&top.join(seen)), "{seen} in {folders:?}");
        }
        assert!(!folders.contains(&top), "{folders:?}");
    }
}

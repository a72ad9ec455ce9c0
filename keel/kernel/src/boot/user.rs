//! The user of a container: names of its own files.

use super::EXIT_HULL;
use crate::fs::setup;
use abi::boot::PodConfig;
use abi::request::Exit;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use keel_core::accounts::{self, Missing};
use vfs::tree::Tree;

/// Most bytes that are read of the lists of users and groups.
const MOST: usize = 1 << 20;

/// Sets the ids and the home directory of the configuration. Ends the pod if there is no such user.
pub(super) fn choose(tree: &Rc<Tree>, config: &mut PodConfig) {
    let Some(container) = &config.container else { return };
    let read = |path| setup::small_file(tree, path, MOST);
    let (users, groups) = (read(b"/etc/passwd"), read(b"/etc/group"));
    match accounts::find(&container.user, &users, &groups) {
        Ok(mut account) => {
            if let Err(at) = account.add_groups(&container.groups, &groups) {
                refuse("--group-add", &container.groups[at], "group", "/etc/group")
            }
            (config.uid, config.gid) = (account.uid, account.gid);
            config.groups = account.groups;
            if !config.env.iter().any(|variable| variable.starts_with(b"HOME=")) {
                config.env.push([b"HOME=", account.home].concat());
            }
        }
        Err(missing) => {
            let (what, list) = match missing {
                Missing::User => ("user", "/etc/passwd"),
                Missing::Group => ("group", "/etc/group"),
            };
            refuse("--user", &container.user, what, list)
        }
    }
}

/// Ends the pod because of a name that is not in a list.
fn refuse(option: &str, name: &[u8], what: &str, list: &str) -> ! {
    let name = String::from_utf8_lossy(name);
    let text = format!("hull: {option} {name}: no such {what} in the pod's {list}; name another one or its number");
    hal::ring::end(Exit { code: EXIT_HULL }, text.as_bytes())
}

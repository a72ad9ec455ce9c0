//! User and groups of the program.

use crate::failure::{Failure, Result};
use crate::view::Caller;
use std::path::PathBuf;

/// Credentials of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Name and home directory, if `--user` named a user of the host's `/etc/passwd`.
    pub account: Option<(String, String)>,
}

/// Credentials of this process.
pub fn own() -> Identity {
    let groups = rustix::process::getgroups().unwrap_or_default();
    Identity {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups.into_iter().map(rustix::process::Gid::as_raw).collect(),
        account: None,
    }
}

/// The caller of hull, as the default view needs it.
pub fn caller() -> Caller {
    let user = rustix::process::geteuid();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let listed = resolve(&user.as_raw().to_string(), &passwd, "").ok().and_then(|identity| identity.account);
    let homes = listed.map(|(_, home)| home.into()).into_iter().chain(std::env::var_os("HOME"));
    let real = |home| {
        let home = PathBuf::from(home);
        // A home directory that does not exist needs no protection.
        home.canonicalize().unwrap_or(home)
    };
    Caller { root: user.is_root(), homes: homes.map(real).collect() }
}

/// Credentials of `--user USER[:GROUP]`, looked up in the host's `/etc/passwd` and `/etc/group`.
pub fn chosen(text: &str) -> Result<Identity> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    resolve(text, &read("/etc/passwd"), &read("/etc/group"))
}

fn number(text: &str) -> Option<u32> {
    // The kernel reserves -1 ("no change").
    text.parse().ok().filter(|&id| id != u32::MAX)
}

fn resolve(text: &str, passwd: &str, group: &str) -> Result<Identity> {
    let (user, wanted_group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let wrong = |name: &str, file: &str| {
        let remedy = "use a number or a name that the host knows";
        Failure::request(format!("--user {text}"), format!("`{name}` is not in {file}"), remedy)
    };
    let rows =
        |file: &'_ str| file.lines().map(|line| line.split(':').map(str::to_owned).collect::<Vec<_>>()).collect();
    let users: Vec<Vec<String>> = rows(passwd);
    let groups: Vec<Vec<String>> = rows(group);
    let field = |row: &Vec<String>, index: usize| row.get(index).cloned().unwrap_or_default();

    let row = users.iter().find(|row| field(row, 0) == user && row.len() >= 6);
    let row = row.or_else(|| users.iter().find(|row| number(user).is_some() && number(&field(row, 2)) == number(user)));
    let uid = match row {
        Some(row) => number(&field(row, 2)),
        None => number(user),
    };
    let uid = uid.ok_or_else(|| wrong(user, "/etc/passwd"))?;
    let name = row.map(|row| field(row, 0));
    let gid = match wanted_group {
        None => row.and_then(|row| number(&field(row, 3))).unwrap_or(0),
        Some(wanted) => {
            let named = groups.iter().find(|row| field(row, 0) == wanted).and_then(|row| number(&field(row, 2)));
            named.or_else(|| number(wanted)).ok_or_else(|| wrong(wanted, "/etc/group"))?
        }
    };
    let member = |row: &&Vec<String>| field(row, 3).split(',').any(|member| Some(member) == name.as_deref());
    let supplementary = match wanted_group {
        Some(_) => Vec::new(),
        None => groups.iter().filter(member).filter_map(|row| number(&field(row, 2))).collect(),
    };
    let account = row.map(|row| (field(row, 0), field(row, 5)));
    Ok(Identity { uid, gid, groups: supplementary, account })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:100:A:/home/alice:/bin/sh\nbroken\n";
    const GROUP: &str = "root:x:0:\nusers:x:100:\nkvm:x:36:bob,alice\n";

    #[test]
    fn names_and_numbers() {
        let alice = Some(("alice".into(), "/home/alice".into()));
        let get = |text| resolve(text, PASSWD, GROUP).unwrap();
        assert_eq!(get("alice"), Identity { uid: 1000, gid: 100, groups: vec![36], account: alice.clone() });
        assert_eq!(get("1000"), get("alice"));
        assert_eq!(get("alice:kvm"), Identity { uid: 1000, gid: 36, groups: vec![], account: alice });
        assert_eq!(get("7:8"), Identity { uid: 7, gid: 8, groups: vec![], account: None });
        assert_eq!(get("7"), Identity { uid: 7, ..Identity::default() });
        for wrong in ["", "bob", "alice:", "alice:none", "-1", "4294967295", "broken", "99999999999"] {
            assert!(resolve(wrong, PASSWD, GROUP).is_err(), "{wrong}");
        }
    }
}

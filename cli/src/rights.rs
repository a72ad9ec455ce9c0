//! What the first program of a pod may do: capabilities, filters of system calls, settings, numbers of threads.

use crate::failure::{Failure, Result, reason};
use crate::seccomp;
use crate::values::amount;
use abi::boot::Rights;
use clap::Args;
use std::path::PathBuf;

/// Options about rights.
#[derive(Args, Debug, Default)]
pub struct RightsArgs {
    /// Keep a capability that --cap-drop ALL takes away; names as in capabilities(7), or ALL. Repeatable
    #[arg(long, value_name = "NAME", value_parser = capabilities)]
    pub cap_add: Vec<u64>,

    /// Take a capability away from the program and all that it starts, or ALL. Repeatable
    #[arg(long, value_name = "NAME", value_parser = capabilities)]
    pub cap_drop: Vec<u64>,

    /// no-new-privileges: set-user-id bits and file capabilities have no effect; seccomp=FILE: filter system calls by
    /// a profile of docker's format. Repeatable
    #[arg(long, value_name = "OPTION", value_parser = security)]
    pub security_opt: Vec<Security>,

    /// Set what /proc/sys shows, such as net.core.somaxconn. Repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub sysctl: Vec<(String, String)>,

    /// Most threads of the pod, those of all processes; -1: no limit
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    pub pids_limit: Option<i64>,

    /// Most bytes of files in /dev/shm [default: half of the memory]
    #[arg(long, value_name = "SIZE", value_parser = amount)]
    pub shm_size: Option<u64>,
}

/// `--security-opt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    /// `no-new-privileges`.
    NoNewPrivileges(bool),
    /// `seccomp=`: a profile, or none.
    Seccomp(Option<PathBuf>),
    /// Turns off what a pod does not have.
    Nothing,
}

/// Names of capabilities, in the order of their numbers.
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];
const ALL: u64 = (1 << CAPABILITIES.len()) - 1;

/// Parses the name of a capability, with or without `CAP_`, in any case, or `ALL`.
fn capabilities(text: &str) -> std::result::Result<u64, String> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("CAP_").unwrap_or(&name);
    if name == "ALL" {
        return Ok(ALL);
    }
    let number = CAPABILITIES.iter().position(|known| *known == name);
    number
        .map(|number| 1 << number)
        .ok_or_else(|| "no such capability; names are in capabilities(7), or write ALL".into())
}

/// Parses `--security-opt`.
fn security(text: &str) -> std::result::Result<Security, String> {
    // Docker takes both separators.
    let (name, value) = text.split_once(['=', ':']).map_or((text, None), |(name, value)| (name, Some(value)));
    match (name, value) {
        ("no-new-privileges", None | Some("true")) => Ok(Security::NoNewPrivileges(true)),
        ("no-new-privileges", Some("false")) => Ok(Security::NoNewPrivileges(false)),
        ("seccomp", Some("unconfined")) => Ok(Security::Seccomp(None)),
        ("seccomp", Some("builtin" | "")) => Err("Hull has no built-in profile; name a file: seccomp=FILE".into()),
        ("seccomp", Some(file)) => Ok(Security::Seccomp(Some(file.into()))),
        ("apparmor", Some("unconfined")) | ("label", Some("disable")) | ("systempaths", Some("unconfined")) => {
            Ok(Security::Nothing)
        }
        ("apparmor" | "label", _) => Err("a pod has no AppArmor or SELinux; leave it out".into()),
        _ => Err("not known; write no-new-privileges or seccomp=FILE".into()),
    }
}

/// Parses `NAME=VALUE`; names have dots or slashes between their parts.
fn setting(text: &str) -> std::result::Result<(String, String), String> {
    let wrong = || String::from("not a setting; write NAME=VALUE, such as net.core.somaxconn=1024");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let path = if name.contains('/') { name.to_owned() } else { name.replace('.', "/") };
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    if !path.split('/').all(is_part) || value.contains(['\0', '\n']) {
        return Err(wrong());
    }
    match path.as_str() {
        "kernel/hostname" => Err("the host name is an option of its own; write --hostname NAME".into()),
        _ => Ok((path, value.trim().to_owned())),
    }
}

impl RightsArgs {
    /// For the pod's configuration.
    pub fn rights(&self) -> Result<Rights> {
        let all = |list: &[u64]| list.iter().fold(0, |sum, one| sum | one);
        let (added, dropped) = (all(&self.cap_add), all(&self.cap_drop));
        // As docker does: what is named wins over ALL, and what is dropped by its name stays so.
        let named = |list: &[u64]| list.iter().filter(|one| **one != ALL).fold(0, |sum, one| sum | one);
        let dropped = if added == ALL { named(&self.cap_drop) } else { dropped & !added | named(&self.cap_drop) };
        let mut rights = Rights { dropped, most_threads: self.most_threads(), ..Rights::default() };
        for option in &self.security_opt {
            match option {
                Security::NoNewPrivileges(on) => rights.no_new_privs = *on,
                Security::Seccomp(None) => rights.filter.clear(),
                Security::Seccomp(Some(file)) => {
                    let fail = |why: String| {
                        let (why, remedy) = why.split_once("; ").unwrap_or((&why, "see docs/cli.md"));
                        Failure::request(format!("--security-opt seccomp={}", file.display()), why, remedy)
                    };
                    let json =
                        std::fs::read(file).map_err(|error| fail(format!("{}; check the path", reason(&error))))?;
                    let has = |name: &str| capabilities(name).is_ok_and(|one| one & dropped == 0);
                    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
                    rights.filter =
                        seccomp::compile(&json, &seccomp::Target { has: &has, kernel: &kernel }).map_err(fail)?;
                }
                Security::Nothing => {}
            }
        }
        rights.settings = self.sysctl.iter().map(|(name, value)| (name.clone().into(), value.clone().into())).collect();
        rights.shm_size = self.shm_size.filter(|size| *size > 0);
        Ok(rights)
    }

    fn most_threads(&self) -> Option<u64> {
        // 0 is no limit for docker too.
        self.pids_limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(add: &[&str], drop: &[&str]) -> u64 {
        let parse = |list: &[&str]| list.iter().map(|name| capabilities(name).unwrap()).collect();
        RightsArgs { cap_add: parse(add), cap_drop: parse(drop), ..Default::default() }.rights().unwrap().dropped
    }

    #[test]
    fn capabilities_by_name() {
        assert_eq!(dropped(&[], &[]), 0);
        assert_eq!(dropped(&[], &["CHOWN", "cap_kill"]), 1 | 1 << 5);
        assert_eq!(dropped(&[], &["all"]), ALL);
        assert_eq!(dropped(&["NET_BIND_SERVICE"], &["ALL"]), ALL & !(1 << 10));
        assert_eq!(dropped(&["ALL"], &["CHECKPOINT_RESTORE"]), 1 << 40);
        assert_eq!(dropped(&["CHOWN"], &["CHOWN"]), 1);
        assert!(capabilities("CAP_NONE").is_err());
    }

    #[test]
    fn options_of_security() {
        assert_eq!(security("no-new-privileges"), Ok(Security::NoNewPrivileges(true)));
        assert_eq!(security("no-new-privileges:true"), Ok(Security::NoNewPrivileges(true)));
        assert_eq!(security("seccomp=unconfined"), Ok(Security::Seccomp(None)));
        assert_eq!(security("seccomp=a:b"), Ok(Security::Seccomp(Some("a:b".into()))));
        assert_eq!(security("label=disable"), Ok(Security::Nothing));
        for wrong in ["x", "seccomp", "seccomp=", "apparmor=docker-default", "label=type:x", "no-new-privileges=1"] {
            assert!(security(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings() {
        let expect = |text: &str, name: &str, value: &str| {
            assert_eq!(setting(text), Ok((name.into(), value.into())), "{text}");
        };
        expect("net.core.somaxconn=1", "net/core/somaxconn", "1");
        expect("net/ipv4/conf/a.b/x=1 2", "net/ipv4/conf/a.b/x", "1 2");
        for wrong in ["a", "=1", "a..b=1", "../x=1", "/a=1", "kernel.hostname=x"] {
            assert!(setting(wrong).is_err(), "{wrong}");
        }
    }
}

//! Options of docker, podman and bubblewrap that Hull does not have.

use super::remedies::{GRANT_RO, GRANT_RW, NETWORK, NO_COUNTERPART, OWN, RIGHTS};
use super::services;

const ISOLATED: &str = "leave it out: a pod shares none with the host";
const PRIVATE: &str = "leave it out: writes stay in the pod's memory except beneath --rw";
const CPU_TIME: &str = "limit the processor time with --cpus N, such as 0.5";
const FILES_RATE: &str = "limit what the pod reads and writes with --rate files=AMOUNT";
const HEALTH: &str = "leave it out: Hull runs no health checks, also not those of an image";

/// Options of other container tools (docker, podman, bubblewrap) and Hull's counterparts.
const FOREIGN: &[(&str, &str)] = &[
    ("--volumes-from", GRANT_RO),
    ("--bind", GRANT_RW),
    ("--bind-try", GRANT_RW),
    ("--bind-fd", GRANT_RW),
    ("--bind-data", GRANT_RO),
    ("--ro-bind", "grant with --ro PATH[:AT]"),
    ("--ro-bind-try", "grant with --ro PATH[:AT]"),
    ("--ro-bind-fd", "grant with --ro PATH[:AT]"),
    ("--ro-bind-data", "grant with --ro PATH[:AT]"),
    ("--dev-bind", "leave it out: devices of the host can't be granted"),
    ("--dev-bind-try", "leave it out: devices of the host can't be granted"),
    ("--device", "leave it out: devices of the host can't be granted"),
    ("--gpus", "leave it out: devices of the host can't be granted"),
    ("--overlay", "grant with --ro PATH[:AT]: writes stay in the pod"),
    ("--overlay-src", "grant with --ro PATH[:AT]: writes stay in the pod"),
    ("--tmp-overlay", "grant with --ro PATH[:AT]: writes stay in the pod"),
    ("--ro-overlay", "grant with --ro PATH[:AT]"),
    ("--remount-ro", "leave it out: only what --rw grants is writable on the host"),
    ("--dir", PRIVATE),
    ("--file", GRANT_RO),
    ("--symlink", "make it in the pod: hull run -- sh -c 'ln -s ...; exec ...'"),
    ("--chmod", "do it in the pod: hull run -- sh -c 'chmod ...; exec ...'"),
    ("--perms", "do it in the pod: hull run -- sh -c 'chmod ...; exec ...'"),
    ("--size", "limit what files in memory take with --private-size SIZE"),
    ("--storage-opt", "limit what files in memory take with --private-size SIZE"),
    ("--dev", OWN),
    ("--proc", OWN),
    ("--mqueue", OWN),
    ("--as-pid-1", "leave it out: the pod's process 1 is its kernel's"),
    ("--restart", "leave it out: start hull again"),
    ("--argv0", "name the program after `--`"),
    ("--args", "write the options out"),
    ("-d", "leave it out: start hull in the background with `&`"),
    ("--detach", "leave it out: start hull in the background with `&`"),
    ("--detach-keys", "leave it out: a pod lives as long as hull"),
    ("-a", "leave it out: standard streams are always connected"),
    ("--attach", "leave it out: standard streams are always connected"),
    ("--sig-proxy", "leave it out: signals are always passed on"),
    ("--stop-timeout", "leave it out: end hull with SIGTERM, and after that time with SIGKILL"),
    ("--log-driver", "leave it out: redirect standard output"),
    ("--log-opt", "leave it out: redirect standard output"),
    ("--network-alias", NETWORK),
    ("--share-net", "write --net host, or allow peers with --allow PEER[:PORT]"),
    ("--ip", NETWORK),
    ("--link", NETWORK),
    ("--mac-address", NETWORK),
    ("--ipc", ISOLATED),
    ("--pid", ISOLATED),
    ("--uts", ISOLATED),
    ("--userns", ISOLATED),
    ("--userns2", ISOLATED),
    ("--cgroupns", ISOLATED),
    ("--cgroup-parent", "start hull in that control group"),
    ("--disable-userns", ISOLATED),
    ("--assert-userns-disabled", ISOLATED),
    ("--isolation", ISOLATED),
    ("--runtime", ISOLATED),
    ("--new-session", "leave it out: input can't be put into the terminal's queue (TIOCSTI)"),
    (
        "--die-with-parent",
        "leave it out: a pod ends with hull; start it with setpriv --pdeathsig KILL if that shall end with its parent",
    ),
    ("--lock-file", "use flock(1) around hull"),
    ("--sync-fd", "wait for hull itself"),
    ("--block-fd", "start hull when it shall start"),
    ("--userns-block-fd", "start hull when it shall start"),
    ("--info-fd", NO_COUNTERPART),
    ("--json-status-fd", "take hull's exit code"),
    ("--privileged", RIGHTS),
    ("--seccomp", RIGHTS),
    ("--add-seccomp-fd", RIGHTS),
    ("--exec-label", RIGHTS),
    ("--file-label", RIGHTS),
    ("--uid", "choose with --user USER[:GROUP]"),
    ("--gid", "choose with --user USER[:GROUP]"),
    ("--chdir", "choose with --workdir DIR"),
    ("--setenv", "set with --env NAME=VALUE"),
    ("--unsetenv", "leave it out: only what --env names and the usual variables are passed; or use env -u in the pod"),
    ("--clearenv", "leave it out: only the usual variables are passed; or use env -i in the pod"),
    ("--clear-env", "leave it out: only the usual variables are passed (--env-all: all)"),
    ("--memory-swap", "limit memory with --memory SIZE"),
    ("--cpuset-cpus", "choose processors with taskset(1), and their number with --cpus N"),
    ("-c", CPU_TIME),
    ("--cpu-shares", CPU_TIME),
    ("--cpu-quota", CPU_TIME),
    ("--cpu-period", CPU_TIME),
    ("--cpu-rt-period", CPU_TIME),
    ("--cpu-rt-runtime", CPU_TIME),
    ("--cpuset-mems", "choose memory nodes with numactl(8)"),
    ("--memory-reservation", "limit memory with --memory SIZE"),
    ("--memory-swappiness", "leave it out: a pod has no swap"),
    ("--kernel-memory", "limit memory with --memory SIZE: that of the pod's kernel counts"),
    ("--oom-kill-disable", "leave it out: without memory the pod's largest program ends, never one of the host"),
    ("--oom-score-adj", "write it in the pod to /proc/PID/oom_score_adj, or start hull with choom(1)"),
    ("--blkio-weight", FILES_RATE),
    ("--blkio-weight-device", FILES_RATE),
    ("--device-read-bps", FILES_RATE),
    ("--device-read-iops", FILES_RATE),
    ("--device-write-bps", FILES_RATE),
    ("--device-write-iops", FILES_RATE),
    ("--device-cgroup-rule", "leave it out: devices of the host can't be granted"),
    ("--volume-driver", "leave it out: volumes have no names and no drivers; name a directory with --volume PATH:AT"),
    ("--link-local-ip", NETWORK),
    ("--ip6", NETWORK),
    ("--pod", ISOLATED),
    ("--health-cmd", HEALTH),
    ("--health-interval", HEALTH),
    ("--health-retries", HEALTH),
    ("--health-timeout", HEALTH),
    ("--health-start-period", HEALTH),
    ("--health-start-interval", HEALTH),
    ("--health-on-failure", HEALTH),
    ("--no-healthcheck", HEALTH),
    ("--disable-content-trust", "leave it out: digests are verified, signatures are not"),
    ("--use-api-socket", "leave it out: there is no service that a pod could ask"),
    ("--replace", "leave it out: a pod leaves nothing behind; end the other one first"),
    ("--requires", "leave it out: a pod depends on no other"),
    ("--secret", "grant the file with --ro PATH:/run/secrets/NAME"),
    ("--rootfs", "name the directory with --root PATH"),
    ("--systemd", "leave it out: the program is process 1 unless --init is given"),
    ("--umask", "set it in the pod: sh -c 'umask MASK; exec PROGRAM'"),
    ("--tz", "set it with --env TZ=ZONE"),
    ("--env-host", "pass all variables with --env-all"),
    ("--unsetenv-all", "use env -i in the pod"),
    ("--env-merge", "set it with --env NAME=VALUE"),
    ("--hostuser", "choose with --user USER[:GROUP]"),
    ("--passwd", "leave it out: users are those of the image"),
    ("--http-proxy", "pass them with --env http_proxy and the like"),
    ("--no-hosts", "leave it out: the pod's own /etc/hosts is written for it"),
];

/// All options of other tools.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    FOREIGN.iter().chain(services::FOREIGN).copied()
}

/// The remedy for an option of another tool.
pub fn counterpart(option: &str) -> Option<&'static str> {
    if option.starts_with("--unshare-") {
        return Some(ISOLATED);
    }
    all().find(|(name, _)| *name == option).map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::super::tests::line;
    use super::*;
    use crate::args::Hull;
    use clap::CommandFactory;

    #[test]
    fn other_tools_options_lead_to_ours() {
        for (name, text) in all() {
            assert_eq!(line(&format!("hull run {name} x")), format!("{name}: Hull has no such option; {text}"));
        }
        assert!(line("hull run --unshare-all --share-net -- ls").ends_with(ISOLATED));
        assert!(line("hull run -itd debian").starts_with("-d: "));
        assert!(line("hull trace -p 1 -- ls").ends_with("see hull trace --help"));
        assert!(line("hull run --memroy 1G -- ls").contains("did you mean --memory?"));
        assert!(line("hull run --privte-size 1G -- ls").contains("did you mean --private-size?"));
        // Options of firejail and systemd-run.
        assert!(line("hull run --whitelist=/srv -- ls").contains("--ro PATH"));
        assert!(line("hull run --rlimit-nofile=9 -- ls").contains("--ulimit nofile=N"));
        assert!(line("hull run --property=MemoryMax=1G -- ls").contains("systemd-run"));
        // What is like none of them is not taken for one.
        for unknown in ["--frobnicate", "--retry", "--image-volume"] {
            assert!(line(&format!("hull run {unknown} -- ls")).ends_with("; see hull run --help"), "{unknown}");
        }
    }

    /// Options of `FOREIGN` are not Hull's; options in its remedies are.
    #[test]
    fn the_table_is_true() {
        let mut hull = Hull::command();
        hull.build();
        let run = hull.find_subcommand("run").unwrap();
        let ours: Vec<String> = run.get_arguments().filter_map(|a| a.get_long()).map(|l| format!("--{l}")).collect();
        let short: Vec<String> = run.get_arguments().filter_map(|a| a.get_short()).map(|c| format!("-{c}")).collect();
        for (name, text) in all() {
            assert!(!ours.contains(&name.into()) && !short.contains(&name.into()), "{name} is an option of Hull");
            for word in text.split([' ', '(', ')', ':', ',', ';']).filter(|word| word.starts_with("--")) {
                assert!(
                    matches!(word, "--" | "--pdeathsig") || ours.contains(&word.into()),
                    "{name}: {word} does not exist"
                );
            }
        }
    }
}

//! `hull run` and `hull trace`.

use crate::args::{RunArgs, default_cpus};
use crate::container::Chosen;
use crate::cpus::Cpus;
use crate::environment::{self, Variables, Wanted};
use crate::failure::{Failure, Result, reason};
use crate::network::{self, NetMode};
use crate::pods::{Entry, Registry};
use crate::values::PassFd;
use crate::view::View;
use crate::{broker, cgroup, container, identity, limits, policy, record, report, signals};
use ::broker::server::setup::WantedPlace;
use abi::boot::{Passed, PodConfig, Trace};
use monitor::RunConfig;
use monitor::connectors::streams::StreamsConnector;
use monitor::connectors::streams::passed::look;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Longest host name in bytes (Linux `__NEW_UTS_LEN`).
const MAX_HOSTNAME: usize = 64;
/// Digits of a container's id in its host name.
const HOST_DIGITS: usize = 12;
/// umask of a container's first program.
const CONTAINER_MASK: u32 = 0o022;

/// Runs a program in a pod; returns its exit code. `trace`: the trace configuration and its output file.
pub fn run(options: RunArgs, trace: Option<(Trace, Option<File>)>) -> Result<u8> {
    limits::check_files()?;
    let mut options = policy::apply(options)?;
    let names_image = options.names_image && options.container.root.is_none();
    let image = options.program.first().filter(|_| names_image).map(|word| word.to_string_lossy().into_owned());
    // Which ports there are to publish, the image knows.
    let early = if options.network.publish_all { Some(choose(&mut options)?) } else { None };
    if let Some(chosen) = &early {
        let exposed = chosen.as_ref().map(Chosen::exposed).transpose()?.unwrap_or_default();
        options.network.publish_exposed(&exposed)?;
    }
    options.network.find_ports()?;
    let has_network = options.network.mode()? != NetMode::None;
    // It starts while this process opens the grants.
    let id = container::id();
    let registered = register(&options, &id, has_network)?;
    let wanted = has_network || registered.is_some();
    let broker = if wanted { Some(start_broker(&options, registered.as_ref())?) } else { None };
    let has_records = options.network.audit.is_some() || options.network.record_policy.is_some();
    let _ending = broker.as_ref().filter(|_| has_records || registered.is_some()).map(broker::Starting::ending);
    let _ending = _ending.transpose()?;
    let memory = Some(cgroup::pod_memory(options.memory)?);
    let mut options = RunArgs { memory, ..options };
    let (name, ports) = (options.name.clone(), options.network.ports());
    let mut chosen = match early {
        Some(chosen) => chosen,
        None => choose(&mut options)?,
    };
    // A pod's image stays in the store.
    let _held = chosen.as_mut().and_then(Chosen::hold);
    let mut config = configure(options, chosen.as_ref(), trace, &id)?;
    let host = |what| move |error| Failure::request(what, reason(&error), "see `hull doctor`");
    limits::raise_files();
    if config.jail.weak {
        warn_of_weakness();
    }
    let signals = signals::hold().map_err(host("signals"))?;
    let reproduction = report::reproduction();
    let broker = broker.map(broker::Starting::ready).transpose()?;
    let place = broker.as_ref().is_some_and(|broker| broker.place.is_some());
    // Closes the registry: from a directory outside of the jail's root the monitor could reach other files' names.
    if let Some((registry, place_name)) = registered.filter(|_| place) {
        registry.write(&place_name, &Entry::new(id, name, image, &config.pod.argv, ports))?;
    }
    // Held as long as this process lives.
    let _place = broker.map(|broker| {
        config.broker = Some(broker.socket).filter(|_| has_network);
        config.prepared = broker.table;
        broker.place
    });
    monitor::run(config, || signals.pass_on()).map_err(|error| match error {
        monitor::Error::Keel(report) => Failure::Keel { report, reproduction },
        other => Failure::Pod(other),
    })
}

/// The root that the options choose; takes its name out of the words of the program.
fn choose(options: &mut RunArgs) -> Result<Option<Chosen>> {
    options.container.choose(&mut options.program, options.names_image, options.network.quiet)
}

/// The registry and the pod's name in it, if the pod has a name or a broker that can hold its place.
fn register(options: &RunArgs, id: &str, has_network: bool) -> Result<Option<(Registry, String)>> {
    match (&options.name, has_network) {
        (Some(name), _) => Ok(Some((Registry::create()?, name.clone()))),
        // Without a registry it is not listed.
        (None, true) => Ok(Registry::create().ok().map(|registry| (registry, id.to_owned()))),
        (None, false) => Ok(None),
    }
}

/// Starts the process that opens sockets for the pod.
fn start_broker(options: &RunArgs, registered: Option<&(Registry, String)>) -> Result<broker::Starting> {
    // The user of a container is none of the host's.
    let is_container = options.names_image || options.container.root.is_some();
    let identity = options.user.as_deref().filter(|_| !is_container).map(identity::chosen).transpose()?;
    let identity = identity.map(|identity| (identity.uid, identity.gid, identity.groups));
    let mut setup = options.network.setup(identity, options.weak_jail, record::policy(options));
    let mode = options.network.mode()?;
    (setup.network, setup.host) = (mode != NetMode::None, mode == NetMode::Host);
    setup.place = registered.map(|(registry, name)| WantedPlace {
        registry: registry.path().as_os_str().as_bytes().to_vec(),
        name: name.clone(),
        required: options.name.is_some(),
    });
    broker::start(&setup)
}

/// Warns about missing jail layers.
fn warn_of_weakness() {
    let lacks = [
        (monitor::jail::landlock_version().is_some(), "Landlock: a compromised monitor could open other files"),
        (monitor::jail::seccomp_available(), "seccomp: a compromised monitor could make any system call of the host"),
    ];
    for (_, what) in lacks.iter().filter(|(there, _)| !there) {
        // Ignore write errors on standard error.
        let _ =
            writeln!(std::io::stderr(), "hull: warning: --weak-jail: the host has no {what}; run only what you trust");
    }
}

/// Builds the configuration of a run of the pod `id`. Opens the granted files.
pub(crate) fn configure(
    mut options: RunArgs,
    chosen: Option<&Chosen>,
    trace: Option<(Trace, Option<File>)>,
    id: &str,
) -> Result<RunConfig> {
    let (trace, trace_output) = trace.map_or((None, None), |(trace, output)| (Some(trace), output));
    let counters = options
        .counters
        .as_ref()
        .map(File::create)
        .transpose()
        .map_err(|error| Failure::request("--counters", reason(&error), "name a file that can be written"))?;
    let here = std::env::current_dir().map_err(|error| {
        Failure::request("the current directory", reason(&error), "change to a directory that exists")
    })?;
    let mut view = View::default();
    let user = options.user.as_deref();
    let container = chosen.map(|chosen| options.container.container(chosen, user, &mut view, &here));
    if let Some(chosen) = chosen {
        options.program = options.container.program(chosen, options.program)?;
    }
    let no_host = options.no_host || container.is_some();
    let mut withheld = None;
    if !no_host {
        withheld = view.add_host(&here, &identity::caller());
    }
    for (grants, writable) in [(&options.ro, false), (&options.rw, true)] {
        for grant in grants {
            view.add(grant, writable, &here)?;
        }
    }
    options.container.add_volumes(&mut view, &here)?;
    if let Some(why) = withheld
        && !view.shows(&here)
    {
        let text =
            format!("hull: warning: the current directory is not granted: {why}; grant it with --ro . or --rw .");
        // Ignore write errors on standard error.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
    let cwd = match (&options.workdir, chosen) {
        (dir, Some(chosen)) => chosen.directory(dir.as_deref())?,
        (Some(dir), None) => here.join(dir),
        (None, None) if view.shows(&here) => here.clone(),
        (None, None) => PathBuf::from("/"),
    };
    let identity = match &options.user {
        // keel finds the user of a container.
        _ if container.is_some() => identity::Identity::default(),
        Some(user) => identity::chosen(user)?,
        None => identity::own(),
    };
    // Without --user both the pod and its monitor run as the caller of `hull`.
    let monitor_identity = (options.user.is_some() && container.is_none()).then(|| monitor::jail::Identity {
        uid: identity.uid,
        gid: identity.gid,
        groups: identity.groups.clone(),
    });
    let streams = StreamsConnector::new();
    let hostname = match options.hostname {
        None if container.is_some() => id.as_bytes()[..HOST_DIGITS].to_vec(),
        wanted => hostname(wanted)?,
    };
    let mut forced = Variables::new();
    forced.insert("PWD".into(), cwd.clone().into());
    if let Some((name, home)) = &identity.account {
        forced.extend([("USER", name), ("LOGNAME", name), ("HOME", home)].map(|(k, v)| (k.into(), v.into())));
    }
    let wanted = Wanted { all: options.env_all, files: &options.env_file, set: &options.env };
    let variables = match chosen {
        Some(chosen) => {
            let name = String::from_utf8_lossy(&hostname);
            chosen.variables(&environment::host(), &name, streams.window().is_some(), &wanted)?
        }
        None => environment::build(&environment::host(), forced, &wanted)?,
    };
    if !no_host {
        let path = variables.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        check_visible(&view, &options.program, &path, &here, &cwd)?;
    }
    let mut given = if no_host { Vec::new() } else { view.given() };
    let mode = options.network.mode()?;
    let network = (mode != NetMode::None).then(|| network::device(mode == NetMode::Host));
    given.extend(options.network.files(mode, &hostname));
    let (mut exports, mounts, links) = view.open()?;
    exports.iter_mut().for_each(|export| export.keep_setid = options.keep_setid);
    let mut rights = options.rights.rights()?;
    rights.settings.extend(options.network.settings());
    rights.processor_time = Cpus::quota(options.cpus);
    let (passed, descriptors) = passed(&options.pass_fd)?;
    let pod = PodConfig {
        argv: options.program.into_iter().map(OsString::into_vec).collect(),
        env: environment::strings(variables),
        cwd: cwd.into_os_string().into_vec(),
        cwd_named: options.workdir.is_some(),
        uid: identity.uid,
        gid: identity.gid,
        groups: identity.groups,
        umask: if container.is_some() { CONTAINER_MASK } else { mask() },
        hostname,
        host_release: rustix::system::uname().release().to_bytes().to_vec(),
        host_version: rustix::system::uname().version().to_bytes().to_vec(),
        limits: options.container.limit(limits::all()),
        exports: mounts,
        links,
        given,
        container,
        private_limit: options.private_size,
        streams: streams.kinds(),
        passed: descriptors,
        window: streams.window(),
        trace,
        network,
        rights,
        stop_signal: options.container.stop_signal(chosen)?,
    };
    options.container.record(id)?;
    let rates = crate::rate::rates(&options.rate);
    let cpus = Cpus::or_default(options.cpus, default_cpus);
    Ok(RunConfig {
        memory_limit: options.memory.unwrap_or(cgroup::DEFAULT_MEMORY),
        cpus: cpus.count(),
        cpu_share: cpus.share(),
        busy_cpus: options.busy_cpus.unwrap_or_else(|| u32::try_from(monitor::processors()).unwrap_or(u32::MAX)),
        syscalls: options.syscalls.into(),
        doorbell: options.doorbell.into(),
        // Bytes of mapped pages can't be counted.
        shared_pages: !options.no_shared_pages && rates.files.bytes.is_none(),
        rates,
        timeout: options.timeout.filter(|timeout| !timeout.is_zero()),
        fail_keel: options.fail_keel.map(Into::into),
        exports,
        passed,
        broker: None,
        prepared: None,
        jail: monitor::jail::Settings {
            identity: monitor_identity,
            weak: options.weak_jail,
            ..monitor::jail::Settings::default()
        },
        counters,
        trace_output,
        pod,
    })
}

/// Descriptors of `--pass-fd`: the host's, and their numbers in the pod.
fn passed(wanted: &[PassFd]) -> Result<(Vec<OwnedFd>, Vec<Passed>)> {
    let (mut fds, mut descriptors): (Vec<OwnedFd>, Vec<Passed>) = Default::default();
    for PassFd { host, pod } in wanted {
        let wrong = |(why, remedy): (&str, &str)| Failure::request(format!("--pass-fd {host}"), why, remedy);
        let fd = monitor::jail::inherited(*host)
            .map_err(|_| wrong(("no such descriptor is open", "open it for hull, as in `hull run … 3<FILE`")))?;
        let (kind, flags) = look(&fd).map_err(wrong)?;
        if descriptors.iter().any(|other| other.number == *pod) {
            return Err(wrong(("another one has that number in the pod", "choose another one with N:M")));
        }
        fds.push(fd);
        descriptors.push(Passed { number: *pod, kind, flags });
    }
    Ok((fds, descriptors))
}

/// The umask; it can be read only by setting it.
fn mask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

fn hostname(option: Option<String>) -> Result<Vec<u8>> {
    let Some(name) = option else {
        return Ok(rustix::system::uname().nodename().to_bytes().to_vec());
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if name.is_empty() || name.len() > MAX_HOSTNAME || !name.chars().all(plain) {
        let remedy = "use up to 64 letters, digits, dots, hyphens and underscores";
        return Err(Failure::request(format!("--hostname {name}"), "not a host name", remedy));
    }
    Ok(name.into_bytes())
}

/// Fails early, with a remedy, if the program exists on the host but not in the pod. keel reports all other errors of
/// the program, as execve(2) does.
fn check_visible(view: &View, program: &[OsString], path: &OsStr, here: &Path, cwd: &Path) -> Result<()> {
    let Some(name) = program.first() else { return Ok(()) };
    let hidden: Option<PathBuf> = if name.as_bytes().contains(&b'/') {
        // A relative name is resolved in the pod's working directory.
        let file = if cwd == here { here.join(name) } else { PathBuf::from(name) };
        (file.is_absolute() && file.is_file() && !view.shows(&file)).then_some(file)
    } else {
        let found: Vec<PathBuf> =
            std::env::split_paths(path).map(|dir| here.join(dir).join(name)).filter(|file| executable(file)).collect();
        if found.iter().any(|file| view.shows(file)) { None } else { found.into_iter().next() }
    };
    match hidden {
        None => Ok(()),
        Some(file) => Err(Failure::NotVisible {
            program: file.display().to_string(),
            directory: file.parent().unwrap_or(Path::new("/")).display().to_string(),
        }),
    }
}

fn executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, Hull};
    use clap::Parser;

    fn config(line: &[&str]) -> Result<RunConfig> {
        let line = ["hull", "run"].iter().chain(line);
        match Hull::try_parse_from(line).unwrap().command {
            Command::Run(options) => configure(options, None, None, &container::id()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pod_like_the_host() {
        let config = config(&["-e", "HULL_TEST=1", "--hostname", "box", "--", "true", "x"]).unwrap();
        assert_eq!(config.pod.argv, [b"true".to_vec(), b"x".to_vec()]);
        assert_eq!(config.pod.hostname, b"box");
        assert_eq!(config.pod.uid, rustix::process::geteuid().as_raw());
        assert!(config.pod.env.contains(&b"HULL_TEST=1".to_vec()));
        assert!(config.pod.exports.iter().any(|export| export.at == b"/usr"));
        assert_eq!(config.pod.exports.len(), config.exports.len());
        assert_eq!(config.timeout, None);
    }

    #[test]
    fn an_empty_pod() {
        let config = config(&["--no-host", "-u", "7:8", "--timeout", "0", "--", "/x"]).unwrap();
        assert!(config.pod.exports.is_empty() && config.pod.links.is_empty());
        assert_eq!((config.pod.cwd, config.pod.uid, config.pod.gid), (b"/".to_vec(), 7, 8));
        assert_eq!(config.timeout, None);
    }

    #[test]
    fn invisible_programs_are_explained() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let file = dir.join("prog");
        std::fs::write(&file, "x").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let failure = config(&["--", file.to_str().unwrap()]).unwrap_err();
        assert_eq!(failure.code(), 127);
        assert!(failure.to_string().contains("--ro"));
        let path = format!("PATH={}", dir.display());
        assert_eq!(config(&["-e", &path, "--", "prog"]).unwrap_err().code(), 127);
        config(&["--ro", dir.to_str().unwrap(), "--", file.to_str().unwrap()]).unwrap();
        config(&["--", "/none/such"]).unwrap();
    }

    #[test]
    fn failures_are_one_line() {
        let line = |line: &[&str]| config(line).unwrap_err().to_string();
        assert_eq!(line(&["--ro", "/no/such", "--", "ls"]), "--ro /no/such: no such file or directory; check the path");
        assert!(line(&["-u", "no-such-user", "--", "ls"]).starts_with("--user no-such-user: "));
        assert!(line(&["--hostname", "a b", "--", "ls"]).starts_with("--hostname a b: "));
        assert!(line(&["-e", "=x", "--", "ls"]).starts_with("--env =x: "));
    }
}

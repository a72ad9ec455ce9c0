//! The command line.

use crate::container::ContainerArgs;
use crate::cpus::Cpus;
use crate::images::args as images;
use crate::rate::RateLimit;
use crate::trace::TraceArgs;
use crate::values::{Grant, PassFd, amount, duration, pass_fd, size};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const ABOUT: &str = "Run unmodified Linux programs, each in its own thin virtual machine";

const LONG_ABOUT: &str = "\
Run unmodified Linux programs, each in its own thin virtual machine.

A pod sees only the files that its command line grants, and reaches only the network peers that it allows. The rest \
of the host (other files, processes, devices) does not exist in it. Writes to files that were granted read-only stay in the pod's memory \
and are lost when the pod ends.";

const EXIT_CODES: &str = "\
Exit codes:
  0-123, 128+  the program's own; 128+N if signal N ended it
  124          --timeout passed
  125          Hull failed, or its options are wrong
  126          the program can't be executed
  127          the program was not found";

const EXAMPLES: &str = "\
Examples:
  hull run -- ls -l                          list the current directory
  hull run -- python3 script.py <in >out     standard streams work as usual
  hull run --rw . -- make -j2                let a build write here
  hull run --ro /srv/data:/data -- sort /data/names
  hull run --no-host --ro ./rootfs:/ -- /bin/sh
  hull run --memory 2G --timeout 30s -- ./untrusted
  hull run --allow pypi.org:443 -- curl https://pypi.org/
  hull run -p 8080:80 -- ./server";

/// `hull`.
#[derive(Debug, Parser)]
#[command(name = "hull", version, about = ABOUT, long_about = LONG_ABOUT, after_long_help = EXIT_CODES)]
pub struct Hull {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Hull {
    /// Replaces docker's longer form of a command for images, `hull image ls`, by the short one.
    pub fn shortened(mut words: Vec<OsString>) -> Vec<OsString> {
        let word = |at: usize| words.get(at).and_then(|word| word.to_str());
        let short = match (word(1), word(2)) {
            (Some("image"), Some("ls" | "list")) => "images",
            (Some("image"), Some("rm" | "remove")) => "rmi",
            (
                Some("image"),
                Some(same @ ("history" | "import" | "inspect" | "load" | "prune" | "pull" | "push" | "save" | "tag")),
            ) => same,
            (Some("container"), Some(same @ ("run" | "cp" | "port"))) => same,
            (Some("container"), Some("ls" | "list" | "ps")) => "ps",
            _ => return words,
        };
        let short = OsString::from(short);
        words.splice(1..3, [short]);
        words
    }

    /// Parses a command line.
    pub fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        let mut parsed = Self::try_parse_from(words)?;
        let run = match &mut parsed.command {
            Command::Run(run) => run,
            Command::Trace(trace) => &mut trace.run,
            _ => return Ok(parsed),
        };
        // The words of the program are the last ones.
        let before = words.len().checked_sub(run.program.len() + 1).and_then(|at| words.get(at));
        run.names_image = before.is_none_or(|word| word != "--");
        Ok(parsed)
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an image, or a program of the host, in a pod
    #[command(override_usage = "hull run [OPTIONS] IMAGE [COMMAND]...\n       hull run [OPTIONS] -- PROGRAM [ARGS]...", after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), long_about = "\
Run an image, or a program of the host, in a pod.

A pod of an image sees the image's files only, and has its environment, user and working directory. A command after the \
image's name replaces the image's.

With a program after `--`, the pod sees the world-readable files of the host's /usr, /bin, /sbin, /lib*, /etc and /opt, and the current \
directory, all read-only: writes there stay in the pod. The home directory, its parents and top-level \
directories must be granted explicitly (--ro .). The program gets PATH, HOME, USER, LOGNAME, SHELL, TERM, \
COLORTERM, LANG, LC_* and TZ of hull's environment (see --env and --env-all) and hull's standard streams.")]
    Run(RunArgs),
    /// Run a program and print its system calls to standard error
    #[command(override_usage = "hull trace [OPTIONS] -- PROGRAM [ARGS]...", after_long_help = EXIT_CODES,
        mut_arg("env", |env| env.short(None)), mut_arg("tty", |tty| tty.short(None)),
        mut_arg("publish", |publish| publish.short(None)), mut_arg("publish_all", |all| all.short(None)), long_about = "\
Run a program in a pod and print its system calls, and those of its children, to standard error: thread id, \
arguments and result of each. Takes the options of `hull run` (--env, --tty and --publish have no short form here) and \
some of strace's, under strace's names.")]
    Trace(TraceArgs),
    /// Fetch an image from a registry
    #[command(long_about = "\
Fetch an image from a registry into the store. Credentials are those of `docker login` and `podman login`, helper programs \
included. Digests and sizes are verified; a transfer that breaks off goes on where it was.")]
    Pull(images::PullArgs),
    /// Send an image to the registry of its name
    Push(images::PushArgs),
    /// Make an image of a root file system: of a tar archive or a folder
    Import(images::ImportArgs),
    /// Read images from an archive or a folder into the store
    #[command(long_about = "\
Read images from an archive or a folder into the store: of `docker save`, `podman save` and `skopeo copy`, packed with \
gzip, zstd, or not at all. Digests and sizes are verified; either all images of an archive are added or none.")]
    Load(images::LoadArgs),
    /// List the images of the store
    Images(images::ImagesArgs),
    /// Print an image's configuration and layers as JSON
    Inspect(images::InspectArgs),
    /// List the steps that made an image
    History(images::HistoryArgs),
    /// Give an image another name
    Tag(images::TagArgs),
    /// Write images to an archive that docker, podman and skopeo read
    Save(images::SaveArgs),
    /// Copy files of an image to the host, or files of the host into an image
    #[command(
        override_usage = "hull cp [OPTIONS] IMAGE:PATH DEST|-\n       hull cp [OPTIONS] FILE|- IMAGE:PATH",
        long_about = "\
Copy a file or directory of an image to the host, without a pod. Into DEST if it is a directory, else in its place; with `-`, as a tar archive to \
standard output. Files that are there are replaced, directories merged. Nothing outside of DEST is written, whatever links the image has, and no \
devices are made.\n\n\
Copied into an image, the files become a layer of a new image, which takes over the name; the image itself stays, without the name. The id of the \
new image is printed."
    )]
    Cp(images::CopyArgs),
    /// Remove names of images; the last name takes the image with it
    Rmi(images::RmiArgs),
    /// Remove images without a name, and files that interrupted commands left
    Prune(images::PruneArgs),
    /// List running pods that have a name or a network
    #[command(long_about = "\
List running pods of the user that have a name (--name) or a network by policy, the youngest first. Other pods leave no trace in the \
registry, and are not listed.")]
    Ps(crate::pods::PsArgs),
    /// List the published ports of a running pod
    Port(crate::pods::PortArgs),
    /// Check and explain policy files; change the rules of running pods
    Policy(crate::policy::PolicyArgs),
    /// Check whether this machine can run pods
    #[command(long_about = "\
Check whether this machine can run pods: KVM, the kernel, limits. Prints one line per check, with a remedy \
if it fails; exits with 0 if pods can run, with 125 otherwise.")]
    Doctor(DoctorArgs),
    /// Measure pods side by side with the host
    #[command(long_about = "\
Measure pods side by side with the host: system calls, processor, processes, files, commands, starts. Each is \
measured alternately on the host and in a pod; the table shows the medians, half the interquartile range, and \
host time divided by pod time (above 1: the pod is faster).")]
    Bench(bench::Options),
    /// One of the programs that `bench` measures
    #[command(hide = true)]
    BenchWorkload(bench::workload::Options),
    /// Sets the terminal's attributes when standard input ends
    #[command(hide = true)]
    KeepTerminal(crate::keeper::Options),
    /// Opens sockets for a pod
    #[command(hide = true)]
    ServeBroker,
    /// Records the end of a broker that is killed
    #[command(hide = true)]
    RecordBroker {
        /// Process id of the pod
        pod: i32,
    },
}

/// Options of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Upper limit of the default of `--cpus`.
const DEFAULT_CPUS: usize = 4;

/// Default of `--cpus`: the host processors that this process may use, up to [`DEFAULT_CPUS`].
pub fn default_cpus() -> Cpus {
    Cpus::whole(monitor::processors().clamp(1, DEFAULT_CPUS))
}

/// Options of `run` and `trace`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Memory limit of the pod in bytes, at least 6M; suffixes K, M, G, T [default: 512M, or less if the host's cgroup limits hull]
    #[arg(short, long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,

    /// Limit for files in the pod's memory in bytes, all file systems together; writes beyond it fail with ENOSPC
    /// [default: half of the memory for each file system]
    #[arg(long, value_name = "SIZE", value_parser = amount)]
    pub private_size: Option<u64>,

    /// Number of processors, also a fraction: 1.5 are two virtual CPUs that use as much processor time as one and a half; 0: the default
    /// [default: those of the host, at most 4]
    #[arg(long, value_name = "N", value_parser = Cpus::parse)]
    pub cpus: Option<Cpus>,

    /// Limit what the pod uses of its granted files, or of the network, per second: bytes (files=10M), or operations
    /// (network=500op). What exceeds the rate waits. Repeatable
    #[arg(long, value_name = "files|network=AMOUNT", value_parser = crate::rate::parse)]
    pub rate: Vec<RateLimit>,

    /// Add the grants, limits and variables of a policy file; other options win over its limits and variables
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,

    /// Grant a host directory or file, read-only: writes stay in the pod. Repeatable
    #[arg(long, value_name = "PATH[:AT]", value_parser = OsStringValueParser::new().try_map(Grant::parse))]
    pub ro: Vec<Grant>,

    /// Grant a host directory or file, writable: writes go to the host. Repeatable
    #[arg(long, value_name = "PATH[:AT]", value_parser = OsStringValueParser::new().try_map(Grant::parse))]
    pub rw: Vec<Grant>,

    /// Let the pod set set-user-id and set-group-id bits and file capabilities on what --rw grants
    #[arg(long)]
    pub keep_setid: bool,

    /// Copy pages of granted files into the pod's memory instead of mapping the host's page cache, which pods share
    #[arg(long)]
    pub no_shared_pages: bool,

    /// Omit the default grants: the pod sees only --ro and --rw
    #[arg(long)]
    pub no_host: bool,

    /// Pass hull's open file descriptor N (3 or more) to the pod as M [default: N]: a file, a pipe, a connected stream
    /// socket or the terminal. Repeatable
    #[arg(long, value_name = "N[:M]", value_parser = pass_fd)]
    pub pass_fd: Vec<PassFd>,

    /// Set a variable; without a value, pass it from hull's environment. Repeatable
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,

    /// Set variables from a file: a NAME=VALUE or NAME on each line, `#` begins a comment. Repeatable
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<PathBuf>,

    /// Pass all of hull's environment, not only PATH, HOME, USER, LOGNAME, SHELL, TERM, COLORTERM, LANG, LC_* and TZ
    #[arg(long)]
    pub env_all: bool,

    /// Working directory in the pod [default: the current directory, or / if it is not granted]
    #[arg(short, long, value_name = "DIR")]
    pub workdir: Option<OsString>,

    /// User and group, names or numbers [default: those of hull]
    #[arg(short, long, value_name = "USER[:GROUP]")]
    pub user: Option<String>,

    /// Run even if the host lacks Landlock or seccomp to confine the monitor: a guest that breaks out of its virtual
    /// machine then has more access to the host
    #[arg(long)]
    pub weak_jail: bool,

    /// Name of the pod in `hull ps`, which no other running pod of the user may have
    #[arg(long, value_name = "NAME", value_parser = crate::pods::name)]
    pub name: Option<String>,

    /// Host name in the pod; also -h NAME [default: the host's]
    #[arg(long, value_name = "NAME")]
    pub hostname: Option<String>,

    /// End the pod after this time with exit code 124; suffixes ms, s, m, h, d; 0: no limit
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,

    /// Options of the network.
    #[command(flatten)]
    pub network: crate::network::NetworkArgs,

    /// How system calls enter the pod's kernel
    #[arg(long, value_enum, default_value_t = Syscalls::Call)]
    pub syscalls: Syscalls,

    /// How the pod notifies the host of requests
    #[arg(long, value_enum, default_value_t = Doorbell::Adaptive)]
    pub doorbell: Doorbell,

    /// Make the pod's kernel fail when the program ends, to test its report
    #[arg(long, value_enum, hide = true)]
    pub fail_keel: Option<FailKeel>,

    /// Write counts of the pod's exits to this file at the end, for measurements
    #[arg(long, value_name = "FILE", hide = true)]
    pub counters: Option<PathBuf>,

    /// Keep up to N virtual CPUs busy, whatever the number of host processors, to test locks
    #[arg(long, value_name = "N", hide = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub busy_cpus: Option<u32>,

    /// Ignored: standard input is always open
    #[arg(short, long)]
    pub interactive: bool,

    /// Ignored: the terminal is always connected
    #[arg(short, long)]
    pub tty: bool,

    /// Options about rights.
    #[command(flatten)]
    pub rights: crate::rights::RightsArgs,

    /// Options of containers.
    #[command(flatten)]
    pub container: ContainerArgs,

    /// An image and its command, or after `--` a program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "IMAGE [COMMAND]... | -- PROGRAM")]
    pub program: Vec<OsString>,

    /// The first word of `program` is an image: it does not follow `--`.
    #[arg(skip)]
    pub names_image: bool,
}

/// `--fail-keel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailKeel {
    /// By a panic
    Panic,
    /// By an exception
    Fault,
    /// By using up a kernel stack
    Stack,
}

/// `--syscalls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Syscalls {
    /// Patch call sites into calls after they trapped
    Call,
    /// Trap on every call
    Trap,
}

/// `--doorbell`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Doorbell {
    /// Choose by load
    Adaptive,
    /// The virtual CPU exits once for each batch
    Exit,
    /// An event wakes a helper thread
    Event,
    /// A helper thread polls
    Poll,
}

impl From<FailKeel> for monitor::KeelFailure {
    fn from(value: FailKeel) -> Self {
        match value {
            FailKeel::Panic => Self::Panic,
            FailKeel::Fault => Self::Fault,
            FailKeel::Stack => Self::Stack,
        }
    }
}

impl From<Syscalls> for monitor::Syscalls {
    fn from(value: Syscalls) -> Self {
        match value {
            Syscalls::Call => Self::Call,
            Syscalls::Trap => Self::Trap,
        }
    }
}

impl From<Doorbell> for monitor::Doorbell {
    fn from(value: Doorbell) -> Self {
        match value {
            Doorbell::Adaptive => Self::Adaptive,
            Doorbell::Exit => Self::Exit,
            Doorbell::Event => Self::Event,
            Doorbell::Poll => Self::Poll,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;
    use std::ffi::OsStr;

    fn run(line: &str) -> Result<RunArgs, ErrorKind> {
        match Hull::try_parse_from(line.split(' ')) {
            Ok(Hull { command: Command::Run(options) }) => Ok(options),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.kind()),
        }
    }

    #[test]
    fn definition_is_consistent() {
        Hull::command().debug_assert();
    }

    #[test]
    fn run_options() {
        let options =
            run("hull run -it -m 1G --cpus 2 --rw . --ro /a:/b --ro /c -e A=b -e C -u 1:2 -- sh -c true").unwrap();
        assert_eq!((options.memory, options.cpus), (Some(1 << 30), Some(Cpus::whole(2))));
        assert_eq!(options.program, ["sh", "-c", "true"]);
        assert_eq!(options.ro.len(), 2);
        assert_eq!(options.env, ["A=b", "C"]);
        assert_eq!(options.syscalls, Syscalls::Call);
        let options = run("hull run --syscalls=trap --doorbell=poll --timeout 1.5s -- -x --help").unwrap();
        assert_eq!((options.syscalls, options.doorbell), (Syscalls::Trap, Doorbell::Poll));
        assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(options.program, ["-x", "--help"]);
        assert_eq!(options.memory, None);
    }

    #[test]
    fn images_and_programs() {
        let run = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            match Hull::parse_words(&words).unwrap().command {
                Command::Run(RunArgs { program, names_image, .. }) => (names_image, program.join(OsStr::new(" "))),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(run("hull run -m 1G debian"), (true, "debian".into()));
        assert_eq!(run("hull run debian ls -l --memory x -- y"), (true, "debian ls -l --memory x -- y".into()));
        assert_eq!(run("hull run -it --rm debian sh -c true"), (true, "debian sh -c true".into()));
        assert_eq!(run("hull run -- ls -l"), (false, "ls -l".into()));
        assert_eq!(run("hull run -m 1G -- -x -- y"), (false, "-x -- y".into()));
    }

    #[test]
    fn commands_have_a_longer_form() {
        for (long, short) in [
            ("hull image ls -q", "hull images -q"),
            ("hull image rm x", "hull rmi x"),
            ("hull image inspect x", "hull inspect x"),
            ("hull container ls", "hull ps"),
            ("hull image", "hull image"),
            ("hull image build", "hull image build"),
            ("hull run image ls", "hull run image ls"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(Hull::shortened(words(long)), words(short));
        }
    }

    #[test]
    fn wrong_options_are_refused() {
        assert_eq!(run("hull run").unwrap_err(), ErrorKind::MissingRequiredArgument);
        assert_eq!(run("hull run --").unwrap_err(), ErrorKind::MissingRequiredArgument);
        assert_eq!(run("hull run --memory 1Q -- ls").unwrap_err(), ErrorKind::ValueValidation);
        assert_eq!(run("hull run --memory 1M -- ls").unwrap_err(), ErrorKind::ValueValidation);
        assert_eq!(run("hull run --cpus 0.001 -- ls").unwrap_err(), ErrorKind::ValueValidation);
        assert_eq!(run("hull run --cpus 99 -- ls").unwrap_err(), ErrorKind::ValueValidation);
        assert_eq!(run("hull run --doorbell=x -- ls").unwrap_err(), ErrorKind::InvalidValue);
        assert_eq!(run("hull run --timeout soon -- ls").unwrap_err(), ErrorKind::ValueValidation);
        assert_eq!(run("hull run --ro : -- ls").unwrap_err(), ErrorKind::ValueValidation);
        assert_eq!(run("hull --help").unwrap_err(), ErrorKind::DisplayHelp);
        assert_eq!(run("hull --version").unwrap_err(), ErrorKind::DisplayVersion);
    }
}

//! `hull bench net`: a program on the host or in a pod talks to peers outside, and is watched for a while.

mod peers;
pub mod web;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::catalog::net::{RULES, Talk};
use crate::idle::{activity, family};
use crate::place::Place;
use crate::run::{pod, small_environment};

/// Time from the first operation to the measurement.
const WARM: Duration = Duration::from_millis(200);
/// Duration of the measurement.
const WATCH: Duration = Duration::from_millis(500);
/// Within this time a program must begin to talk.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// The program on the host.
    Host,
    /// In a pod with the rules that it needs.
    Pod,
    /// With [`RULES`] more.
    Rules,
}

/// What the peers count, and whether they should end.
#[derive(Debug, Default)]
pub struct Score {
    operations: AtomicU64,
    /// Times from a request to its answer in ns, of the measurement only.
    latencies: Mutex<Vec<u64>>,
    measuring: AtomicBool,
    over: AtomicBool,
}

impl Score {
    fn count(&self, operations: u64) {
        self.operations.fetch_add(operations, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn took(&self, latency: Duration) {
        if self.measuring.load(Ordering::Relaxed) {
            self.latencies.lock().unwrap_or_else(|e| e.into_inner()).push(latency.as_nanos() as u64);
        }
    }

    /// The latency that this part of the operations did not exceed, in ns.
    fn quantile(&self, part: f64) -> Result<f64> {
        let mut all = self.latencies.lock().unwrap_or_else(|e| e.into_inner());
        all.sort_unstable();
        let last = all.len().checked_sub(1).context("nothing was measured")?;
        Ok(all[(part * last as f64).round() as usize] as f64)
    }
}

/// A program that is killed when this is dropped.
#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Ignore the error if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A sample of the rows of `talk`, in the order of [`Talk::rows`]; a row that does not exist in a setting is NaN.
pub fn measure(talk: Talk, setting: Setting, options: &[&str], place: &Place) -> Result<Vec<f64>> {
    if let Talk::Web { kib } = talk {
        return web::measure(kib, setting, options, place);
    }
    let score = Score::default();
    let counters = place.directory.join("counters");
    let options: Vec<&str> = ["--counters", counters.to_str().context("a path is no text")?]
        .into_iter()
        .chain(options.iter().copied())
        .collect();
    let options = &options[..];
    let (peer, argument, is_server) = arrange(talk)?;
    thread::scope(|scope| {
        // The scope waits for the peers, however this ends.
        let over = Over(&score);
        let program = start(talk, setting, options, place, peer.address()?, &argument, is_server)?;
        let thread = scope.spawn(|| peer.talk(&score));
        let result = watch(&score, &program, || thread.is_finished());
        drop(over);
        let operations = score.operations.load(Ordering::Relaxed);
        let result = result.and_then(|measured| {
            let exits =
                if setting == Setting::Host { f64::NAN } else { exits(program, &counters)? / operations as f64 };
            let value = |row: &&str| match *row {
                "" => Ok(measured.time),
                "-cpu" => Ok(measured.cpu),
                "-p50" => score.quantile(0.5),
                "-p99" => score.quantile(0.99),
                _ => Ok(exits),
            };
            talk.rows().iter().map(value).collect()
        });
        match thread.join() {
            Ok(outcome) => result.and_then(|numbers| outcome.map(|()| numbers)),
            Err(_) => bail!("a peer panicked"),
        }
    })
}

struct Over<'a>(&'a Score);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// The peer, the arguments of the program after the address, and whether the program is a server.
fn arrange(talk: Talk) -> Result<(peers::Peer, String, bool)> {
    use peers::Peer;
    let listener = || TcpListener::bind("127.0.0.1:0");
    Ok(match talk {
        Talk::UdpServer { peers, outstanding } => {
            (Peer::UdpClients { server: free_port(false)?, peers, outstanding }, "udp-server".into(), true)
        }
        Talk::UdpClient { outstanding } => {
            (Peer::UdpServer(UdpSocket::bind("127.0.0.1:0")?), format!("udp-client {outstanding}"), false)
        }
        Talk::BulkOut => (Peer::Sink(listener()?), "bulk-out".into(), false),
        Talk::BulkIn => (Peer::Source(listener()?), "bulk-in".into(), false),
        Talk::Messages { bytes, count } => {
            let round = bytes as usize * count as usize;
            (Peer::Rounds { listener: listener()?, round }, format!("messages {bytes} {count}"), false)
        }
        Talk::Request => (Peer::Answers(listener()?), "request".into(), false),
        Talk::Connect => (Peer::Accepts(listener()?), "connect".into(), false),
        Talk::Answer => (Peer::Asks(free_port(true)?), "answer".into(), true),
        Talk::Accept => (Peer::Connects(free_port(true)?), "accept".into(), true),
        Talk::Web { .. } => bail!("nginx has clients of its own"),
    })
}

/// A port of the host's loopback device that nobody has at the moment.
fn free_port(tcp: bool) -> Result<SocketAddr> {
    let any = "127.0.0.1:0";
    Ok(if tcp { TcpListener::bind(any)?.local_addr()? } else { UdpSocket::bind(any)?.local_addr()? })
}

fn start(
    talk: Talk,
    setting: Setting,
    options: &[&str],
    place: &Place,
    address: SocketAddr,
    argument: &str,
    is_server: bool,
) -> Result<Running> {
    let port = address.port();
    let udp = matches!(talk, Talk::UdpServer { .. });
    let network = match is_server {
        true => ["-p".into(), format!("127.0.0.1:{port}:{port}{}", if udp { "/udp" } else { "" })],
        false => ["--allow".into(), format!("host.hull.internal:{port}")],
    };
    let (base, seen) = match (setting, is_server) {
        (Setting::Host, _) => (place.directory.display().to_string(), address.to_string()),
        (_, true) => (Place::IN_POD.to_owned(), format!("0.0.0.0:{port}")),
        (_, false) => (Place::IN_POD.to_owned(), format!("10.0.2.2:{port}")),
    };
    let words = [format!("{base}/hull"), "bench-workload".into(), "net".into(), format!("{seen} {argument}")];
    spawn(setting, options, &network, place, &words)
}

/// Starts a program in a setting, with these options of its network in a pod.
fn spawn(setting: Setting, options: &[&str], network: &[String], place: &Place, words: &[String]) -> Result<Running> {
    let (program, arguments) = words.split_first().context("a command has words")?;
    let mut command = match setting {
        Setting::Host => Command::new(program),
        Setting::Pod | Setting::Rules => {
            let more = (0..if setting == Setting::Rules { RULES } else { 0 })
                .flat_map(|number| ["--allow".to_owned(), format!("tcp:192.0.2.{number}:80-90")]);
            let all: Vec<String> = more.chain(network.iter().cloned()).collect();
            let all: Vec<&str> = options.iter().copied().chain(all.iter().map(String::as_str)).collect();
            let mut command = pod(place, &all);
            command.arg(program);
            command
        }
    };
    small_environment(&mut command);
    command.args(arguments).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Running(command.spawn()?))
}

/// Counters at one moment.
struct Moment {
    at: Instant,
    operations: u64,
    cpu: f64,
}

fn moment(score: &Score, processes: &[u32]) -> Result<Moment> {
    let (operations, at) = (score.operations.load(Ordering::Relaxed), Instant::now());
    Ok(Moment { at, operations, cpu: activity(processes)?.nanoseconds })
}

/// What an operation took.
struct Measured {
    /// ns.
    time: f64,
    /// ns of processor time of all processes of the program or pod.
    cpu: f64,
}

/// Measures between two moments after the program has begun to talk.
fn watch(score: &Score, program: &Running, ended: impl Fn() -> bool) -> Result<Measured> {
    let begin = Instant::now();
    while score.operations.load(Ordering::Relaxed) == 0 {
        ensure!(!ended() && begin.elapsed() < PATIENCE, "the program did not begin to talk");
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(WARM);
    let processes = family(program.0.id());
    score.measuring.store(true, Ordering::Relaxed);
    let first = moment(score, &processes)?;
    thread::sleep(WATCH);
    let last = moment(score, &processes)?;
    score.measuring.store(false, Ordering::Relaxed);
    ensure!(!ended() && last.operations > first.operations, "the program stopped to talk");
    let operations = (last.operations - first.operations) as f64;
    Ok(Measured { time: (last.at - first.at).as_nanos() as f64 / operations, cpu: (last.cpu - first.cpu) / operations })
}

/// Ends a pod; how often it left its virtual CPUs, from its start.
fn exits(mut program: Running, counters: &Path) -> Result<f64> {
    let pid = rustix::process::Pid::from_child(&program.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
    program.0.wait()?;
    let counters: serde_json::Value = serde_json::from_slice(&std::fs::read(counters)?)?;
    counters["exits"].as_f64().context("the counters lack exits")
}

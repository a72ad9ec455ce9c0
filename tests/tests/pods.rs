//! The registry of running pods: names, `hull ps`, and what killed pods leave.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hull_tests::environment::{Scratch, set_variables};
use hull_tests::hull;

/// A registry of the test's own.
struct Registry(Scratch);

/// A pod that runs until its standard input ends.
struct Pod(Child);

impl Registry {
    fn new() -> Self {
        hull::require_kvm().unwrap();
        Self(Scratch::new().unwrap())
    }

    fn path(&self) -> String {
        self.0.0.join("pods").display().to_string()
    }

    /// The names in the registry's directory.
    fn names(&self) -> Vec<String> {
        let Ok(items) = fs::read_dir(self.path()) else { return Vec::new() };
        items.map(|item| item.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Starts a pod and waits until its program runs.
    fn start(&self, options: &[&str]) -> Pod {
        let mut command = hull::run_command(options, &["/bin/sh", "-c", "echo runs; read line || true"]).unwrap();
        command.env("HULL_RUNTIME_DIR", self.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut pod = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(pod.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "runs\n");
        Pod(pod)
    }

    /// Exit code, standard output and standard error of `hull`.
    fn hull(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(hull::binary().unwrap());
        set_variables(&mut command);
        let output = command.env("HULL_RUNTIME_DIR", self.path()).args(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    fn listed(&self, format: &str) -> String {
        let (code, out, error) = self.hull(&["ps", "--format", format]);
        assert_eq!((code, &*error), (0, ""));
        out
    }
}

impl Pod {
    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

#[test]
fn running_pods_are_listed() {
    let registry = Registry::new();
    let heading = "POD ID    IMAGE     COMMAND   CREATED   PID       PORTS     NAMES\n";
    assert_eq!(registry.hull(&["ps"]), (0, heading.to_owned(), String::new()));
    let cid = registry.0.0.join("cid").display().to_string();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let named = registry.start(&["--name", "web", "--cidfile", &cid]);
    let published = registry.start(&["-p", &format!("127.0.0.1:{port}:80")]);
    let unlisted = registry.start(&[]);
    let wanted = [
        format!("{}  127.0.0.1:{port}->80/tcp \"/bin/sh -c echo run…\"", published.0.id()),
        format!("{} web  \"/bin/sh -c echo run…\"", named.0.id()),
    ];
    let listed = registry.listed("{{.Pid}} {{.Names}} {{.Ports}} {{.Command}}");
    let mut lines: Vec<&str> = listed.lines().collect();
    // Those of one second are in the order of their ids.
    lines.sort_by_key(|line| line.contains("web"));
    assert_eq!(lines, wanted);
    let whole = registry.hull(&["ps", "--no-trunc", "--format", "{{.ID}} {{.Command}}"]).1;
    let id = fs::read_to_string(&cid).unwrap();
    assert!(whole.contains(&format!("{id} \"/bin/sh -c echo runs; read line || true\"\n")), "{whole}");
    assert!(registry.hull(&["ps", "-q"]).1.contains(&id[..12]));
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&registry.path()), mode(&format!("{}/web/entry", registry.path()))), (0o700, 0o600));
    unlisted.end();
    published.end();
    named.end();
    // Each took its entry with it before `hull` ended.
    assert!(registry.names().is_empty(), "{:?}", registry.names());
    assert_eq!(registry.listed("json"), "");
}

#[test]
fn a_used_name_is_an_error() {
    let registry = Registry::new();
    let pod = registry.start(&["--name", "db"]);
    let (code, out, error) = registry.hull(&["run", "--name", "db", "--", "/bin/echo", "ran"]);
    let wanted = format!(
        "hull: --name db: a pod of this name runs (process {}); choose another name, or end that pod\n",
        pod.0.id()
    );
    assert_eq!((code, &*out, error), (125, "", wanted));
    pod.end();
    let (code, out, error) = registry.hull(&["run", "--name", "db", "--", "/bin/echo", "ran"]);
    assert_eq!((code, &*out, &*error), (0, "ran\n", ""));
    for (name, why) in [("a/b", "not a name of a pod; "), ("", "a value is missing; "), ("..", "not a name of a pod; ")]
    {
        let (code, _, error) = registry.hull(&["run", "--name", name, "--", "/bin/true"]);
        assert_eq!((code, error.lines().count()), (125, 1), "{error}");
        assert!(error.contains(why), "{error}");
    }
    // An error after the name was taken gives it back.
    let (code, _, _) = registry.hull(&["run", "--name", "db", "--workdir", "/no/such", "--", "/bin/true"]);
    assert_eq!((code, registry.names()), (125, vec![]));
}

#[test]
fn killed_pods_leave_no_name() {
    let registry = Registry::new();
    let mut pod = registry.start(&["--name", "web"]);
    pod.0.kill().unwrap();
    pod.0.wait().unwrap();
    // The broker ends with the monitor, but not in the same moment.
    let begin = Instant::now();
    while !registry.listed("json").is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(registry.names().is_empty());
    let again = registry.start(&["--name", "web"]);
    again.end();
}

#[test]
fn a_pod_whose_broker_was_killed_keeps_its_name() {
    let registry = Registry::new();
    let pod = registry.start(&["--name", "web"]);
    let path = format!("/proc/{0}/task/{0}/children", pod.0.id());
    let broker = fs::read_to_string(path).unwrap().trim().to_owned();
    assert!(Command::new("kill").args(["-KILL", &broker]).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(registry.listed("{{.Names}}"), "web\n");
    let (code, _, error) = registry.hull(&["run", "--name", "web", "--", "/bin/true"]);
    assert_eq!(code, 125, "{error}");
    pod.end();
    assert_eq!(registry.listed("json"), "");
    assert!(registry.names().is_empty());
}

#[test]
fn a_broker_with_another_user_removes_its_entry() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let registry = Registry::new();
    let pod = registry.start(&["--name", "web", "--user", "65534:65534"]);
    assert_eq!(registry.listed("{{.Names}}"), "web\n");
    pod.end();
    assert!(!fs::exists(format!("{}/web/entry", registry.path())).unwrap());
    assert_eq!(registry.listed("json"), "");
    assert!(registry.names().is_empty());
}

#[test]
fn a_directory_of_others_is_no_registry() {
    let registry = Registry::new();
    fs::create_dir(registry.path()).unwrap();
    fs::set_permissions(registry.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for words in [&["ps"][..], &["run", "--name", "a", "--", "/bin/true"]] {
        let (code, _, error) = registry.hull(words);
        let wanted = format!(
            "hull: the registry of pods {}: it is not a directory of yours alone (mode 0700); remove it, or set \
             HULL_RUNTIME_DIR\n",
            registry.path()
        );
        assert_eq!((code, error), (125, wanted));
    }
    // Without a name the pod runs, and is not listed.
    let (code, out, error) = registry.hull(&["run", "--net", "policy", "--", "/bin/echo", "ran"]);
    assert_eq!((code, &*out, &*error), (0, "ran\n", ""));
}

#[test]
fn exposed_ports_get_free_ones_of_the_host() {
    let registry = Registry::new();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own = format!("{}:9", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
    let pod = registry
        .start(&["--name", "web", "-P", "--expose", "9", "--expose", "80-81", "--expose", "53/udp", "-p", &own]);
    let (code, out, error) = registry.hull(&["port", "web"]);
    assert_eq!((code, &*error), (0, ""));
    let ports = |kind: &str| -> Vec<u16> {
        let all = out.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(" -> 0.0.0.0:"));
        all.map(|port| port.parse().unwrap()).collect()
    };
    let (first, second, datagrams) = (ports("80/tcp"), ports("81/tcp"), ports("53/udp"));
    assert!(first.len() == 1 && second.len() == 1 && datagrams.len() == 1 && first != second, "{out}");
    assert_eq!(ports("9/tcp"), [own.split_once(':').unwrap().0.parse::<u16>().unwrap()]);
    assert!(!first.contains(&held.local_addr().unwrap().port()));
    let of = |port: &str| registry.hull(&["port", "web", port]);
    assert!(of("80").1.starts_with(&format!("0.0.0.0:{}\n", first[0])), "{out}");
    assert!(of("53/udp").1.starts_with(&format!("0.0.0.0:{}\n", datagrams[0])), "{out}");
    let (code, _, error) = of("53");
    assert_eq!((code, &*error), (125, "hull: pod web: port 53 is not published; see hull port without a port\n"));
    let (code, _, error) = registry.hull(&["port", "other"]);
    assert_eq!((code, &*error), (125, "hull: pod other: no such pod; see hull ps\n"));
    pod.end();
    // Without a port there is nothing to publish, and no network.
    let pod = registry.start(&["--name", "none", "-P"]);
    assert_eq!(registry.hull(&["port", "none"]), (0, String::new(), String::new()));
    pod.end();
}

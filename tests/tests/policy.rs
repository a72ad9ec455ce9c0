//! `hull policy` and `hull run --policy`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use hull_tests::environment::Scratch;
use hull_tests::hull;

struct Files(Scratch);

impl Files {
    fn new(policy: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        fs::write(scratch.0.join("policy.toml"), policy).unwrap();
        fs::write(scratch.0.join("data"), "content").unwrap();
        Self(scratch)
    }

    fn policy(&self) -> PathBuf {
        self.0.0.join("policy.toml")
    }
}

/// Exit code, standard output, standard error.
fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn policy(arguments: &[&str]) -> (i32, String, String) {
    outcome(Command::new(hull::binary().unwrap()).arg("policy").args(arguments))
}

fn run(files: &Files, options: &[&str], script: &str) -> (i32, String, String) {
    hull::require_kvm().unwrap();
    let policy = files.policy();
    let options: Vec<&str> = ["--policy", policy.to_str().unwrap()].iter().chain(options).copied().collect();
    outcome(&mut hull::run_command(&options, &["/bin/sh", "-c", script]).unwrap())
}

const NETWORK: &str = "version = 1\n[network]\nallow = ['*.debian.org:443', '10.0.0.0/8']\ndeny = ['10.9.0.0/16']\n";

#[test]
fn rules_are_explained() {
    let files = Files::new(NETWORK);
    let path = files.policy();
    let path = path.to_str().unwrap();
    let explain = |query: &str| {
        let (code, text, _) = policy(&["explain", path, query]);
        (code, text.lines().next().unwrap_or_default().to_owned())
    };
    let allowed = |why: &str| (0, why.to_owned());
    let denied = |why: &str| (1, why.to_owned());
    assert_eq!(explain("connect tcp 10.1.1.1:22"), allowed("connect: allowed by line 3: allow 10.0.0.0/8"));
    assert_eq!(explain("connect tcp [::ffff:10.9.1.1]:22").0, 125);
    assert_eq!(explain("connect udp 10.9.1.1:53"), denied("connect: denied by line 4: deny 10.9.0.0/16"));
    assert_eq!(explain("connect tcp [64:ff9b::a09:101]:22"), denied("connect: denied by line 4: deny 10.9.0.0/16"));
    assert_eq!(explain("resolve ftp.debian.org"), allowed("resolve: allowed by line 3: allow *.debian.org:443"));
    assert_eq!(explain("resolve example.org"), denied("resolve: denied: no rule allows it"));
    let (code, text, _) = policy(&["check", path]);
    assert_eq!(
        (code, &*text),
        (0, "allow *.debian.org:443\nallow 10.0.0.0/8\ndeny 10.9.0.0/16 (access)\nthe policy is valid\n")
    );
}

#[test]
fn mistakes_are_one_line() {
    let line = |content: &str| {
        let files = Files::new(content);
        let (code, text, error) = policy(&["check", files.policy().to_str().unwrap()]);
        assert_eq!((code, &*text, error.lines().count()), (125, "", 1), "{error}");
        error.split_once("policy.toml: ").unwrap().1.trim_end().to_owned()
    };
    assert_eq!(line("version = 7"), "line 1: this hull reads policies of version 1; see docs/policy.md");
    assert!(line("version = 1\n[network]\nallow = ['127.1']").starts_with("line 3: \"127.1\": an address in another"));
    assert!(line("version = 1\n[limits]\nmemory = 'much'").starts_with("memory = \"much\": not a size; "));
    let (code, _, error) = policy(&["check", "/no/such/file"]);
    assert_eq!(
        (code, &*error),
        (125, "hull: policy /no/such/file: no such file or directory; name a file that can be read\n")
    );
}

#[test]
fn grants_limits_and_variables_are_used() {
    let files = Files::new(
        "version = 1\n[files]\nread = ['data:/data']\nwrite = ['.:/out']\n[limits]\nmemory = '64M'\ntimeout = '20s'\n\
         [environment]\nset = { HULL_A = 'a', HULL_B = 'b' }\n",
    );
    let script = "cat /data; echo x >/data; echo y >/out/made; \
        echo \" $HULL_A $HULL_B\"; awk '/MemTotal/ { print ($2 < 65537) }' /proc/meminfo";
    assert_eq!(run(&files, &["-e", "HULL_B=c"], script), (0, "content a c\n1\n".to_owned(), String::new()));
    assert_eq!(fs::read_to_string(files.0.0.join("made")).unwrap(), "y\n");
    assert_eq!(fs::read_to_string(files.0.0.join("data")).unwrap(), "content");
    let (code, text, _) = run(&files, &["--memory", "128M"], "awk '/MemTotal/ { print ($2 > 65537) }' /proc/meminfo");
    assert_eq!((code, &*text), (0, "1\n"));
}

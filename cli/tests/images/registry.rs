//! Pull and push: with Debian's registry, and with servers that misbehave.

use super::support::*;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A process that ends with the test.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Debian's registry on a free port; its host and port.
pub fn registry(scene: &Scene, more: &str) -> (Running, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let host = format!("127.0.0.1:{port}");
    let config = format!(
        "version: 0.1\nlog: {{ level: error, accesslog: {{ disabled: true }} }}\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\nhttp:\n  addr: {host}\n{more}",
        scene.path("registry").display()
    );
    let config = scene.write("registry.yml", config.as_bytes());
    let child =
        Command::new("docker-registry").arg("serve").arg(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let running = Running(child.expect("docker-registry is needed"));
    for _ in 0..200 {
        if TcpStream::connect(&host).is_ok() {
            return (running, host);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the registry did not start");
}

#[test]
fn an_image_goes_to_a_registry_and_comes_back() {
    let scene = Scene::new();
    scene.umoci();
    let (_registry, host) = registry(&scene, "");
    let name = format!("{host}/folder/made:1");
    scene.hull(&["load", "-i", "layout"]);
    scene.hull(&["tag", "made", &name]);
    let digest = scene.hull(&["inspect", "-f", "{{.Descriptor.digest}}", "made"]);
    let pushed = scene.hull(&["push", "--insecure", &name]);
    assert!(pushed.starts_with(&format!("1: digest: {}", digest.trim())), "{pushed}");
    let raw = scene.run("skopeo", &["inspect", "--raw", "--tls-verify=false", &format!("docker://{name}")]);
    assert_eq!(sha256(raw.as_bytes()), digest.trim());
    // A registry on this machine may speak plain HTTP; this is found out at once.
    let begin = Instant::now();
    assert!(scene.hull(&["push", &name]).contains(digest.trim()));
    assert!(Scene::new().hull(&["pull", &name]).contains(digest.trim()));
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    // Not if its authority is named.
    let certificate = format!("{}", scene.path("ca.pem").display());
    scene.run(
        "sh",
        &[
            "-c",
            "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 2 2>/dev/null",
        ],
    );
    let line = scene.fails(&["pull", "--tls-ca", &certificate, &name]);
    assert!(line.contains("the registry must use https"), "{line}");
    // Again: all layers are there.
    let output = scene.command(&["push", "--insecure", &name]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("Layer already exists"));
    let by_digest = format!("{host}/folder/made@{}", digest.trim());
    assert_eq!(scene.hull(&["inspect", "-f", "{{index .RepoDigests 0}}", "made"]), by_digest.clone() + "\n");

    let other = Scene::new();
    let pulled = other.hull(&["pull", "--insecure", &name]);
    assert_eq!(pulled, format!("Digest: {digest}Status: Downloaded newer image for {name}\n{name}\n"));
    assert!(other.hull(&["pull", "--insecure", &name]).contains("Image is up to date"));
    assert_eq!(other.hull(&["pull", "-q", "--insecure", &by_digest]), by_digest.clone() + "\n");
    assert_eq!(other.inspect(&name)["RepoDigests"][0], by_digest.as_str());
    assert_eq!(other.inspect(&by_digest)["Id"], scene.inspect("made")["Id"]);
    let listed = other.hull(&["images", "--digests", "--format={{.Repository}} {{.Tag}} {{.Digest}}"]);
    assert_eq!(listed, format!("{host}/folder/made 1 {digest}"));
    fsck(&other.erofs(&name));
    other.hull(&["rmi", &name]);
    other.assert_empty("after rmi");
    // What runs is fetched first; its program is random bytes.
    let run = |options: &[&str], name: &str| {
        let output = other.command(&[&["run"], options, &[name]].concat()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, line) = run(&["--pull", "never"], &name);
    assert!(code == 125 && line.starts_with(&format!("hull: {name}: no such image; ")), "{line}");
    let (code, lines) = run(&[], &name);
    assert!(code == 126 && lines.starts_with(&format!("hull: {name}: not in the store, fetching it\n")), "{lines}");
    assert_eq!(run(&[], &name).1.lines().count(), 1);
    let (code, lines) = run(&["--pull", "always"], &name);
    assert!(code == 126 && lines.lines().count() == 1, "{lines}");
    let (code, lines) = run(&["--quiet"], &format!("{host}/folder/none"));
    assert!(code == 125 && lines.lines().count() == 2, "{lines}");
    other.hull(&["rmi", &name]);
    other.assert_empty("after runs");
    // What there is not.
    assert!(other.fails(&["pull", "--insecure", &format!("{host}/folder/made:2")]).contains("manifest unknown"));
    assert!(other.fails(&["push", "--insecure", &format!("{host}/folder/made:2")]).contains("no such image"));
    let wrong = format!("{host}/folder/made@{}", sha256(b"x"));
    other.fails(&["pull", "--insecure", &wrong]);
    other.assert_empty("after failures");
}

#[test]
fn an_index_of_a_registry() {
    let scene = Scene::new();
    scene.umoci();
    let (_registry, host) = registry(&scene, "");
    scene.run(
        "skopeo",
        &["copy", "-q", "--dest-tls-verify=false", "oci:layout:made", &format!("docker://{host}/made:one")],
    );
    let raw = scene.run("skopeo", &["inspect", "--raw", "oci:layout:made"]);
    let mut entry = descriptor("manifest.v1+json", raw.as_bytes());
    entry["platform"] = serde_json::json!({ "os": "linux", "architecture": "amd64" });
    let media_type = "application/vnd.oci.image.index.v1+json";
    let index = serde_json::json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": [entry] }).to_string();
    let path = scene.write("index", index.as_bytes());
    let (header, data) = (format!("Content-Type: {media_type}"), format!("@{}", path.display()));
    scene.run(
        "curl",
        &["-sfX", "PUT", "-H", &header, "--data-binary", &data, &format!("http://{host}/v2/made/manifests/all")],
    );
    let pulled = scene.hull(&["pull", "--insecure", &format!("{host}/made:all")]);
    assert!(pulled.contains(&sha256(index.as_bytes())), "{pulled}");
    let name = format!("{host}/made:all");
    assert_eq!(scene.inspect(&name)["Descriptor"]["digest"], sha256(raw.as_bytes()));
    let line = scene.fails(&["pull", "--insecure", "--platform=linux/arm64", &name]);
    assert!(line.contains("linux/amd64"), "{line}");
}

#[test]
fn tls_and_a_password() {
    let scene = Scene::new();
    scene.umoci();
    let script = "set -e
        openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 2
        openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request -subj /CN=127.0.0.1
        printf 'subjectAltName=IP:127.0.0.1\\nbasicConstraints=CA:FALSE\\n' >extensions
        openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile extensions
        python3 -W ignore -c 'import crypt; print(\"user:\" + crypt.crypt(\"secret\", \"$2y$05$abcdefghijklmnopqrstuu\"))' >passwords";
    scene.run("sh", &["-c", script]);
    let path = |name: &str| scene.path(name).display().to_string();
    let more = format!(
        "  tls: {{ certificate: {}, key: {} }}\nauth: {{ htpasswd: {{ realm: x, path: {} }} }}\n",
        path("cert.pem"),
        path("key.pem"),
        path("passwords")
    );
    let (_registry, host) = registry(&scene, &more);
    let name = format!("{host}/made:1");
    scene.hull(&["load", "-i", "layout"]);
    scene.hull(&["tag", "made", &name]);
    let docker = |auth: &str| {
        let config = scene.path("docker");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("config.json"), auth.replace("HOST", &host)).unwrap();
        config
    };
    let run = |config: &std::path::Path, arguments: &[&str]| {
        let path = format!("{}:{}", scene.path("").display(), std::env::var("PATH").unwrap());
        scene.command(arguments).env("DOCKER_CONFIG", config).env("PATH", path).output().unwrap()
    };
    let push = ["push", "--tls-ca", "ca.pem", &name];
    // An unknown authority, no password, a wrong one.
    let none = docker("{}");
    let line = failed(&run(&none, &["push", &name]));
    assert!(line.contains("--tls-ca"), "{line}");
    let line = failed(&run(&none, &push));
    assert!(line.contains("docker login"), "{line}");
    let wrong = docker(r#"{"auths":{"HOST":{"username":"user","password":"wrong"}}}"#);
    let line = failed(&run(&wrong, &push));
    assert!(line.contains("docker login"), "{line}");
    // From the file, and from a helper.
    let file = docker(r#"{"auths":{"HOST":{"auth":"dXNlcjpzZWNyZXQ="}}}"#);
    assert!(run(&file, &push).status.success());
    let helper = "#!/bin/sh\nread host; [ \"$1\" = get ] && echo '{\"ServerURL\":\"x\",\"Username\":\"user\",\"Secret\":\"secret\"}'\n";
    let helper = scene.write("docker-credential-test", helper.as_bytes());
    scene.run("chmod", &["755", helper.to_str().unwrap()]);
    let config = docker(r#"{"credHelpers":{"HOST":"test"}}"#);
    scene.hull(&["rmi", "-f", &name, "made"]);
    let output = run(&config, &["pull", "--tls-ca", "ca.pem", &name]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The password went nowhere else.
    let missing = docker(r#"{"credsStore":"missing"}"#);
    assert!(failed(&run(&missing, &["pull", "--tls-ca", "ca.pem", &name])).contains("docker-credential-missing"));
}

/// How a server misbehaves.
#[derive(Clone, Copy, Default)]
struct Faults {
    /// Requests need a token of `/token`.
    token: bool,
    /// The first answers with a blob end in the middle.
    cut: usize,
    /// The first answers are 503.
    busy: usize,
    /// Continues nothing: answers a range with the whole.
    no_ranges: bool,
    /// Blobs have other contents.
    lies: bool,
    /// Blobs never end.
    endless: bool,
    /// The first answer with a blob stops in the middle and waits for the client's end.
    stall: bool,
}

/// A registry with one image, on a free port; its host and the requests that came.
fn server(faults: Faults) -> (String, Arc<Mutex<Vec<String>>>) {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at ^ (at >> 9)) as u8).collect();
    let layer = tar(&[("file", &bytes)]);
    let config = config(&[sha256(&layer)]);
    let manifest = manifest(&config, &[descriptor("layer.v1.tar", &layer)]);
    let mut files = BTreeMap::from([("/v2/x/manifests/latest".to_owned(), manifest)]);
    for blob in [layer, config] {
        files.insert(format!("/v2/x/blobs/{}", sha256(&blob)), blob);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (own, seen) = (host.clone(), log.clone());
    // Ends with the test's process.
    std::thread::spawn(move || {
        let mut faults = faults;
        for stream in listener.incoming().flatten() {
            // The client may be gone.
            let _ = answer(stream, &files, &mut faults, &own, &seen);
        }
    });
    (host, log)
}

fn answer(
    mut stream: TcpStream,
    files: &BTreeMap<String, Vec<u8>>,
    faults: &mut Faults,
    host: &str,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut range, mut authorized) = (0, false);
    for line in lines.by_ref() {
        let line = line?.to_lowercase();
        if line.is_empty() {
            break;
        }
        authorized |= line == "authorization: bearer good";
        if let Some(from) = line.strip_prefix("range: bytes=") {
            range = from.trim_end_matches('-').parse().unwrap();
        }
    }
    log.lock().unwrap().push(format!("{path} {range}"));
    let mut reply = |status: &str, headers: &str, length: usize, body: &[u8]| {
        write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n")?;
        stream.write_all(body)
    };
    if faults.busy > 0 {
        faults.busy -= 1;
        return reply("503 Busy", "", 0, b"");
    }
    if path.starts_with("/token") {
        return reply("200 OK", "", 16, br#"{"token":"good"}"#);
    }
    if faults.token && !authorized {
        let header = format!(
            "WWW-Authenticate: Bearer realm=\"http://{host}/token\",service=\"s\",scope=\"repository:x:pull\"\r\n"
        );
        return reply("401 Unauthorized", &header, 0, b"");
    }
    let Some(body) = files.get(&path) else { return reply("404 Not Found", "", 0, b"") };
    if !path.contains("/blobs/") {
        return reply("200 OK", "Content-Type: application/vnd.oci.image.manifest.v1+json\r\n", body.len(), body);
    }
    if faults.endless {
        write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
        loop {
            stream.write_all(&[7; 4096])?;
        }
    }
    let mut body = body.clone();
    if faults.lies {
        body[0] ^= 1;
    }
    let from = if faults.no_ranges { 0 } else { range };
    let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
    let rest = &body[from..];
    if faults.stall && rest.len() > 1000 {
        faults.stall = false;
        reply(status, "", rest.len(), &rest[..rest.len() / 2])?;
        let _ = lines.next();
        return Ok(());
    }
    if faults.cut > 0 && rest.len() > 1000 {
        faults.cut -= 1;
        return reply(status, "", rest.len(), &rest[..rest.len() / 2]);
    }
    reply(status, "", rest.len(), rest)
}

#[test]
fn a_token_is_fetched() {
    let (host, log) = server(Faults { token: true, ..Faults::default() });
    let scene = Scene::new();
    scene.hull(&["pull", "--insecure", &format!("{host}/x")]);
    let log = log.lock().unwrap();
    assert!(log.iter().any(|line| line.starts_with("/token?service=s&scope=repository")), "{log:?}");
    assert_eq!(log.iter().filter(|line| line.starts_with("/token")).count(), 1, "{log:?}");
}

#[test]
fn transfers_go_on_where_they_broke_off() {
    for no_ranges in [false, true] {
        let (host, log) = server(Faults { cut: 2, busy: 2, no_ranges, ..Faults::default() });
        let scene = Scene::new();
        scene.hull(&["pull", "--insecure", &format!("{host}/x")]);
        fsck(&scene.erofs(&format!("{host}/x")));
        let log = log.lock().unwrap();
        assert!(log.iter().any(|line| line.contains("/blobs/") && !line.ends_with(" 0")), "{log:?}");
    }
}

/// A pull that is killed in the middle of a layer.
fn killed(host: &str) -> Scene {
    let scene = Scene::new();
    let mut pull = scene.command(&["pull", "--insecure", &format!("{host}/x")]);
    let mut pull = Running(pull.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begin = Instant::now();
    let part = || std::fs::read_dir(scene.store().join("tmp")).into_iter().flatten().flatten().find(is_part);
    fn is_part(entry: &std::fs::DirEntry) -> bool {
        entry.file_name().to_str().unwrap().starts_with("part-") && entry.metadata().unwrap().len() > 1_000_000
    }
    while part().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", scene.files("tmp"));
        std::thread::sleep(Duration::from_millis(10));
    }
    pull.0.kill().unwrap();
    pull.0.wait().unwrap();
    scene
}

#[test]
fn a_pull_that_was_killed_goes_on_where_it_was() {
    for is_damaged in [false, true] {
        let (host, log) = server(Faults { stall: true, ..Faults::default() });
        let scene = killed(&host);
        assert_eq!(scene.hull(&["images", "-q"]), "");
        let part = scene.files("tmp").into_iter().find(|name| name.starts_with("part-")).unwrap();
        if is_damaged {
            let path = scene.store().join("tmp").join(part);
            let length = path.metadata().unwrap().len() as usize;
            std::fs::write(&path, vec![0; length]).unwrap();
        }
        // Other commands leave it there.
        scene.write("other", &docker("other", &[tar(&[("x", b"y")])]));
        scene.hull(&["load", "-i", "other"]);
        scene.hull(&["rmi", "other"]);
        log.lock().unwrap().clear();
        scene.hull(&["pull", "--insecure", &format!("{host}/x")]);
        fsck(&scene.erofs(&format!("{host}/x")));
        assert_eq!(scene.files("tmp"), [""; 0]);
        let log = log.lock().unwrap();
        let layers: Vec<&String> = log.iter().filter(|line| line.contains("/blobs/")).collect();
        assert_eq!(layers.iter().filter(|line| !line.ends_with(" 0")).count(), 1, "{log:?}");
        // The layer, after damage the layer as a whole again, and the configuration.
        assert!(layers.len() <= if is_damaged { 3 } else { 2 }, "{log:?}");
    }
    let (host, _) = server(Faults { stall: true, ..Faults::default() });
    let scene = killed(&host);
    scene.hull(&["prune", "-f"]);
    assert_eq!(scene.files("tmp"), [""; 0]);
}

#[test]
fn two_pulls_of_one_image_at_once() {
    let (host, _) = server(Faults::default());
    let scene = Scene::new();
    let name = format!("{host}/x");
    for _ in 0..5 {
        let pulls: Vec<Child> = (0..4)
            .map(|_| scene.command(&["pull", "-q", "--insecure", &name]).stderr(Stdio::piped()).spawn().unwrap())
            .collect();
        for pull in pulls {
            let output = pull.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        fsck(&scene.erofs(&name));
        for blob in scene.files("blobs/sha256") {
            let path = scene.store().join("blobs/sha256").join(&blob);
            assert_eq!(sha256(&std::fs::read(path).unwrap()), format!("sha256:{blob}"));
        }
        scene.hull(&["rmi", &name]);
        scene.assert_empty("after rmi");
    }
}

#[test]
fn mirrors_are_asked_first() {
    let (host, log) = server(Faults::default());
    let scene = Scene::new();
    let pull = |file: &str, name: &str| {
        let file = scene.write("registries.conf", file.replace("HOST", &host).as_bytes());
        scene.command(&["pull", "-q", name]).env("CONTAINERS_REGISTRIES_CONF", file).output().unwrap()
    };
    let text = "[[registry]]\nprefix = 'registry.invalid/folder'\nlocation = 'registry.invalid/folder'\n
        [[registry.mirror]]\nlocation = 'HOST/none'\ninsecure = true\n
        [[registry.mirror]]\nlocation = 'HOST'\ninsecure = true\n";
    let output = pull(text, "registry.invalid/folder/x");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The image has the name of the registry; the first mirror was asked, too.
    fsck(&scene.erofs("registry.invalid/folder/x"));
    assert!(log.lock().unwrap().iter().any(|line| line.starts_with("/v2/none/x/manifests/")));
    let moved = "[[registry]]\nprefix = '*.invalid'\nlocation = 'HOST'\ninsecure = true\n";
    assert!(pull(moved, "other.invalid/x").status.success());
    // What mirrors lack comes from the registry, whose failure is reported.
    let line = failed(&pull(text, "registry.invalid/folder/y"));
    assert!(line.starts_with("hull: registry.invalid: "), "{line}");
    let line = failed(&pull("[[registry]]\nlocation = 'registry.invalid'\nblocked = true", "registry.invalid/x"));
    assert!(line.contains("registries.conf blocks registry.invalid"), "{line}");
    assert!(failed(&pull("[[registry", "registry.invalid/x")).contains("registries.conf"));
}

#[test]
fn registries_that_lie() {
    for (faults, message) in [
        (Faults { lies: true, ..Faults::default() }, "has the digest"),
        (Faults { endless: true, ..Faults::default() }, "more than the"),
        (Faults { busy: 100, ..Faults::default() }, "503"),
    ] {
        let (host, _) = server(faults);
        let scene = Scene::new();
        let line = scene.fails(&["pull", "--insecure", &format!("{host}/x")]);
        assert!(line.contains(message), "{line}");
        // What came of another blob at that moment may be there.
        scene.hull(&["prune", "-f"]);
        scene.assert_empty(message);
    }
    let scene = Scene::new();
    assert!(scene.fails(&["pull", "--insecure", "registry.example/x"]).contains("this machine only"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    scene.fails(&["pull", "--insecure", &format!("127.0.0.1:{port}/x")]);
    scene.fails(&["pull", "UPPER CASE"]);
}

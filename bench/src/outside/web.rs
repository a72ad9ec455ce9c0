//! nginx as the measured program, `wrk` as its clients.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{PATIENCE, Setting, free_port, spawn};
use crate::idle::{activity, family};
use crate::place::Place;

const NGINX: &str = "/usr/sbin/nginx";
const WRK: &str = "/usr/bin/wrk";
/// Both.
pub const PROGRAMS: &str = "/usr/sbin/nginx /usr/bin/wrk";

/// ns per request, the 99th percentile of the latency in ns, ns of processor time of the server per request.
pub fn measure(kib: u32, setting: Setting, options: &[&str], place: &Place) -> Result<Vec<f64>> {
    let address = free_port(true)?;
    let port = address.port();
    let root = place.directory.join("web");
    fs::create_dir_all(&root)?;
    fs::write(root.join("document"), vec![b'x'; kib as usize * 1024])?;
    let (base, scratch, listen) = match setting {
        Setting::Host => (place.directory.display().to_string(), place.directory.join("work"), address.to_string()),
        _ => (Place::IN_POD.to_owned(), Path::new("/tmp").to_owned(), format!("0.0.0.0:{port}")),
    };
    fs::write(place.directory.join("nginx.conf"), configuration(&base, &scratch, &listen))?;
    let words = [NGINX, "-c", &format!("{base}/nginx.conf"), "-e", "stderr"].map(String::from);
    let network = ["-p".to_owned(), format!("127.0.0.1:{port}:{port}")];
    let server = spawn(setting, options, &network, place, &words)?;
    let begin = Instant::now();
    while TcpStream::connect(address).is_err() {
        ensure!(begin.elapsed() < PATIENCE, "nginx does not listen");
        thread::sleep(Duration::from_millis(10));
    }
    let url = format!("http://{address}/document");
    // The first run warms up.
    load(&url)?;
    let processes = family(server.0.id());
    let before = activity(&processes)?.nanoseconds;
    let (requests, per_second, p99) = load(&url)?;
    let cpu = activity(&processes)?.nanoseconds - before;
    Ok(vec![1e9 / per_second, p99, cpu / requests])
}

/// One process, so that killing it ends the server.
fn configuration(base: &str, scratch: &Path, listen: &str) -> String {
    let scratch = scratch.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|what| format!("{what}_temp_path {scratch}/nginx-{what};\n"))
        .collect();
    format!(
        "daemon off; master_process off; pid {scratch}/nginx.pid; error_log stderr;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; sendfile on; keepalive_requests 1000000;\n{temporary}\
         server {{ listen {listen}; root {base}/web; }} }}\n"
    )
}

/// Number of requests, requests per second, 99th percentile of the latency in ns.
fn load(url: &str) -> Result<(f64, f64, f64)> {
    let output = Command::new(WRK).args(["-t", "1", "-c", "64", "-d", "1s", "--latency", url]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |start: &str| text.lines().find_map(|line| line.trim().strip_prefix(start)).map(str::trim);
    ensure!(line("Socket errors:").is_none() && line("Non-2xx").is_none(), "wrk met errors");
    let per_second = line("Requests/sec:").and_then(|number| number.parse().ok()).context("wrk printed no rate")?;
    let p99 = line("99%").and_then(nanoseconds).context("wrk printed no latency")?;
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in")?.0.parse().ok());
    Ok((requests.context("wrk printed no number of requests")?, per_second, p99))
}

/// A duration of wrk: a number with the unit us, ms or s.
fn nanoseconds(text: &str) -> Option<f64> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    units.iter().find_map(|(unit, ns)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_wrk() {
        assert_eq!(nanoseconds("12.50us"), Some(12_500.0));
        assert_eq!(nanoseconds("1.00ms"), Some(1e6));
        assert_eq!(nanoseconds("2.00s"), Some(2e9));
        assert_eq!(nanoseconds("2"), None);
    }
}

//! Servers and their clients, and builds, on two processors: both sides of a connection in one pod.

use super::{Benchmark, Kind};

/// A script on two virtual CPUs.
const fn script(name: &'static str, what: &'static str, script: &'static str) -> Benchmark {
    Benchmark { name, what, kind: Kind::Script(script), options: &["--cpus", "2", "--memory", "2G"] }
}

/// `pgbench -S` with this many clients over an AF_UNIX socket, for three seconds.
macro_rules! pgbench {
    ($clients:literal) => {
        script(
            concat!("pgbench-", $clients),
            concat!("pgbench -S, clients: ", $clients),
            concat!(
                "/usr/bin/pgbench --version >&2; PATH=$(echo /usr/lib/postgresql/*/bin):$PATH; chmod 777 SCRATCH; \
                 as() { if [ $(id -u) = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"; else \"$@\"; fi; }; \
                 as initdb -D SCRATCH/data -A trust -U hull >&2 && \
                 as pg_ctl -s -w -D SCRATCH/data -l SCRATCH/log -o '-k SCRATCH -h \"\"' start >&2 && \
                 { as pgbench -q -i -s 5 -h SCRATCH -U hull postgres >&2; \
                 as pgbench -S -T 3 -c ", $clients, " -j ", $clients, " -h SCRATCH -U hull postgres | \
                 awk '/^tps/ { printf \"%.1f\\n\", 1e9 / $3 }'; as pg_ctl -s -w -D SCRATCH/data -m fast stop >&2; }"
            ),
        )
    };
}

/// `redis-benchmark` of GET with this pipeline.
macro_rules! redis {
    ($name:literal, $what:literal, $options:literal) => {
        script(
            $name,
            $what,
            concat!(
                "/usr/bin/redis-server --port 0 --unixsocket SCRATCH/socket --save '' --daemonize yes \
                 --pidfile SCRATCH/pid --dir SCRATCH >&2; while [ ! -S SCRATCH/socket ]; do sleep 0.02; done; \
                 /usr/bin/redis-benchmark -s SCRATCH/socket -t get --csv ", $options, " | tr -d '\"' | \
                 awk -F, '/^GET/ { printf \"%.1f\\n\", 1e9 / $2 }'; /usr/bin/redis-cli -s SCRATCH/socket shutdown nosave"
            ),
        )
    };
}

/// `hackbench` with processes or threads.
macro_rules! hackbench {
    ($name:literal, $what:literal, $options:literal) => {
        script(
            $name,
            $what,
            concat!("/usr/bin/hackbench ", $options, " | awk '/^Time:/ { printf \"%.0f\\n\", 1e9 * $2 }'"),
        )
    };
}

/// All of them.
pub const ALL: &[Benchmark] = &[
    pgbench!("1"),
    pgbench!("4"),
    pgbench!("8"),
    hackbench!("hackbench-processes", "hackbench: 2 groups of 40 processes, 200 messages each", "-g 2 -l 200 -P"),
    hackbench!("hackbench-threads", "the same with threads", "-g 2 -l 200 -T"),
    redis!("redis-get", "redis GET by 50 clients", "-n 100000"),
    redis!("redis-get-pipelined", "the same with 16 requests in a batch", "-n 1000000 -P 16"),
    script(
        "nginx-wrk",
        "nginx with two workers, a file of 612 bytes, wrk with 32 connections",
        "mkdir SCRATCH/root; head -c 612 /dev/zero >SCRATCH/root/index.html; \
         printf '%s\\n' 'daemon on; worker_processes 2; pid SCRATCH/pid; error_log SCRATCH/error;' 'events { worker_connections 256; }' \
         'http { access_log off; client_body_temp_path SCRATCH/a; proxy_temp_path SCRATCH/b; fastcgi_temp_path SCRATCH/c; \
         uwsgi_temp_path SCRATCH/d; scgi_temp_path SCRATCH/e; server { listen 127.0.0.1:18973; root SCRATCH/root; } }' >SCRATCH/conf; \
         /usr/sbin/nginx -c SCRATCH/conf -e SCRATCH/error >&2 && \
         /usr/bin/wrk -t 2 -c 32 -d 2 http://127.0.0.1:18973/ | awk '/^Requests/ { printf \"%.1f\\n\", 1e9 / $2 }'; \
         kill $(cat SCRATCH/pid); sleep 0.2",
    ),
    script(
        "javac",
        "javac of forty small classes",
        "for i in $(seq 40); do echo \"class C$i { int f(int x) { return x * $i; } \
         java.util.List<String> g() { return new java.util.ArrayList<>(); } }\" >SCRATCH/C$i.java; done; \
         t=$(date +%s%N); /usr/bin/javac -d SCRATCH SCRATCH/*.java && echo $(($(date +%s%N) - t))",
    ),
    script(
        "go-build",
        "go build of a small program and the runtime, with an empty cache",
        "export PATH=$PATH:/usr/local/go/bin HOME=SCRATCH GOCACHE=SCRATCH/cache GOFLAGS=-p=2; \
         printf 'package main\\nfunc main() { println(1) }\\n' >SCRATCH/a.go; \
         cd SCRATCH; t=$(date +%s%N); go build -o program a.go >&2 && ./program >&2 && echo $(($(date +%s%N) - t))",
    ),
];

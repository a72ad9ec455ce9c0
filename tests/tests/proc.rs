//! `/proc` and `/sys` of a pod: every file can be read, and programs that depend on them work.

use hull_tests::hull;

/// Output of a shell script in a pod, which must succeed within a minute.
#[track_caller]
fn output(script: &str) -> String {
    hull::require_kvm().unwrap();
    let outcome = hull::run(&[], &["/bin/sh", "-c", script]).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(outcome.status == 0 && !outcome.timed_out, "{}{}", text(&outcome.stdout), text(&outcome.stderr));
    text(&outcome.stdout)
}

/// Walks the whole tree in one program: reads each file to its end (1 MiB at most), lists each directory, reads each
/// link.
const WALK: &str = r#"
use Fcntl; use Errno;
my %ignored = map { $_ => 1 } (Errno::EACCES, Errno::ENOENT, Errno::ESRCH, Errno::EINVAL, Errno::EPERM);
my ($files, $links, @wrong) = (0, 0);
my @left = ('/proc', '/sys');
while (defined(my $dir = shift @left)) {
    opendir(my $list, $dir) or do { push @wrong, "$dir: $!" unless $ignored{$! + 0}; next };
    for my $name (readdir $list) {
        next if $name eq '.' || $name eq '..';
        my $path = "$dir/$name";
        my @stat = lstat $path or do { push @wrong, "$path: $!" unless $ignored{$! + 0}; next };
        if (-l _) { $links++; defined readlink $path or $ignored{$! + 0} or push @wrong, "$path: $!"; }
        elsif (-d _) { push @left, $path; }
        elsif (-f _) {
            $files++;
            # The memory of a process has nothing at address 0: EIO, on Linux too.
            next if $name eq 'mem';
            sysopen(my $file, $path, O_RDONLY | O_NONBLOCK) or do { push @wrong, "$path: $!" unless $ignored{$! + 0}; next };
            my ($sum, $got, $data) = (0, 0);
            while ($got = sysread $file, $data, 65536) { $sum += $got; last if $sum >= 1 << 20; }
            push @wrong, "$path: $!" if !defined $got && !$ignored{$! + 0};
        }
    }
}
print "$files files, $links links\n", map { "$_\n" } @wrong;
"#;

#[test]
fn every_file_can_be_read() {
    let found = output(&format!("sleep 30 & perl -e '{}'", WALK.replace('\'', "'\\''")));
    let (count, wrong) = found.split_once('\n').unwrap();
    assert_eq!(wrong, "", "{count}");
    let files: u32 = count.split(' ').next().unwrap().parse().unwrap();
    assert!(files > 500, "{count}");
}

#[test]
fn programs_find_processes() {
    let script = "sleep 31 & sleep 32 & ps -o pid=,ppid=,comm= -C sleep | tr -s ' '; pgrep -x -d, sleep;
        ps -e --forest -o args= | grep -c '_ sleep 3[12]$'; pkill -x -f 'sleep 31'; wait %1; echo $?; pgrep -x sleep";
    assert_eq!(output(script), " 3 2 sleep\n 4 2 sleep\n3,4\n2\n143\n4\n");
    let top = output("top -b -n1");
    assert!(top.contains("Tasks:") && top.contains("MiB Mem : ") && top.contains(" top\n"), "{top}");
    assert!(output("pmap -x $$ | tail -1").starts_with("total kB "));
    assert_eq!(output("sleep 3 & ls -l /proc/$!/exe | sed 's/.*-> //'"), "/usr/bin/sleep\n");
}

#[test]
fn figures_are_those_of_the_pod() {
    let same = "[ $(free -b | awk '/Mem:/ { print $2 }') = $(cat /sys/fs/cgroup/memory.max) ] && echo memory;
        [ $(nproc) = $(grep -c ^processor /proc/cpuinfo) ] && [ $(nproc) = $(ls -d /sys/bus/cpu/devices/* | wc -l) ] &&
        [ $(nproc) = $(grep -c '^cpu[0-9]' /proc/stat) ] && echo processors";
    assert_eq!(output(same), "memory\nprocessors\n");
    let machine = output("LC_ALL=C lscpu");
    for line in ["CPU(s):", "Vendor ID:", "NUMA node0 CPU(s):"] {
        assert!(machine.lines().any(|l| l.trim_start().starts_with(line)), "no {line} in {machine}");
    }
    let stat = output("vmstat | tail -1; uptime; cat /proc/loadavg");
    assert!(stat.contains("load average: "), "{stat}");
    assert_eq!(
        output("/sbin/sysctl -n kernel.ostype vm.overcommit_memory user.max_user_namespaces"),
        "Linux\n0\n4096\n"
    );
    assert_eq!(output("/sbin/sysctl -a 2>&1 >/dev/null"), "");
}

#[test]
fn traffic_is_counted() {
    let script = "python3 -c '
import socket
listener = socket.create_server((\"127.0.0.1\", 0))
client = socket.create_connection(listener.getsockname())
client.sendall(bytes(1000))
print(len(listener.accept()[0].recv(1000, socket.MSG_WAITALL)))'
        nstat -asz TcpExtListenDrops IpExtInOctets TcpActiveOpens | awk '!/#/ { print $1, $2 >= 1000 ? \"bytes\" : $2 }'";
    assert_eq!(output(script), "1000\nTcpActiveOpens 1\nTcpExtListenDrops 0\nIpExtInOctets bytes\n");
}

#[test]
fn mounts_are_listed() {
    let table = output("findmnt -n -o TARGET -r; mountpoint -q /proc && df /tmp | wc -l");
    for target in ["/", "/proc", "/sys", "/sys/fs/cgroup", "/dev", "/dev/pts", "/dev/shm", "/tmp"] {
        assert!(table.lines().any(|line| line == target), "no {target} in {table}");
    }
    assert!(table.ends_with("\n2\n"), "{table}");
    // Eight kinds of namespaces, all the initial ones, for keel's processes and programs.
    assert_eq!(output("lsns -n -o TYPE | sort | tr '\\n' ' '"), "cgroup ipc mnt net pid time user uts ");
}

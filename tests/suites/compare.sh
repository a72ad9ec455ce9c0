#!/bin/bash
# Test suites that others wrote, on the host and in a pod: which of their tests end differently?
#
#     tests/suites/compare.sh python test_socket test_pty     CPython's regression tests (Debian: libpython3.11-testsuite)
#     tests/suites/compare.sh go os net/http                  Go's standard library, from GOROOT
#     tests/suites/compare.sh perl op/fork.t io/pipe.t        perl's own, $PERL_SOURCE is its source tree
#     tests/suites/compare.sh stress fork mmap                stressors of stress-ng, a second each
#     tests/suites/compare.sh command COMMAND PATTERN [PATH]  anything that works in any directory and needs the files of
#                                                             PATH: the lines of its output that match PATTERN
#
# Prints a line per module, and the tests whose results differ: `<` the host, `>` the pod. Everything that was printed
# stays in $SUITES_OUT (/tmp/hull-suites). $HULL_BIN is the hull to use, $HULL_TEST_OPTIONS further options of hull run,
# $SUITES_TIMEOUT the seconds that a module may take, $SUITES_USER who runs it on both sides (if hull is run by root).
# Some modules of a suite that root runs change the host: its clock, its hardware, its network. Leave those out.
set -u

suite=${1:?which suite}
shift
hull=${HULL_BIN:-hull}
out=${SUITES_OUT:-/tmp/hull-suites}
limit=${SUITES_TIMEOUT:-600}
user=${SUITES_USER:-}
options="--timeout $limit -m 3G ${HULL_TEST_OPTIONS:-}"
mkdir -p "$out"

# A pod has the standard streams only; so shall the host's side.
for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    [ "$fd" -gt 2 ] && [ "$fd" -ne 255 ] && eval "exec $fd>&-"
done

# Runs the shell command $1 in a new directory of a tmpfs, on the host or in a pod, with the files of $2 granted to the
# pod. Its output goes to $3.
on_host() {
    local place
    place=$(mktemp -d /dev/shm/suites.XXXXXX)
    local as=()
    if [ -n "$user" ]; then
        as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
        chown "$user" "$place"
    fi
    "${as[@]}" env -i PATH="$PATH" TERM=dumb LANG=C.UTF-8 HOME="$place" TMPDIR="$place" \
        timeout -k 10 "$limit" bash -c "cd $place; $1" >"$3" 2>&1 </dev/null
    local status=$?
    rm -rf "$place"
    return $status
}
in_pod() {
    local grant=()
    for place in $2; do grant+=(--ro "$place"); done
    (cd / && env -i PATH="$PATH" TERM=dumb LANG=C.UTF-8 TMPDIR=/tmp/p \
        "$hull" run $options ${user:+-u "$user"} -e HOME=/tmp/p "${grant[@]}" -- bash -c "mkdir /tmp/p; cd /tmp/p; $1") >"$3" 2>&1 </dev/null
}

# compare NAME COMMAND GRANT FILTER: runs both and compares what FILTER, a shell function, makes of the outputs.
compare() {
    local base=$out/$suite-${1//\//_} from host pod count
    from=$SECONDS
    [ -n "${SUITES_KEEP_HOST:-}" ] && [ -s "$base.host" ] || on_host "$2" "$3" "$base.host"
    host=$((SECONDS - from)) from=$SECONDS
    in_pod "$2" "$3" "$base.pod"
    pod=$((SECONDS - from))
    $4 <"$base.host" | sort >"$base.host.list"
    $4 <"$base.pod" | sort >"$base.pod.list"
    count=$(wc -l <"$base.host.list")
    if diff "$base.host.list" "$base.pod.list" >"$base.diff"; then
        echo "same $1: $count results, $host s / $pod s"
    else
        echo "DIFF $1: $count results, $host s / $pod s"
        grep '^[<>]' "$base.diff"
    fi
}

# Each filter prints one line per test: its name and its result.
python_results() {
    sed -n "/^<testsuites/,\$ s/<testcase /\n&/gp" | awk '
        !/<testcase / { next }
        { match($0, /name="[^"]*"/); name = substr($0, RSTART + 6, RLENGTH - 7); verdict = "ok" }
        /<skipped/ { verdict = "skipped" }
        /<failure/ { verdict = "FAILED" }
        /<error/ { verdict = "ERROR" }
        { print name, verdict }'
}
go_results() {
    grep -aoE '^ *--- (PASS|FAIL|SKIP): [^ ]+|^(PASS|FAIL|panic: .*)$'
}
tap_results() {
    sed -nE 's/^((not )?ok [0-9]+)( .*# *([Ss][Kk][Ii][Pp]|TODO).*)?( .*)?$/\1 \4/p; /^1\.\.|^Bail out/p'
}
stress_results() {
    grep -aoE '(fail|error|warn): .*|(un)?successful run|[a-z-]+: (skipping|not implemented).*' | sed -E 's/ ?\[[0-9]+\]//; s/0x[0-9a-f]+|[0-9]{2,}/N/g' | sort -u
}
pattern_results() {
    grep -aE "$pattern"
}

case $suite in
python)
    for name; do
        # AF_VSOCK leads to the machine around the host, which may not answer.
        run="/usr/bin/python3 -m test -v -u curses,subprocess -i '*VSOCK*' --junit-xml t.xml $name; cat t.xml"
        compare "$name" "$run" '' python_results
    done
    ;;
go)
    root=$(go env GOROOT)
    for name; do
        binary=$out/go-${name//\//_}.test
        go test -c -o "$binary" "$name" || continue
        [ -e "$binary" ] || continue
        run="export GOROOT=$root; cd $root/src/$name && $binary -test.v -test.short"
        compare "$name" "$run" "$root $out" go_results
    done
    ;;
perl)
    source=${PERL_SOURCE:?the source tree of perl}
    for name; do
        compare "$name" "cd $source/t && PERL_SKIP_TTY_TEST=1 perl -I../lib -I. $name" "$source" tap_results
    done
    ;;
stress)
    for name; do
        compare "$name" "stress-ng --$name 2 --timeout 1 --verify --oomable --no-rand-seed --metrics" '' stress_results
    done
    ;;
command)
    pattern=$2
    compare "${NAME:-${1//[^a-z0-9]/-}}" "$1" "${3:-}" pattern_results
    ;;
*)
    echo "unknown suite: $suite" >&2
    exit 2
    ;;
esac

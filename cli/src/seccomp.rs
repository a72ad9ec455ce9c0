//! Seccomp profiles in docker's JSON become one filter in classic BPF, as seccomp(2) takes it.
//!
//! A profile lists calls with an action; all others get the default action. Rules with conditions on arguments are
//! tried in the order of the file, before those without conditions. Names that Linux does not have are ignored, as
//! runc does: profiles are written for several architectures.

use crate::trace::calls::CALLS;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `AUDIT_ARCH_X86_64`.
const ARCH: u32 = 0xc000_003e;
/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
const ARGS_AT: u32 = 16;
/// Instructions of classic BPF: load a word, jumps, return.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_GREATER: u16 = 0x25;
const IF_NOT_LESS: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Most instructions of a filter (`BPF_MAXINSNS`).
const MOST: usize = 4096;
/// Kill the process: for calls of other architectures.
const KILL_PROCESS: u32 = 0x8000_0000;
const EPERM: u32 = 1;
const MAX_ERRNO: u32 = 4095;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    default_action: String,
    default_errno_ret: Option<u32>,
    listener_path: Option<String>,
    #[serde(default)]
    syscalls: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    names: Vec<String>,
    name: Option<String>,
    action: String,
    errno_ret: Option<u32>,
    args: Option<Vec<Condition>>,
    includes: Option<Filter>,
    excludes: Option<Filter>,
}

/// When a rule applies.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    arches: Option<Vec<String>>,
    caps: Option<Vec<String>>,
    min_kernel: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    index: u32,
    #[serde(default)]
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

/// What is done with a call: rules with conditions, then one without.
#[derive(Clone, Default, PartialEq)]
struct Verdict {
    conditional: Vec<(Vec<Test>, u32)>,
    action: Option<u32>,
}

/// A condition on an argument.
#[derive(Clone, Copy, PartialEq)]
struct Test {
    index: u32,
    mask: u64,
    value: u64,
    is: Comparison,
}

#[derive(Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
    Greater,
    NotLess,
    Less,
    NotGreater,
}

/// What a profile is compiled for.
pub struct Target<'a> {
    /// Whether the program may have a capability, by its name.
    pub has: &'a dyn Fn(&str) -> bool,
    /// Version of the kernel, as `uname -r` has it.
    pub kernel: &'a str,
}

/// Compiles a profile.
pub fn compile(json: &[u8], target: &Target<'_>) -> Result<Vec<u64>, String> {
    let profile: Profile = serde_json::from_slice(json).map_err(|error| format!("not a seccomp profile: {error}"))?;
    if profile.listener_path.is_some_and(|path| !path.is_empty()) {
        return Err("a pod has no listener for notifications; leave listenerPath out".into());
    }
    let usual = action(&profile.default_action, profile.default_errno_ret)?;
    let mut verdicts: BTreeMap<u32, Verdict> = BTreeMap::new();
    for rule in &profile.syscalls {
        let action = action(&rule.action, rule.errno_ret.or(profile.default_errno_ret))?;
        if !rule.applies(target) {
            continue;
        }
        let tests = rule.args.iter().flatten().map(test).collect::<Result<Vec<_>, _>>()?;
        for name in rule.names.iter().chain(&rule.name) {
            let Some(call) = CALLS.iter().find(|call| call.name == name) else { continue };
            let verdict = verdicts.entry(call.number.into()).or_default();
            if tests.is_empty() {
                verdict.action.get_or_insert(action);
            } else {
                verdict.conditional.push((tests.clone(), action));
            }
        }
    }
    let code = filter(&verdicts, usual);
    if code.len() > MOST {
        return Err(format!("the profile has too many conditions; its filter may have {MOST} instructions"));
    }
    Ok(code)
}

impl Rule {
    fn applies(&self, target: &Target<'_>) -> bool {
        let (default, has) = (Filter::default(), |name: &String| (target.has)(name));
        let amd64 = |arches: &Vec<String>| arches.iter().any(|arch| matches!(arch.as_str(), "amd64" | "x86_64"));
        let recent = |wanted: &String| version(target.kernel) >= version(wanted);
        let with = self.includes.as_ref().unwrap_or(&default);
        let without = self.excludes.as_ref().unwrap_or(&default);
        let arches = |filter: &Filter| filter.arches.clone().filter(|list| !list.is_empty());
        arches(with).is_none_or(|list| amd64(&list))
            && with.caps.iter().flatten().all(has)
            && with.min_kernel.as_ref().is_none_or(recent)
            && !arches(without).is_some_and(|list| amd64(&list))
            && !without.caps.iter().flatten().any(has)
            && !without.min_kernel.as_ref().is_some_and(recent)
    }
}

/// Major and minor number of a kernel's version.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The filter's value for an action.
fn action(name: &str, errno: Option<u32>) -> Result<u32, String> {
    let errno = errno.unwrap_or(EPERM);
    if errno > MAX_ERRNO {
        return Err(format!("no error has the number {errno}; give at most {MAX_ERRNO}"));
    }
    Ok(match name {
        "SCMP_ACT_ALLOW" => 0x7fff_0000,
        "SCMP_ACT_LOG" => 0x7ffc_0000,
        "SCMP_ACT_TRACE" => 0x7ff0_0000 | errno,
        "SCMP_ACT_ERRNO" => 0x0005_0000 | errno,
        "SCMP_ACT_TRAP" => 0x0003_0000,
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => 0,
        "SCMP_ACT_KILL_PROCESS" => KILL_PROCESS,
        _ => {
            return Err(format!(
                "unknown action {name}; write SCMP_ACT_ALLOW, ERRNO, KILL_PROCESS, TRAP, LOG or TRACE"
            ));
        }
    })
}

fn test(condition: &Condition) -> Result<Test, String> {
    if condition.index > 5 {
        return Err(format!("a call has no argument {}; the last one is 5", condition.index));
    }
    let plain = |is| Test { index: condition.index, mask: u64::MAX, value: condition.value, is };
    Ok(match condition.op.as_str() {
        "SCMP_CMP_EQ" => plain(Comparison::Equal),
        "SCMP_CMP_NE" => plain(Comparison::Unequal),
        "SCMP_CMP_GT" => plain(Comparison::Greater),
        "SCMP_CMP_GE" => plain(Comparison::NotLess),
        "SCMP_CMP_LT" => plain(Comparison::Less),
        "SCMP_CMP_LE" => plain(Comparison::NotGreater),
        "SCMP_CMP_MASKED_EQ" => Test { mask: condition.value, value: condition.value_two, ..plain(Comparison::Equal) },
        other => return Err(format!("unknown comparison {other}; see seccomp_rule_add(3)")),
    })
}

/// An instruction; `yes` and `no` are jumped over.
const fn instruction(code: u16, yes: u8, no: u8, value: u32) -> u64 {
    code as u64 | (yes as u64) << 16 | (no as u64) << 24 | (value as u64) << 32
}

fn filter(verdicts: &BTreeMap<u32, Verdict>, usual: u32) -> Vec<u64> {
    // Ranges of numbers with the same verdict: where each begins.
    let mut ranges: Vec<(u32, Verdict)> = vec![(0, Verdict::default())];
    for (&number, verdict) in verdicts {
        let is_new = |ranges: &[(u32, Verdict)], at: u32, next: &Verdict| {
            ranges.last().is_none_or(|(begin, last)| last != next || *begin > at)
        };
        if is_new(&ranges, number, verdict) {
            ranges.push((number, verdict.clone()));
        }
        // What follows has the default action unless it is in the list itself.
        if !verdicts.contains_key(&(number + 1)) {
            ranges.push((number + 1, Verdict::default()));
        }
    }
    // Of two that begin at one number, the later one counts.
    let mut clean: Vec<(u32, Verdict)> = Vec::new();
    for range in ranges {
        clean.pop_if(|last| last.0 == range.0);
        clean.push(range);
    }
    let mut code = vec![
        instruction(LOAD, 0, 0, ARCH_AT),
        instruction(IF_EQUAL, 1, 0, ARCH),
        instruction(RETURN, 0, 0, KILL_PROCESS),
        instruction(LOAD, 0, 0, NUMBER_AT),
    ];
    code.extend(search(&clean, usual));
    code
}

/// A binary search for the number in the accumulator; nested as deeply as the number of ranges has bits.
fn search(ranges: &[(u32, Verdict)], usual: u32) -> Vec<u64> {
    let middle = ranges.len() / 2;
    let (Some((begin, verdict)), true) = (ranges.get(middle), !ranges.is_empty()) else { return Vec::new() };
    if ranges.len() == 1 {
        return leaf(verdict, usual);
    }
    let (below, above) = (search(&ranges[..middle], usual), search(&ranges[middle..], usual));
    let mut code = vec![instruction(IF_NOT_LESS, 0, 1, *begin), instruction(JUMP, 0, 0, below.len() as u32)];
    code.extend(below);
    code.extend(above);
    code
}

/// Tests the arguments of a call and returns its action.
fn leaf(verdict: &Verdict, usual: u32) -> Vec<u64> {
    let mut code = Vec::new();
    for (tests, action) in &verdict.conditional {
        let mut parts: Vec<Vec<u64>> = vec![vec![instruction(RETURN, 0, 0, *action)]];
        for test in tests.iter().rev() {
            // An argument that does not pass leads behind the rule's end.
            let rest = parts.iter().map(Vec::len).sum::<usize>() as u32;
            parts.insert(0, compare(test, rest));
        }
        code.extend(parts.concat());
    }
    code.push(instruction(RETURN, 0, 0, verdict.action.unwrap_or(usual)));
    code
}

/// Compares an argument, the upper half first; goes on if it passes, else jumps over `rest` further instructions.
fn compare(test: &Test, rest: u32) -> Vec<u64> {
    let at = ARGS_AT + test.index * 8;
    let half = |shift: u32| ((test.mask >> shift) as u32, (test.value >> shift) as u32);
    let ((high_mask, high), (low_mask, low)) = (half(32), half(0));
    // Whether an argument with another upper half passes if that is greater, if it is less, and the test of the lower half.
    let (greater, less, code, wanted) = match test.is {
        Comparison::Equal => (false, false, IF_EQUAL, true),
        Comparison::Unequal => (true, true, IF_EQUAL, false),
        Comparison::Greater => (true, false, IF_GREATER, true),
        Comparison::NotLess => (true, false, IF_NOT_LESS, true),
        Comparison::Less => (false, true, IF_NOT_LESS, false),
        Comparison::NotGreater => (false, true, IF_GREATER, false),
    };
    // The last instruction is the jump to the failure; to pass is to jump over it.
    const LEN: u8 = 8;
    let to = |from: u8, passes: bool| if passes { LEN - from - 1 } else { LEN - from - 2 };
    let last = if wanted {
        instruction(code, to(6, true), to(6, false), low)
    } else {
        instruction(code, to(6, false), to(6, true), low)
    };
    vec![
        instruction(LOAD, 0, 0, at + 4),
        instruction(AND, 0, 0, high_mask),
        instruction(IF_GREATER, to(2, greater), 0, high),
        instruction(IF_EQUAL, 0, to(3, less), high),
        instruction(LOAD, 0, 0, at),
        instruction(AND, 0, 0, low_mask),
        last,
        instruction(JUMP, 0, 0, rest),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter on a call.
    fn run(code: &[u64], number: u32, args: [u64; 6]) -> u32 {
        let mut data = [0; 64];
        data[..4].copy_from_slice(&number.to_le_bytes());
        data[4..8].copy_from_slice(&ARCH.to_le_bytes());
        for (i, arg) in args.iter().enumerate() {
            data[16 + i * 8..24 + i * 8].copy_from_slice(&arg.to_le_bytes());
        }
        let (mut at, mut a) = (0, 0);
        loop {
            let word = code[at];
            let (op, yes, no, k) = (word as u16, (word >> 16) as u8, (word >> 24) as u8, (word >> 32) as u32);
            at += 1;
            let holds = match op {
                LOAD => {
                    a = u32::from_le_bytes(data[k as usize..k as usize + 4].try_into().unwrap());
                    continue;
                }
                AND => {
                    a &= k;
                    continue;
                }
                JUMP => {
                    at += k as usize;
                    continue;
                }
                RETURN => return k,
                IF_EQUAL => a == k,
                IF_GREATER => a > k,
                IF_NOT_LESS => a >= k,
                other => panic!("{other}"),
            };
            at += usize::from(if holds { yes } else { no });
        }
    }

    const ALLOW: u32 = 0x7fff_0000;

    fn profile(syscalls: &str) -> Result<Vec<u64>, String> {
        let json = format!(r#"{{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "syscalls": [{syscalls}]}}"#);
        compile(json.as_bytes(), &Target { has: &|name| name == "CAP_SYS_ADMIN", kernel: "6.1.0-5" })
    }

    fn number(name: &str) -> u32 {
        CALLS.iter().find(|call| call.name == name).unwrap().number.into()
    }

    #[test]
    fn every_call_has_its_action() {
        let code = profile(
            r#"{"names": ["read", "write", "open", "nonsense", "exit_group"], "action": "SCMP_ACT_ALLOW"},
               {"name": "mkdir", "action": "SCMP_ACT_ERRNO", "errnoRet": 13},
               {"names": ["ptrace"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "4.8"}},
               {"names": ["kexec_load"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "6.2"}},
               {"names": ["mount"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
               {"names": ["umount2"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_BPF"]}},
               {"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
               {"names": ["sync"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["s390x"]}}"#,
        )
        .unwrap();
        let allowed = ["read", "write", "open", "exit_group", "ptrace", "mount"];
        for number in 0..600 {
            let name = CALLS.iter().find(|call| u32::from(call.number) == number).map_or("", |call| call.name);
            let expected = match name {
                name if allowed.contains(&name) => ALLOW,
                "mkdir" => 0x5_000d,
                _ => 0x5_0026,
            };
            assert_eq!(run(&code, number, [0; 6]), expected, "{number} {name}");
        }
    }

    #[test]
    fn arguments_are_compared_as_64_bits() {
        let values = [0, 1, 2, 0xffff_ffff, 1 << 32, (1 << 32) + 1, (1 << 32) + 2, (2 << 32) + 1, u64::MAX];
        type Holds = fn(u64, u64) -> bool;
        let comparisons: [(&str, Holds); 6] = [
            ("EQ", |a, b| a == b),
            ("NE", |a, b| a != b),
            ("GT", |a, b| a > b),
            ("GE", |a, b| a >= b),
            ("LT", |a, b| a < b),
            ("LE", |a, b| a <= b),
        ];
        for (op, holds) in comparisons {
            for wanted in values {
                let code = profile(&format!(
                    r#"{{"names": ["dup"], "action": "SCMP_ACT_ALLOW",
                        "args": [{{"index": 5, "value": {wanted}, "op": "SCMP_CMP_{op}"}}]}}"#
                ))
                .unwrap();
                for value in values {
                    let is_allowed = run(&code, number("dup"), [7, 7, 7, 7, 7, value]) == ALLOW;
                    assert_eq!(is_allowed, holds(value, wanted), "{value:#x} {op} {wanted:#x}");
                }
            }
        }
    }

    #[test]
    fn several_conditions_must_all_hold_and_several_rules_add_up() {
        let code = profile(
            r#"{"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [
                   {"index": 0, "value": 2114060288, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"},
                   {"index": 1, "value": 9, "op": "SCMP_CMP_NE"}]},
               {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 22, "args": [
                   {"index": 1, "value": 10, "op": "SCMP_CMP_EQ"}]}"#,
        )
        .unwrap();
        let clone = |flags, stack| run(&code, number("clone"), [flags, stack, 0, 0, 0, 0]);
        assert_eq!(clone(17, 8), ALLOW);
        assert_eq!(clone(17, 9), 0x5_0026);
        assert_eq!(clone(0x1000_0000, 8), 0x5_0026);
        assert_eq!(clone(0x1000_0000, 10), 0x5_0016);
    }

    #[test]
    fn wrong_profiles_are_refused() {
        let rule = |rest: &str| profile(&format!(r#"{{"names": ["read"], {rest}}}"#)).unwrap_err();
        assert!(rule(r#""action": "ALLOW""#).starts_with("unknown action ALLOW; "));
        assert!(rule(r#""action": "SCMP_ACT_ERRNO", "errnoRet": 5000"#).starts_with("no error"));
        let condition = |text: &str| rule(&format!(r#""action": "SCMP_ACT_ALLOW", "args": [{text}]"#));
        assert!(condition(r#"{"index": 6, "op": "SCMP_CMP_EQ"}"#).starts_with("a call has no argument 6"));
        assert!(condition(r#"{"index": 0, "op": "=="}"#).starts_with("unknown comparison =="));
        let target = Target { has: &|_| false, kernel: "6.1" };
        assert!(compile(b"{", &target).unwrap_err().starts_with("not a seccomp profile: "));
        assert!(compile(b"{}", &target).unwrap_err().contains("defaultAction"));
    }
}

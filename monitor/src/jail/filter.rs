//! A seccomp filter from a list of rules: a small assembler for classic BPF.
//!
//! The call number is found by binary search. When a filter is loaded, the kernel runs it for every call number to
//! precompute which calls are always allowed; a linear chain of comparisons would make that ten times slower. It also
//! compiles each instruction, so a short program loads faster.
//!
//! Of most arguments only the low words are compared: the kernel uses only 32 bits of those (descriptors, flags, commands).
//! Pointers are compared with null and with addresses below 4 GiB.

use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// A condition on an argument.
#[derive(Clone, Debug)]
pub enum Test {
    /// Equals one of these; at most 200.
    OneOf(u8, Vec<u32>),
    /// Differs from this value.
    Not(u8, u32),
    /// Equals this value under the mask.
    Masked(u8, u32, u32),
    /// Is a null pointer.
    Null(u8),
    /// Is an address from this one on.
    From(u8, u32),
    /// Is an address of an array: the first, the end, and the size of an element, a power of two that divides the first.
    Element(u8, u32, u32, u32),
}

/// Verdict for a call.
#[derive(Clone, Debug)]
pub enum Rule {
    /// Allow.
    Allow,
    /// Allow if all tests of one of the lists hold.
    When(Vec<Vec<Test>>),
    /// Fail with this errno: libraries try the call and have a fallback.
    Fail(i32),
}

/// A system call and its rule.
#[derive(Clone, Debug)]
pub struct Call {
    /// Number (x86-64).
    pub number: u32,
    /// Its name, and a description of the condition.
    pub text: &'static str,
    /// The rule.
    pub rule: Rule,
}

/// `AUDIT_ARCH_X86_64`.
const ARCH: u32 = 0xc000_003e;
/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// A forward reference in the program.
#[derive(Clone, Copy, Debug)]
struct Label(usize);

/// Jump target of a comparison.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// The next instruction.
    Next,
    /// A label, at most 255 instructions ahead.
    Near(Label),
}

#[derive(Debug, Default)]
struct Assembler {
    code: Vec<sock_filter>,
    labels: Vec<usize>,
    /// Jumps whose targets are patched at the end.
    branches: Vec<(usize, [Then; 2])>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn emit(&mut self, code: u32, k: u32) {
        self.code.push(sock_filter { code: code as u16, jt: 0, jf: 0, k });
    }

    fn load(&mut self, offset: u32) {
        self.emit(BPF_LD | BPF_W | BPF_ABS, offset);
    }

    fn answer(&mut self, action: u32) {
        self.emit(BPF_RET | BPF_K, action);
    }

    fn branch(&mut self, compare: u32, k: u32, holds: Then, fails: Then) {
        self.branches.push((self.code.len(), [holds, fails]));
        self.emit(BPF_JMP | compare | BPF_K, k);
    }

    fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(BPF_JMP | BPF_JA, 0);
    }

    fn label(&mut self) -> Label {
        self.labels.push(usize::MAX);
        Label(self.labels.len() - 1)
    }

    fn place(&mut self, label: Label) {
        self.labels[label.0] = self.code.len();
    }

    /// The program; `None` if a near label is too far.
    fn finish(mut self) -> Option<Vec<sock_filter>> {
        let distance = |from: usize, label: Label| self.labels[label.0].checked_sub(from + 1);
        for (from, label) in self.jumps {
            self.code[from].k = u32::try_from(distance(from, label)?).ok()?;
        }
        for (from, targets) in self.branches {
            let [holds, fails] = targets.map(|target| match target {
                Then::Next => Some(0),
                Then::Near(label) => u8::try_from(distance(from, label)?).ok(),
            });
            (self.code[from].jt, self.code[from].jf) = (holds?, fails?);
        }
        Some(self.code)
    }

    /// Falls through if the test holds.
    fn test(&mut self, test: &Test, fail: Label) {
        let low = |arg: u8| ARGUMENTS + 8 * u32::from(arg);
        match test {
            Test::OneOf(arg, values) => {
                self.load(low(*arg));
                let found = self.label();
                let Some((last, others)) = values.split_last() else { return self.jump(fail) };
                others.iter().for_each(|value| self.branch(BPF_JEQ, *value, Then::Near(found), Then::Next));
                self.branch(BPF_JEQ, *last, Then::Next, Then::Near(fail));
                self.place(found);
            }
            Test::Not(arg, value) => {
                self.load(low(*arg));
                self.branch(BPF_JEQ, *value, Then::Near(fail), Then::Next);
            }
            Test::Masked(arg, mask, value) => {
                self.load(low(*arg));
                self.emit(BPF_ALU | BPF_AND | BPF_K, *mask);
                self.branch(BPF_JEQ, *value, Then::Next, Then::Near(fail));
            }
            Test::Null(arg) => {
                for half in [0, 4] {
                    self.load(low(*arg) + half);
                    self.branch(BPF_JEQ, 0, Then::Next, Then::Near(fail));
                }
            }
            Test::From(arg, first) => {
                let holds = self.label();
                self.load(low(*arg) + 4);
                self.branch(BPF_JEQ, 0, Then::Next, Then::Near(holds));
                self.load(low(*arg));
                self.branch(BPF_JGE, *first, Then::Next, Then::Near(fail));
                self.place(holds);
            }
            Test::Element(arg, first, end, size) => {
                self.load(low(*arg) + 4);
                self.branch(BPF_JEQ, 0, Then::Next, Then::Near(fail));
                self.load(low(*arg));
                self.branch(BPF_JGE, *first, Then::Next, Then::Near(fail));
                self.branch(BPF_JGE, *end, Then::Near(fail), Then::Next);
                self.emit(BPF_ALU | BPF_AND | BPF_K, size - 1);
                self.branch(BPF_JEQ, 0, Then::Next, Then::Near(fail));
            }
        }
    }

    /// The code of a call's rule, after its number matched.
    fn rule(&mut self, rule: &Rule, default: Label) {
        match rule {
            Rule::Allow => self.answer(libc::SECCOMP_RET_ALLOW),
            Rule::Fail(errno) => self.answer(libc::SECCOMP_RET_ERRNO | errno.unsigned_abs()),
            Rule::When(alternatives) => {
                for tests in alternatives {
                    let next = self.label();
                    tests.iter().for_each(|test| self.test(test, next));
                    self.answer(libc::SECCOMP_RET_ALLOW);
                    self.place(next);
                }
                self.jump(default);
            }
        }
    }

    /// Binary search of the number in a sorted list.
    fn search(&mut self, calls: &[(u32, Label)], allow: Label, default: Label) {
        match calls {
            [] => self.jump(default),
            [(number, rule)] if rule.0 == allow.0 => {
                self.branch(BPF_JEQ, *number, Then::Near(allow), Then::Near(default));
            }
            [(number, rule)] => {
                self.branch(BPF_JEQ, *number, Then::Next, Then::Near(default));
                self.jump(*rule);
            }
            _ => {
                let (left, right) = calls.split_at(calls.len() / 2);
                let upper = self.label();
                self.branch(BPF_JGE, right[0].0, Then::Near(upper), Then::Next);
                self.search(left, allow, default);
                self.place(upper);
                self.search(right, allow, default);
            }
        }
    }
}

/// The program for these calls; all others, and those whose tests fail, get `otherwise`. `None` if the program is too
/// large.
pub fn compile(mut calls: Vec<Call>, otherwise: u32) -> Option<Vec<sock_filter>> {
    calls.sort_by_key(|call| call.number);
    let mut program = Assembler::default();
    program.load(ARCHITECTURE);
    let known = program.label();
    program.branch(BPF_JEQ, ARCH, Then::Near(known), Then::Next);
    program.answer(libc::SECCOMP_RET_KILL_PROCESS);
    program.place(known);
    program.load(NUMBER);
    let (allow, default) = (program.label(), program.label());
    let mut numbers = Vec::with_capacity(calls.len());
    let mut rules = Vec::new();
    for call in &calls {
        let label = if matches!(call.rule, Rule::Allow) { allow } else { program.label() };
        numbers.push((call.number, label));
        if label.0 != allow.0 {
            rules.push((label, &call.rule));
        }
    }
    program.search(&numbers, allow, default);
    program.place(allow);
    program.answer(libc::SECCOMP_RET_ALLOW);
    program.place(default);
    program.answer(otherwise);
    let refused = program.label();
    for (label, rule) in rules {
        program.place(label);
        program.rule(rule, refused);
    }
    program.place(refused);
    program.answer(otherwise);
    program.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets a program as the kernel does, with a call's number and arguments.
    fn answer(program: &[sock_filter], arch: u32, number: u32, args: [u64; 6]) -> u32 {
        let mut data = [number, arch, 0, 0].to_vec();
        data.extend(args.iter().flat_map(|arg| [*arg as u32, (*arg >> 32) as u32]));
        let (mut at, mut a) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let code = u32::from(code);
            let offset = |holds: bool| usize::from(if holds { jt } else { jf });
            match (code & 7, code & 0xf0) {
                (BPF_LD, _) => a = data[k as usize / 4],
                (BPF_ALU, _) => a &= k,
                (BPF_RET, _) => return k,
                (BPF_JMP, BPF_JA) => at += k as usize,
                (BPF_JMP, BPF_JEQ) => at += offset(a == k),
                (BPF_JMP, BPF_JGE) => at += offset(a >= k),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn rules_hold_and_nothing_else() {
        let call = |number, rule| Call { number, text: "", rule };
        let calls = vec![
            call(9, Rule::When(vec![vec![Test::Masked(2, 4, 0), Test::OneOf(0, vec![7, 8, 9])], vec![Test::Null(1)]])),
            call(300, Rule::Fail(38)),
            call(10, Rule::When(vec![vec![Test::Not(5, 31)]])),
            call(1, Rule::Allow),
            call(2, Rule::Allow),
            call(77, Rule::Allow),
            call(11, Rule::When(vec![vec![Test::From(1, 0x2000)]])),
            call(12, Rule::When(vec![vec![Test::Element(2, 0x1000, 0x2000, 32)]])),
        ];
        let program = compile(calls, libc::SECCOMP_RET_TRAP).unwrap();
        let run = |number, args| answer(&program, ARCH, number, args);
        for number in 0..400 {
            let expected = match number {
                // The others want larger addresses.
                1 | 2 | 10 | 77 => libc::SECCOMP_RET_ALLOW,
                300 => libc::SECCOMP_RET_ERRNO | 38,
                _ => libc::SECCOMP_RET_TRAP,
            };
            assert_eq!(run(number, [1; 6]), expected, "{number}");
            // Calls of another architecture and of x32.
            assert_eq!(answer(&program, 0x4000_0003, number, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS);
            assert_eq!(run(number | 0x4000_0000, [0; 6]), libc::SECCOMP_RET_TRAP);
        }
        assert_eq!(run(10, [1, 1, 1, 1, 1, 31]), libc::SECCOMP_RET_TRAP);
        for (args, allowed) in [
            ([7, 1, 3, 0, 0, 0], true),
            ([9, 1, 0xff00_0000_0000_0000, 0, 0, 0], true),
            ([6, 1, 3, 0, 0, 0], false),
            ([7, 1, 4, 0, 0, 0], false),
            ([0, 0, 4, 0, 0, 0], true),
            ([0, 1 << 32, 4, 0, 0, 0], false),
        ] {
            let expected = if allowed { libc::SECCOMP_RET_ALLOW } else { libc::SECCOMP_RET_TRAP };
            assert_eq!(run(9, args), expected, "{args:?}");
        }
        for (address, from, element) in [
            (0, false, false),
            (0xfe0, false, false),
            (0x1000, false, true),
            (0x1001, false, false),
            (0x1010, false, false),
            (0x1fe0, false, true),
            (0x1ff0, false, false),
            (0x2000, true, false),
            (0xffff_ffff, true, false),
            (0x1_0000_1000, true, false),
            (0xffff_ffff_0000_1020, true, false),
        ] {
            assert_eq!(run(11, [0, address, 0, 0, 0, 0]) == libc::SECCOMP_RET_ALLOW, from, "{address:#x}");
            assert_eq!(run(12, [0, 0, address, 0, 0, 0]) == libc::SECCOMP_RET_ALLOW, element, "{address:#x}");
        }
    }
}

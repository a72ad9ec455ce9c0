//! Mixtures of operations like those of the classical benchmarks, which older systems were measured with. The programs are
//! not theirs: figures compare with those of other machines only by their ratio of host and pod.

use std::hint::black_box;

use super::measure;

/// A record that refers to another one.
#[derive(Clone)]
struct Record {
    next: usize,
    kind: u8,
    number: i64,
    text: [u8; 32],
}

/// One step: records are copied and changed through references, texts compared, small procedures called, and a table
/// indexed.
fn records(all: &mut [Record; 4], table: &mut [[i64; 16]; 16], step: i64) -> i64 {
    #[inline(never)]
    fn choose(kind: u8, number: i64) -> u8 {
        match kind {
            0 if number > 100 => 1,
            0 | 1 => 2,
            2 => u8::from(number % 3 == 0),
            _ => 0,
        }
    }
    #[inline(never)]
    fn put(table: &mut [[i64; 16]; 16], row: usize, number: i64) {
        table[row % 16][row % 15] = number + row as i64;
        table[row % 16][row % 15 + 1] = number - row as i64;
        table[(row + 5) % 16][row % 16] += 1;
    }
    let at = (step & 3) as usize;
    let mut copy = all[at].clone();
    copy.kind = choose(copy.kind, step);
    copy.number = copy.number / 3 + step;
    copy.text[(step & 31) as usize] = b'A' + copy.kind;
    let other = &mut all[copy.next & 3];
    let order = black_box(&copy.text).cmp(black_box(&other.text));
    other.number += copy.number * 7 - copy.number / 5;
    if order.is_gt() {
        other.text = copy.text;
    }
    put(table, at + copy.kind as usize, other.number);
    all[at] = copy;
    table[at][(step & 15) as usize]
}

/// A thousand steps of [`records`].
pub fn dhrystone() -> f64 {
    let mut all = [0, 1, 2, 3].map(|number: usize| Record {
        next: number + 1,
        kind: number as u8,
        number: 1,
        text: *b"A TEXT OF THIRTY-TWO CHARACTERS.",
    });
    let mut table = [[0; 16]; 16];
    let mut sum = 0_i64;
    measure(10, || {
        for step in 0..1000 {
            sum = sum.wrapping_add(records(&mut all, &mut table, step));
            // The numbers stay small.
            all[(step & 3) as usize].number &= 0xffff;
        }
        black_box(sum);
    })
}

/// A hundred steps over four numbers: sums with a factor, then trigonometry, a root, exponential and logarithm.
pub fn whetstone() -> f64 {
    let mut x = black_box([1.0_f64, -1.0, -1.0, -1.0]);
    let factor = black_box(0.499_975);
    measure(10, || {
        for _ in 0..100 {
            let [a, b, c, d] = x;
            let a = (a + b + c - d) * factor;
            let b = (a + b - c + d) * factor;
            let c = (a - b + c + d) * factor;
            let d = (b + c + d - a) * factor;
            let angle = (a.sin() * b.cos()).atan() * 0.5;
            let root = (c.abs() + 1.0).sqrt();
            x = [angle.cos() + 0.1, -(d.abs() + 1.0).ln(), -root.min(2.0), -(angle * 0.5).exp()];
        }
        black_box(x);
    })
}

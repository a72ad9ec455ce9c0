//! CPU-bound work.
#![allow(unsafe_code)]

use std::arch::x86_64::{_mm256_add_pd, _mm256_mul_pd, _mm256_set1_pd, _mm256_storeu_pd};
use std::hint::black_box;

use anyhow::{Result, ensure};

use super::measure;

/// Steps of one operation.
const STEPS: u64 = 1000;

/// A thousand steps of a generator of pseudo-random numbers.
pub fn integer() -> f64 {
    let mut state = 88_172_645_463_325_252_u64;
    measure(1000, || {
        for _ in 0..STEPS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    })
}

/// A thousand steps of the logistic map.
pub fn float() -> f64 {
    let mut x = 0.4_f64;
    measure(1000, || {
        for _ in 0..STEPS {
            x = 3.9 * x * (1.0 - x);
        }
        black_box(x);
    })
}

/// A thousand steps on four numbers at once.
pub fn avx() -> Result<f64> {
    ensure!(is_x86_feature_detected!("avx"), "the processor has no AVX");
    Ok(measure(1000, || {
        // SAFETY: the processor has AVX.
        black_box(unsafe { avx_steps() });
    }))
}

#[target_feature(enable = "avx")]
fn avx_steps() -> [f64; 4] {
    let (factor, term) = (_mm256_set1_pd(black_box(0.999)), _mm256_set1_pd(black_box(0.001)));
    let mut x = _mm256_set1_pd(0.5);
    for _ in 0..STEPS {
        x = _mm256_add_pd(_mm256_mul_pd(x, factor), term);
    }
    let mut result = [0.0; 4];
    // SAFETY: the result has room for four numbers.
    unsafe { _mm256_storeu_pd(result.as_mut_ptr(), x) };
    result
}

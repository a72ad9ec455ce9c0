//! Median and spread of a few samples.

use serde::Serialize;

/// Summary of the samples of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// In the unit of the row.
    pub median: f64,
    /// Half of the distance between the quartiles.
    pub spread: f64,
}

/// Summary of `samples`; `None` if there are none.
pub fn summarise(samples: &[f64]) -> Option<Summary> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quantile = |part: f64| -> Option<f64> {
        let position = part * (sorted.len().checked_sub(1)? as f64);
        let (low, high) = (sorted.get(position.floor() as usize)?, sorted.get(position.ceil() as usize)?);
        Some(low + (high - low) * position.fract())
    };
    Some(Summary { median: quantile(0.5)?, spread: (quantile(0.75)? - quantile(0.25)?) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        assert_eq!(summarise(&[]), None);
        assert_eq!(summarise(&[3.0]), Some(Summary { median: 3.0, spread: 0.0 }));
        assert_eq!(summarise(&[4.0, 1.0, 2.0, 3.0, 5.0]), Some(Summary { median: 3.0, spread: 1.0 }));
        assert_eq!(summarise(&[1.0, 2.0]).map(|s| s.median), Some(1.5));
    }
}

//! Maps of user or group ids between a user namespace and the whole system: user_namespaces(7).

use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Most lines of a map.
pub const MAX_EXTENTS: usize = 340;

/// One line: `count` ids from `first` are `below` and the following ids of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First id inside the namespace.
    pub first: u32,
    /// First id outside of it.
    pub below: u32,
    /// Number of ids, at least 1.
    pub count: u32,
}

/// A map: ids inside a namespace, and those of the system that they stand for. Without extents, no id is mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap {
    extents: Vec<Extent>,
}

impl IdMap {
    /// The lines.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The id of the system that `id` inside the namespace stands for.
    pub fn outward(&self, id: u32) -> Option<u32> {
        let extent = self.extents.iter().find(|e| id >= e.first && id - e.first < e.count)?;
        Some(extent.below + (id - extent.first))
    }

    /// The id inside the namespace of an id of the system.
    pub fn inward(&self, id: u32) -> Option<u32> {
        let extent = self.extents.iter().find(|e| id >= e.below && id - e.below < e.count)?;
        Some(extent.first + (id - extent.below))
    }

    /// Parses what a program writes to `uid_map`: lines of three numbers. EINVAL: malformed, empty, too many or
    /// overlapping lines; ENOMEM.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let mut extents: Vec<Extent> = Vec::new();
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        for line in text.split(|&b| b == b'\n') {
            let mut numbers = line.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty());
            let mut next = || number(numbers.next()?);
            let (Some(first), Some(below), Some(count)) = (next(), next(), next()) else { return Err(Errno::EINVAL) };
            if numbers.next().is_some() || first == u32::MAX || below == u32::MAX {
                return Err(Errno::EINVAL);
            }
            // No id is -1, and none wraps.
            let ends = |start: u32| start.checked_add(count).is_some();
            if count == 0 || !ends(first) || !ends(below) || extents.len() == MAX_EXTENTS {
                return Err(Errno::EINVAL);
            }
            let new = Extent { first, below, count };
            if extents
                .iter()
                .any(|old| meets(old.first, old.count, first, count) || meets(old.below, old.count, below, count))
            {
                return Err(Errno::EINVAL);
            }
            extents.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            extents.push(new);
        }
        Ok(Self { extents })
    }

    /// The map for a namespace within another one, whose map is `above`: both as seen from the system. EPERM: an id
    /// outside is not mapped there.
    pub fn within(mut self, above: Option<&Self>) -> Result<Self> {
        let Some(above) = above else { return Ok(self) };
        for extent in &mut self.extents {
            let (below, count) = (extent.below, extent.count);
            let covers =
                |e: &&Extent| below >= e.first && below - e.first < e.count && count <= e.count - (below - e.first);
            let outer = above.extents.iter().find(covers).ok_or(Errno::EPERM)?;
            extent.below = outer.below + (below - outer.first);
        }
        Ok(self)
    }
}

/// Whether two ranges have a common id.
fn meets(a: u32, a_count: u32, b: u32, b_count: u32) -> bool {
    u64::from(a) < u64::from(b) + u64::from(b_count) && u64::from(b) < u64::from(a) + u64::from(a_count)
}

/// A decimal number. Linux reads up to the first character that is no digit and then expects a blank.
fn number(word: &[u8]) -> Option<u32> {
    if word.is_empty() || word.len() > 10 {
        return None;
    }
    let mut value = 0u64;
    for digit in word {
        value = value * 10 + u64::from(char::from(*digit).to_digit(10)?);
    }
    u32::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Result<IdMap> {
        IdMap::parse(text.as_bytes())
    }

    #[test]
    fn ids_go_both_ways() -> Result<()> {
        let map = map("0 1000 1\n1 100000 65535\n")?;
        assert_eq!(map.outward(0), Some(1000));
        assert_eq!(map.outward(65535), Some(165534));
        assert_eq!(map.outward(65536), None);
        assert_eq!(map.inward(1000), Some(0));
        assert_eq!(map.inward(100000), Some(1));
        assert_eq!(map.inward(0), None);
        Ok(())
    }

    #[test]
    fn malformed_maps_are_refused() {
        for text in [
            "",
            "\n",
            "0 0",
            "0 0 0",
            "0 0 1 1",
            "a 0 1",
            "0 0 4294967296",
            "4294967295 0 1",
            "0 4294967295 1",
            "1 0 4294967295",
            "0 0 2\n1 5 1",
            "0 5 2\n3 6 1",
            "0 0 1\n\n1 1 1",
            "-1 0 1",
        ] {
            assert_eq!(map(text), Err(Errno::EINVAL), "{text:?}");
        }
        assert!(map("0 0 4294967295").is_ok());
    }

    #[test]
    fn nested_maps_lead_to_the_system() -> Result<()> {
        let outer = map("0 1000 10\n10 5000 10\n")?;
        let inner = map("0 3 2\n7 12 8")?.within(Some(&outer))?;
        assert_eq!(inner.outward(1), Some(1004));
        assert_eq!(inner.outward(7), Some(5002));
        // From one line of the outer map into the next.
        assert_eq!(map("0 8 4")?.within(Some(&outer)), Err(Errno::EPERM));
        assert_eq!(map("0 30 1")?.within(Some(&outer)), Err(Errno::EPERM));
        Ok(())
    }

    #[test]
    fn the_number_of_lines_is_bounded() {
        use core::fmt::Write as _;
        let lines = |count: u32| {
            let mut text = alloc::string::String::new();
            for i in 0..count {
                let _ = writeln!(text, "{} {} 1", i * 2, i * 2);
            }
            text
        };
        assert!(map(&lines(340)).is_ok());
        assert_eq!(map(&lines(341)), Err(Errno::EINVAL));
    }
}

//! Memory of pods of one image.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Image, Images};
use crate::idle::family;

/// A pod that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Ignore the error if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes of memory that a second pod takes for mapping and reading 32 MiB of the image which another pod has mapped: what it
/// takes more than one that maps nothing.
pub fn measure(images: &Images, small: bool) -> Result<f64> {
    images.prepare(Image::Files)?;
    let what = if small { "/data/parts" } else { "/data/big" };
    let first = start(images, what)?;
    let without = own_memory(images, &start(images, "/tmp")?)?;
    let with = own_memory(images, &start(images, what)?)?;
    drop(first);
    Ok((with - without).max(0.0))
}

/// A pod that has mapped a file, or files of a directory, and waits.
fn start(images: &Images, what: &str) -> Result<Running> {
    let mut command = images.pod(Image::Files);
    command.args(["/bench/hull", "bench-workload", "map", what]);
    let mut pod = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let mut line = String::new();
    BufReader::new(pod.0.stdout.take().context("the pod has a pipe")?).read_line(&mut line)?;
    ensure!(!line.is_empty(), "the pod ended before it waited");
    Ok(pod)
}

/// Memory of the processes of a pod, in bytes: its share (PSS), but of the image only pages that no other pod has mapped.
fn own_memory(images: &Images, pod: &Running) -> Result<f64> {
    let image = images.file(Image::Files)?;
    // The monitor has another root: of the path, only the last name is the same in its maps.
    let image = image.file_name().and_then(|name| name.to_str()).context("a file has a name")?;
    let mut kib = 0.0;
    for process in family(pod.0.id()) {
        kib += own_kib(&fs::read_to_string(format!("/proc/{process}/smaps"))?, image);
    }
    Ok(kib * 1024.0)
}

/// The same of a text like `/proc/PID/smaps`, in KiB. `image` is the name of its file.
fn own_kib(maps: &str, image: &str) -> f64 {
    let mut of_image = false;
    let mut sum = 0.0;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        match (first, of_image) {
            ("Pss:", false) | ("Private_Clean:" | "Private_Dirty:", true) => {
                sum += words.next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
            }
            _ if !first.ends_with(':') => of_image = line.ends_with(image),
            _ => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_image_count_if_they_are_of_one_pod() {
        let maps = "7f00-7f10 r--s 0 00:01 5  /store/erofs1\nPss: 100 kB\nPrivate_Clean: 8 kB\nPrivate_Dirty: 0 kB\n\
            7f10-7f20 rw-s 0 00:01 6  /memfd:ram (deleted)\nPss: 50 kB\nPrivate_Clean: 0 kB\nPrivate_Dirty: 50 kB\n";
        assert_eq!(own_kib(maps, "erofs1"), 58.0);
        assert_eq!(own_kib(maps, "erofs2"), 158.0 - 8.0);
    }
}

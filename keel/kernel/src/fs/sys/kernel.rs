//! `/sys/kernel`.

use super::{constant, dir};
use vfs::synth::Entry;

/// The directory.
pub fn directory() -> Entry {
    let pages = || {
        dir([
            ("free_hugepages", constant("0\n")),
            ("nr_hugepages", constant("0\n")),
            ("nr_overcommit_hugepages", constant("0\n")),
            ("resv_hugepages", constant("0\n")),
            ("surplus_hugepages", constant("0\n")),
        ])
    };
    dir([
        ("address_bits", constant("64\n")),
        ("cpu_byteorder", constant("little\n")),
        ("mm", dir([("hugepages", dir([("hugepages-2048kB", pages())])), ("transparent_hugepage", huge_pages())])),
        ("cgroup", dir([("delegate", constant("")), ("features", constant(""))])),
        ("uevent_seqnum", constant("0\n")),
        ("profiling", constant("0\n")),
        ("notes", constant("")),
    ])
}

/// Keel maps with pages of 4 KiB; the host backs them with huge ones where it can.
fn huge_pages() -> Entry {
    dir([
        ("defrag", constant("always defer defer+madvise [madvise] never\n")),
        ("enabled", constant("always [madvise] never\n")),
        ("hpage_pmd_size", constant("2097152\n")),
        ("shmem_enabled", constant("always within_size advise [never] deny force\n")),
        ("use_zero_page", constant("1\n")),
    ])
}

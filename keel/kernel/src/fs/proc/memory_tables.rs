//! Statistics of Linux's allocators: `buddyinfo`, `zoneinfo`, `slabinfo`, `iomem`. There is one zone.

use abi::layout::PAGE_SIZE;
use alloc::format;
use alloc::string::String;

/// `slabinfo`: keel keeps no caches of equal objects.
pub const SLABS: &str = "slabinfo - version: 2.1\n\
    # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> \
    <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>\n";

/// Orders of free blocks: 4 KiB to 4 MiB.
const ORDERS: u32 = 11;

/// Pages that the pod may have, and those of them that are free.
fn pages() -> (u64, u64) {
    let ram = hal::frame::ram_usage();
    let used = ram.total.saturating_sub(ram.free);
    (ram.limit / PAGE_SIZE as u64, ram.limit.saturating_sub(used) / PAGE_SIZE as u64)
}

/// `buddyinfo`: free memory in the largest blocks that it fills.
pub fn buddies() -> String {
    let (_, mut free) = pages();
    let mut counts = [0; ORDERS as usize];
    for (order, count) in (0..ORDERS).zip(&mut counts).rev() {
        *count = free >> order;
        free -= *count << order;
    }
    let columns = counts.map(|count| format!("{count:6} ")).concat();
    format!("Node 0, zone {:>8} {columns}\n", "Normal")
}

/// `zoneinfo`.
pub fn zones() -> String {
    let (total, free) = pages();
    format!(
        "Node 0, zone {:>8}\n  pages free     {free}\n        boost    0\n        min      0\n        low      0\n        \
         high     0\n        spanned  {total}\n        present  {total}\n        managed  {total}\n        cma      0\n        \
         protection: (0, 0, 0, 0)\n",
        "Normal"
    )
}

/// `iomem`: addresses are hidden, as Linux hides them from those without privileges.
pub fn places() -> String {
    String::from("00000000-00000000 : System RAM\n")
}

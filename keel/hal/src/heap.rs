//! Keel's heap: size classes over blocks of frames.
//!
//! Small objects come from free lists that are refilled one frame at a time; when memory runs out, frames without
//! allocated objects are freed ([`trim`]). Larger objects are blocks of frames. Once several virtual CPUs are awake
//! each caches some small objects, which it allocates and frees without the lock.
#![allow(unsafe_code)]

use crate::buddy::{give_block, is_small, refs, take_block};
use crate::cell::Global;
use crate::direct_map;
use crate::percpu;
use crate::sync::{Guard, Rank, SpinLock, several};
use abi::layout::{MAX_CPUS, PAGE_SIZE};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;

const CLASSES: [usize; 13] = [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048];
/// [`trim`] runs again when objects of this size, and of an eighth of the free lists, were freed, because it walks the
/// lists completely.
const TRIM_STEP: usize = 128 << 10;

/// Free objects that are linked through their first words.
struct List(*mut u8);

impl List {
    const fn new() -> Self {
        Self(null_mut())
    }

    #[inline(always)]
    fn push(&mut self, object: *mut u8) {
        // SAFETY: the caller passes a free object: it has room for a link, and no other user.
        unsafe { object.cast::<*mut u8>().write(self.0) };
        self.0 = object;
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<*mut u8> {
        let object = self.0;
        if object.is_null() {
            return None;
        }
        // SAFETY: a free object holds the link to the next one.
        self.0 = unsafe { object.cast::<*mut u8>().read() };
        Some(object)
    }

    /// The objects; reads each successor before it yields an object.
    fn objects(&self) -> impl Iterator<Item = *mut u8> + use<> {
        let mut rest = Self(self.0);
        core::iter::from_fn(move || rest.pop())
    }
}

/// The free objects that all virtual CPUs share.
struct Heap {
    free: [List; CLASSES.len()],
    /// Total size of the free lists in bytes.
    free_bytes: usize,
    /// Total size of the objects freed since the last [`trim`]. Growth of the lists would not do: allocations shorten
    /// them first, and the same objects freed again leave whole frames in lists that are no longer than at the last trim.
    freed_bytes: usize,
}

// SAFETY: the lists contain free objects, which the owner of the lists owns.
unsafe impl Send for Heap {}

static HEAP: SpinLock<Heap> =
    SpinLock::new(Rank::Heap, Heap { free: [const { List::new() }; CLASSES.len()], free_bytes: 0, freed_bytes: 0 });

/// The frame of a small object, by guest-physical address.
fn frame_of(object: *mut u8) -> u64 {
    direct_map::gpa(object as usize & !(PAGE_SIZE - 1))
}

/// Frees frames without allocated small objects; returns their number. Does nothing if not much was freed since the
/// last run. Objects in the caches of other virtual CPUs, at most a page for each class, count as allocated.
pub fn trim() -> usize {
    let mut heap = HEAP.lock();
    if several() {
        Cache::here().give_all(&mut heap);
    }
    if heap.freed_bytes < TRIM_STEP.max(heap.free_bytes / 8) {
        return 0;
    }
    heap.freed_bytes = 0;
    (0..CLASSES.len()).map(|class| heap.trim_class(class)).sum()
}

impl Heap {
    fn trim_class(&mut self, class: usize) -> usize {
        let capacity = PAGE_SIZE / CLASSES[class];
        let is_free = |object| refs(frame_of(object)).get() == capacity as u32;
        for object in self.free[class].objects() {
            let free = refs(frame_of(object));
            free.set(free.get() + 1);
        }
        let (mut kept, mut gone) = (List::new(), List::new());
        for object in self.free[class].objects() {
            if !is_free(object) {
                kept.push(object);
            } else if (object as usize).is_multiple_of(PAGE_SIZE) {
                gone.push(object);
            }
        }
        for object in kept.objects() {
            refs(frame_of(object)).set(0);
        }
        self.free[class] = kept;
        let mut frames = 0;
        for object in gone.objects() {
            refs(frame_of(object)).set(0);
            give_block(frame_of(object), 0);
            frames += 1;
        }
        self.free_bytes -= frames * capacity * CLASSES[class];
        frames
    }

    fn pop(&mut self, class: usize) -> Option<*mut u8> {
        let object = self.free[class].pop()?;
        self.free_bytes -= CLASSES[class];
        Some(object)
    }

    fn push(&mut self, class: usize, object: *mut u8) {
        self.free[class].push(object);
        self.free_bytes += CLASSES[class];
        self.freed_bytes += CLASSES[class];
    }

    /// Adds the objects of a newly allocated frame.
    fn add_frame(&mut self, class: usize, gpa: u64) {
        let (block, size) = (direct_map::address(gpa), CLASSES[class]);
        for i in (0..PAGE_SIZE / size).rev() {
            self.free[class].push((block + i * size) as *mut u8);
        }
        self.free_bytes += PAGE_SIZE / size * size;
    }
}

/// Allocates a block, after trimming the heap if necessary.
fn take_block_or_trim(order: usize) -> Option<u64> {
    take_block(order).or_else(|| if trim() > 0 { take_block(order) } else { None })
}

/// Locks the shared lists and ensures that a class has an object. Releases the lock while it allocates a frame, which
/// may need the monitor.
fn shared_with(class: usize) -> Option<Guard<'static, Heap>> {
    let heap = HEAP.lock();
    if !heap.free[class].0.is_null() {
        return Some(heap);
    }
    drop(heap);
    let gpa = take_block_or_trim(0)?;
    let mut heap = HEAP.lock();
    heap.add_frame(class, gpa);
    Some(heap)
}

/// Object cache of one virtual CPU, which alone accesses it, once there are several.
#[repr(align(64))]
struct Cache([UnsafeCell<(List, usize)>; CLASSES.len()]);

static CACHES: Global<[Cache; MAX_CPUS]> =
    Global::new([const { Cache([const { UnsafeCell::new((List::new(), 0)) }; CLASSES.len()]) }; MAX_CPUS]);

/// Maximum number of cached objects of a class: those of a page; in a small pod, where they are missed, of an eighth of one.
#[inline(always)]
fn most_kept(class: usize) -> usize {
    let page = PAGE_SIZE / CLASSES[class];
    if is_small() { (page / 8).max(1) } else { page }
}

impl Cache {
    fn here() -> &'static Self {
        &CACHES[percpu::cpu_index() % MAX_CPUS]
    }

    /// Runs `f` with the objects of a class and their number.
    #[inline(always)]
    fn with<R>(&self, class: usize, f: impl FnOnce(&mut List, &mut usize) -> R) -> R {
        // SAFETY: only this virtual CPU uses its cache, keel is not reentrant, and no `f` allocates.
        let (list, count) = unsafe { &mut *self.0[class].get() };
        f(list, count)
    }

    #[inline(always)]
    fn take(&self, class: usize) -> Option<*mut u8> {
        let kept = self.with(class, |list, count| {
            let object = list.pop()?;
            *count -= 1;
            Some(object)
        });
        kept.or_else(|| self.refill(class))
    }

    /// Takes an object from the shared lists, and refills half of the cache.
    #[cold]
    fn refill(&self, class: usize) -> Option<*mut u8> {
        let mut heap = shared_with(class)?;
        let first = heap.pop(class);
        self.with(class, |list, count| {
            for _ in 0..most_kept(class) / 2 {
                let Some(object) = heap.pop(class) else { break };
                list.push(object);
                *count += 1;
            }
        });
        first
    }

    #[inline(always)]
    fn give(&self, class: usize, object: *mut u8) {
        let full = self.with(class, |list, count| {
            list.push(object);
            *count += 1;
            *count > most_kept(class)
        });
        if full {
            self.give_some(class, most_kept(class) / 2 + 1, &mut HEAP.lock());
        }
    }

    /// Moves up to `most` objects of a class to the shared lists.
    #[cold]
    fn give_some(&self, class: usize, most: usize, heap: &mut Heap) {
        self.with(class, |list, count| {
            for _ in 0..most {
                let Some(object) = list.pop() else { break };
                *count -= 1;
                heap.push(class, object);
            }
        });
    }

    fn give_all(&self, heap: &mut Heap) {
        (0..CLASSES.len()).for_each(|class| self.give_some(class, usize::MAX, heap));
    }
}

/// Class by (size - 1) / 16 for sizes up to 2048.
static CLASS_OF: [u8; 128] = {
    let mut table = [0u8; 128];
    let mut i = 0;
    while i < 128 {
        let size = (i + 1) * 16;
        let mut class = 0;
        while CLASSES[class] < size {
            class += 1;
        }
        table[i] = class as u8;
        i += 1;
    }
    table
};

/// The class for a layout, or `None` for a separate block of frames.
fn class_of(layout: Layout) -> Option<usize> {
    // Objects of a class lie at multiples of its size from a page boundary, so only classes that
    // are multiples of the alignment keep it; rounding the size up to the alignment picks one for
    // alignments up to 64 (48 and its multiples are multiples of 16 only).
    let size = if layout.align() > 16 { layout.size().max(layout.align()).next_power_of_two() } else { layout.size() };
    if size == 0 || size > 2048 { None } else { Some(CLASS_OF[(size - 1) / 16] as usize) }
}

fn order_of(layout: Layout) -> usize {
    let pages = layout.size().max(layout.align()).max(1).div_ceil(PAGE_SIZE);
    pages.next_power_of_two().trailing_zeros() as usize
}

/// Failing large allocations, for a test: the code must return an error, or work without the memory.
#[cfg(feature = "failing-heap")]
mod failing {
    use super::PAGE_SIZE;
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Number of large allocations that succeed first: keel boots with them.
    const FIRST: u64 = 64;

    /// Whether an allocation of this size must fail: every third of the large ones does, pseudo-randomly.
    pub fn fails(bytes: usize) -> bool {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if bytes <= PAGE_SIZE {
            return false;
        }
        let number = COUNT.fetch_add(1, Relaxed);
        // The high bits of a multiplicative hash.
        number > FIRST && (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(3)
    }
}

/// The allocator.
#[derive(Debug)]
pub struct KeelHeap;

/// The hosted platform uses the process's allocator.
#[cfg(not(feature = "hosted"))]
#[global_allocator]
static GLOBAL: KeelHeap = KeelHeap;

// SAFETY: blocks come from the frame allocator, are disjoint, large enough and aligned (classes at
// multiples of their size in a page-aligned block, powers of two for larger alignments); the lists are used
// under the lock or by one virtual CPU.
unsafe impl GlobalAlloc for KeelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class_of(layout) else {
            #[cfg(feature = "failing-heap")]
            if failing::fails(layout.size()) {
                return null_mut();
            }
            return take_block_or_trim(order_of(layout)).map_or(null_mut(), |gpa| direct_map::address(gpa) as *mut u8);
        };
        let object =
            if several() { Cache::here().take(class) } else { shared_with(class).and_then(|mut heap| heap.pop(class)) };
        object.unwrap_or(null_mut())
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        match class_of(layout) {
            Some(class) if several() => Cache::here().give(class, object),
            Some(class) => HEAP.lock().push(class, object),
            None => give_block(direct_map::gpa(object as usize), order_of(layout)),
        }
    }
}

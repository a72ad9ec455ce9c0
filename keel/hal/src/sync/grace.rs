//! Values that are read without a lock while others replace them (RCU).
//!
//! A reading virtual CPU marks that in its own word, which is odd meanwhile ([`read`]). A writer
//! ([`Published::replace`]) drops the old value at once if no virtual CPU reads; otherwise it defers the drop, together
//! with the words of the readers, until each of these words has changed. Reading costs one locked instruction while
//! several virtual CPUs are awake, and writes no shared cache line.
//!
//! Soundness: either the writer sees the reader's word, or the reader sees the new pointer: both do a store, then a
//! load of the other's word, sequentially consistent.
#![cfg_attr(loom, allow(dead_code, reason = "models have no statics"))]
#![allow(unsafe_code)]

use super::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use super::atomic::{AtomicPtr, AtomicU32, fence};
use super::{Rank, SpinLock, several};
use crate::cell::Padded;
use abi::layout::MAX_CPUS;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};

/// Words of the reading virtual CPUs.
struct Readers<const N: usize>([Padded<AtomicU32>; N]);

impl<const N: usize> Readers<N> {
    /// The word of a virtual CPU.
    #[inline(always)]
    fn word(&self, cpu: usize) -> &AtomicU32 {
        &self.0[cpu % N]
    }

    /// Begins a read of a virtual CPU; returns whether it is the outermost one.
    #[inline(always)]
    fn begin(&self, cpu: usize, several: bool) -> bool {
        let word = self.word(cpu);
        let before = word.load(Relaxed);
        if before & 1 != 0 {
            return false;
        }
        let reading = before.wrapping_add(1);
        if several && !cfg!(loom) {
            word.swap(reading, SeqCst);
        } else {
            word.store(reading, Relaxed);
            if cfg!(loom) {
                // Loom supports sequential consistency for fences only.
                fence(SeqCst);
            }
        }
        true
    }

    /// Ends the read.
    #[inline(always)]
    fn end(&self, cpu: usize) {
        let word = self.word(cpu);
        word.store(word.load(Relaxed).wrapping_add(1), Release);
    }

    /// The words of the first `count` virtual CPUs, after a pointer was replaced; 0 for those that do not read.
    fn reading(&self, count: usize) -> Waited<N> {
        fence(SeqCst);
        let mut words = [0; N];
        for (word, seen) in self.0.iter().zip(&mut words).take(count) {
            let value = word.load(SeqCst);
            if value & 1 != 0 {
                *seen = value;
            }
        }
        Waited(words)
    }

    /// Whether those reads have ended.
    fn ended(&self, waited: &Waited<N>) -> bool {
        self.0.iter().zip(waited.0).all(|(word, then)| then == 0 || word.load(Acquire) != then)
    }
}

/// Words of the virtual CPUs that read when a value was replaced.
struct Waited<const N: usize>([u32; N]);

impl<const N: usize> Waited<N> {
    fn nobody(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// A read section: the virtual CPU reads as long as this is borrowed.
#[derive(Debug)]
pub struct Reading(PhantomData<*mut ()>);

/// A replaced value, to be dropped.
type Old = Arc<dyn Send + Sync>;

/// Replaced values whose drop is deferred, with their readers.
struct Kept(Vec<(Old, Waited<MAX_CPUS>)>);

#[cfg(not(loom))]
mod here {
    use super::*;

    pub(super) static READERS: Readers<MAX_CPUS> = Readers([const { Padded::new(AtomicU32::new(0)) }; MAX_CPUS]);
    static KEPT: SpinLock<Kept> = SpinLock::new(Rank::Grace, Kept(Vec::new()));

    #[inline(always)]
    pub(super) fn cpu() -> usize {
        crate::percpu::cpu_index()
    }

    /// Whether this virtual CPU is in a read section.
    pub(crate) fn is_reading() -> bool {
        READERS.word(cpu()).load(Relaxed) & 1 != 0
    }

    /// Runs `f` in a read section, in which it may access published values. It must not switch threads:
    /// [`crate::thread::switch`] panics.
    #[inline(always)]
    pub fn read<R>(f: impl FnOnce(&Reading) -> R) -> R {
        let cpu = cpu();
        let first = READERS.begin(cpu, several());
        let result = f(&Reading(PhantomData));
        if first {
            READERS.end(cpu);
        }
        result
    }

    /// Drops a replaced value, now or later; and earlier ones without readers.
    pub(super) fn retire(old: Old) {
        let mut kept = KEPT.lock();
        if !several() && READERS.word(0).load(Relaxed) & 1 == 0 && kept.0.is_empty() {
            return free_now(kept, Vec::new(), old);
        }
        let waited = READERS.reading(if several() { MAX_CPUS } else { 1 });
        let free = kept.take_ended();
        if waited.nobody() {
            free_now(kept, free, old);
        } else if kept.0.try_reserve(1).is_ok() {
            kept.0.push((old, waited));
            drop(kept);
        } else {
            drop(kept);
            // The others read only briefly; this one may be in a read section itself.
            let mut round = 0;
            while !READERS.ended(&waited) && READERS.word(cpu()).load(Relaxed) & 1 == 0 {
                super::super::relax(&mut round);
            }
            if !READERS.ended(&waited) {
                core::mem::forget(old);
            }
        }
    }

    /// Drops replaced values whose readers have ended: they may hold memory.
    pub fn collect() {
        let mut kept = KEPT.lock();
        let free = kept.take_ended();
        drop(kept);
        drop(free);
    }

    impl Kept {
        /// Those without readers, to be dropped after the lock is released.
        fn take_ended(&mut self) -> Vec<Old> {
            let mut free = Vec::new();
            while let Some(i) = self.0.iter().position(|(_, waited)| READERS.ended(waited)) {
                // Out of memory for the list: later calls drop them one by one.
                if free.try_reserve(1).is_err() {
                    break;
                }
                free.push(self.0.swap_remove(i).0);
            }
            free
        }
    }

    fn free_now(kept: super::super::Guard<'_, Kept>, free: Vec<Old>, old: Old) {
        drop(kept);
        drop(free);
        drop(old);
    }
}
#[cfg(not(loom))]
pub(crate) use here::is_reading;
#[cfg(not(loom))]
pub use here::{collect, read};

/// A slot for a value that is read without a lock. Several CPUs may replace it.
#[derive(Debug)]
pub struct Published<T> {
    /// Pointer of an `Arc`, whose reference the slot owns; null: none.
    pointer: AtomicPtr<T>,
    owned: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Without a value.
    #[cfg(not(loom))]
    pub const fn empty() -> Self {
        Self { pointer: AtomicPtr::new(null_mut()), owned: PhantomData }
    }

    /// The value, valid in this read section.
    #[inline(always)]
    pub fn get<'r>(&'r self, _reading: &'r Reading) -> Option<&'r T> {
        let pointer = self.pointer.load(SeqCst);
        // SAFETY: the pointer is null or that of an `Arc` whose reference the slot owns. If it is replaced now, that
        // reference is dropped only after the read section has ended, and the borrow does not outlive that; see the
        // module.
        unsafe { pointer.as_ref() }
    }

    /// A new reference for the caller.
    pub fn share(&self, reading: &Reading) -> Option<Arc<T>> {
        let value = NonNull::from(self.get(reading)?);
        // SAFETY: the pointer is that of an `Arc` that lives during the read section: the new reference is counted
        // first.
        unsafe {
            Arc::increment_strong_count(value.as_ptr());
            Some(Arc::from_raw(value.as_ptr()))
        }
    }

    /// Replaces the value, or removes it. The old one is dropped when it has no readers.
    #[cfg(not(loom))]
    pub fn replace(&self, new: Option<Arc<T>>) {
        if let Some(old) = self.swap(new) {
            here::retire(old);
        }
    }

    /// Returns the old value, which may still have readers.
    fn swap(&self, new: Option<Arc<T>>) -> Option<Arc<T>> {
        let new = new.map_or(null_mut(), |new| Arc::into_raw(new).cast_mut());
        let old = if several() || cfg!(loom) {
            self.pointer.swap(new, SeqCst)
        } else {
            let old = self.pointer.load(Relaxed);
            self.pointer.store(new, Relaxed);
            old
        };
        // SAFETY: a non-null pointer came from `Arc::into_raw`, and the slot owned its reference until now.
        if old.is_null() { None } else { Some(unsafe { Arc::from_raw(old) }) }
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        #[cfg(not(loom))]
        let pointer = *self.pointer.get_mut();
        #[cfg(loom)]
        let pointer = self.pointer.with_mut(|pointer| *pointer);
        if !pointer.is_null() {
            // SAFETY: as in `swap`; the slot is not borrowed any more, so there is no reader.
            drop(unsafe { Arc::from_raw(pointer) });
        }
    }
}

/// A growing array of slots. Each has a label, which is 0 without a value.
#[derive(Debug)]
#[cfg(not(loom))]
pub struct Slots<T> {
    array: Published<Array<T>>,
}

#[derive(Debug)]
#[cfg(not(loom))]
struct Array<T>(Box<[Place<T>]>);

#[derive(Debug)]
#[cfg(not(loom))]
struct Place<T> {
    value: Published<T>,
    label: AtomicU32,
}

#[cfg(not(loom))]
impl<T: Send + Sync + 'static> Slots<T> {
    /// An empty array.
    pub const fn new() -> Self {
        Self { array: Published::empty() }
    }

    /// The value of a slot.
    #[inline(always)]
    pub fn get<'r>(&'r self, index: usize, reading: &'r Reading) -> Option<&'r T> {
        self.array.get(reading)?.0.get(index)?.value.get(reading)
    }

    /// The label of a slot.
    #[inline(always)]
    fn label(&self, index: usize, reading: &Reading) -> u32 {
        match self.array.get(reading) {
            Some(array) => array.0.get(index).map_or(0, |place| place.label.load(Relaxed)),
            None => 0,
        }
    }

    /// Sets a value with a label in a slot, or removes it. Removes it also if out of memory. One caller at a time.
    pub fn set(&self, index: usize, new: Option<(Arc<T>, u32)>) {
        let (value, label) = new.map_or((None, 0), |(value, label)| (Some(value), label));
        let old = read(|reading| {
            let place = self.array.get(reading).and_then(|array| array.0.get(index))?;
            place.label.store(label, Relaxed);
            Some(place.value.swap(value.clone()))
        });
        match old {
            Some(Some(old)) => here::retire(old),
            Some(None) => {}
            None if value.is_none() => {}
            None => self.grow(index + 1, |i| if i == index { value.clone().map(|value| (value, label)) } else { None }),
        }
    }

    /// Makes room for `len` slots, with new values for some. Does nothing if out of memory.
    fn grow(&self, len: usize, new_value: impl Fn(usize) -> Option<(Arc<T>, u32)>) {
        let old = read(|reading| {
            let old = self.array.get(reading).map_or(&[][..], |array| &array.0);
            // At least twice as much, so that the total of the replaced arrays is smaller than the current one.
            let len = len.max(old.len() * 2).next_multiple_of(8);
            let mut new = Vec::new();
            new.try_reserve_exact(len).ok()?;
            new.extend((0..len).map(|i| {
                let kept = || {
                    let place = old.get(i)?;
                    Some((place.value.share(reading)?, place.label.load(Relaxed)))
                };
                let (value, label) =
                    new_value(i).or_else(kept).map_or((None, 0), |(value, label)| (Some(value), label));
                let place = Place { value: Published::empty(), label: AtomicU32::new(label) };
                drop(place.value.swap(value));
                place
            }));
            self.array.swap(Some(Arc::new(Array(new.into_boxed_slice()))))
        });
        if let Some(old) = old {
            here::retire(old);
        }
    }

    /// Whether a slot has a value.
    pub fn has(&self, index: usize) -> bool {
        read(|reading| self.get(index, reading).is_some())
    }

    /// A copy with the same values.
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        read(|reading| {
            let Some(array) = self.array.get(reading) else { return };
            for (index, place) in array.0.iter().enumerate().rev() {
                if let Some(value) = place.value.share(reading) {
                    copy.set(index, Some((value, place.label.load(Relaxed))));
                }
            }
        });
        copy
    }

    /// Removes all values.
    pub fn clear(&self) {
        self.array.replace(None);
    }
}

#[cfg(not(loom))]
impl<T: Send + Sync + 'static> Published<Slots<T>> {
    /// Whether the label of a slot has one of these bits.
    #[inline(always)]
    pub fn has_label(&self, index: usize, bits: u32) -> bool {
        if !several() {
            // The only virtual CPU runs no other code meanwhile.
            return self.label(index, &Reading(PhantomData)) & bits != 0;
        }
        let cpu = here::cpu();
        let first = here::READERS.begin(cpu, true);
        let label = self.label(index, &Reading(PhantomData));
        if first {
            here::READERS.end(cpu);
        }
        label & bits != 0
    }

    #[inline(always)]
    fn label(&self, index: usize, reading: &Reading) -> u32 {
        match self.get(reading) {
            Some(slots) => slots.label(index, reading),
            None => 0,
        }
    }
}

#[cfg(not(loom))]
impl<T: Send + Sync + 'static> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_stay_while_they_are_read() {
        let (first, second) = (Arc::new(1), Arc::new(2));
        let slots = Arc::new(Slots::new());
        let place = Published::empty();
        place.replace(Some(slots.clone()));
        slots.set(3, Some((first.clone(), 1)));
        read(|reading| {
            let seen = slots.get(3, reading);
            assert_eq!(seen, Some(&1));
            slots.set(3, Some((second.clone(), 2)));
            slots.set(100, Some((second.clone(), 4)));
            assert_eq!((seen, slots.get(3, reading), slots.get(100, reading)), (Some(&1), Some(&2), Some(&2)));
            assert_eq!(Arc::strong_count(&first), 2, "put away");
        });
        slots.set(4, Some((second.clone(), 8)));
        slots.set(4, None);
        assert_eq!(Arc::strong_count(&first), 1);
        let labels = || [3, 4, 100].map(|i| (place.has_label(i, 2), place.has_label(i, !2)));
        assert_eq!(labels(), [(true, false), (false, false), (false, true)]);
        let copy = Arc::new(slots.copy());
        place.replace(Some(copy.clone()));
        assert_eq!(labels(), [(true, false), (false, false), (false, true)]);
        slots.clear();
        drop(slots);
        assert_eq!(read(|reading| copy.get(100, reading).copied()), Some(2));
        assert_eq!(read(|reading| copy.get(4, reading).copied()), None);
        drop(copy);
    }

    #[test]
    fn a_reader_is_waited_for_until_its_word_changes() {
        let readers: Readers<2> = Readers(Default::default());
        assert!(readers.begin(1, true));
        assert!(!readers.begin(1, true), "reads already");
        let waited = readers.reading(2);
        assert!(!waited.nobody() && !readers.ended(&waited));
        readers.end(1);
        assert!(readers.ended(&waited) && readers.reading(2).nobody());
    }
}

/// Models, see [`super::spin`].
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    /// One thread reads while the other replaces the value, and drops it as soon as possible: no concurrent access.
    #[test]
    fn a_value_is_not_destroyed_while_it_is_read() {
        loom::model(|| {
            let readers: Arc<Readers<2>> = Arc::new(Readers([(); 2].map(|()| Padded::new(AtomicU32::new(0)))));
            let value = Arc::new(UnsafeCell::new(1));
            let place = Arc::new(Published {
                pointer: AtomicPtr::new(Arc::into_raw(value.clone()).cast_mut()),
                owned: PhantomData,
            });
            let other = {
                let (readers, place) = (readers.clone(), place.clone());
                thread::spawn(move || {
                    readers.begin(1, true);
                    let pointer: *mut UnsafeCell<i32> = place.pointer.load(SeqCst);
                    // SAFETY: the model's own handle keeps the cell; loom fails it if an access is concurrent.
                    let seen = unsafe { pointer.as_ref() }.map(|cell| cell.with(|value| unsafe { *value }));
                    readers.end(1);
                    assert!(seen.is_none_or(|seen| seen == 1), "destroyed");
                })
            };
            // SAFETY: as above.
            drop(unsafe { Arc::from_raw(place.pointer.swap(null_mut(), SeqCst)) });
            let waited = readers.reading(2);
            while !readers.ended(&waited) {
                thread::yield_now();
            }
            // SAFETY: as above.
            value.with_mut(|value| unsafe { *value = 0 });
            other.join().unwrap();
        });
    }
}

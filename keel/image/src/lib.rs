//! The keel image: links the kernel with its entry points.
//!
//! The host build compiles this as a static library and links it with `keel.ld`. It contains only the symbols that a
//! freestanding program must have.
#![no_std]

use hal::hooks::Hooks;

/// What `hal` calls.
// SAFETY: the name is unique in the image; `hal` declares it with this type.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
static KEEL_HOOKS: Hooks = keel_kernel::HOOKS;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    hal::report::panic(info)
}

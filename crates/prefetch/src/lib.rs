//! Hints to the processor to load memory into its cache before it is used. A hint changes how long a program takes, and nothing else.
#![allow(unsafe_code, reason = "the standard library has no stable function for this")]

/// Bytes of a cache line on x86_64 and on most aarch64 processors.
const LINE: usize = 64;

/// Starts to load all cache lines of `value`, without waiting for them. On processors other than x86_64 and aarch64 it does nothing.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    let start = (&raw const *value).cast::<u8>();
    for offset in (0..size_of_val(value)).step_by(LINE) {
        line(start.wrapping_add(offset));
    }
}

#[inline]
fn line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program can see, and raises no fault, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch reads nothing that the program can see, and raises no fault, whatever the address; it changes no flags.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_may_be_loaded_and_keeps_its_content() {
        let bytes = vec![7_u8; 1000];
        prefetch(&bytes[..]);
        prefetch(&bytes[999..]);
        prefetch(&bytes[..0]);
        prefetch(&());
        let boxed: Box<dyn std::fmt::Debug> = Box::new(bytes);
        prefetch(&*boxed);
        assert_eq!(format!("{boxed:?}"), format!("{:?}", [7_u8; 1000]));
    }
}

//! Memory that the allocator keeps for later.

/// Gives freed memory that the allocator keeps back to the kernel. It takes about a
/// millisecond for some tens of megabytes, and what is allocated later takes page faults.
pub fn give_back() {
    #[cfg(feature = "mimalloc")]
    // SAFETY: mi_collect has no condition; it works on what the calling thread and ended ones have freed.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
    #[cfg(all(not(feature = "mimalloc"), target_env = "gnu"))]
    // SAFETY: malloc_trim has no condition; it returns whether anything was given back, which does not matter.
    unsafe {
        libc::malloc_trim(0);
    }
}

//! Memory that the allocator keeps for later.

/// Gives freed memory that the allocator keeps back to the kernel, where the allocator is glibc's or mimalloc. It takes about a
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

#[cfg(all(test, target_env = "gnu", not(feature = "mimalloc")))]
mod tests {
    use super::*;

    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line of it");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }

    #[test]
    fn what_was_freed_below_what_is_in_use_is_given_back() {
        const PIECE: usize = 4096;
        let mut pieces: Vec<Vec<u8>> = (0..16_384).map(|_| vec![1; PIECE]).collect();
        let last = pieces.pop();
        drop(pieces);
        let before = resident_kib();
        give_back();
        let given = before.saturating_sub(resident_kib());
        // Other tests take and give memory meanwhile.
        assert!(given > 32 * 1024, "{given} KiB of 65,536");
        assert_eq!(last.map(|piece| piece[PIECE - 1]), Some(1));
    }
}

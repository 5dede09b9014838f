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

/// Bytes of a huge page: x86_64's, and aarch64's with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;
/// `MADV_COLLAPSE`, which the libc crate lacks for musl.
const COLLAPSE: libc::c_int = 25;

/// Gathers the memory that this process has allocated until now into huge pages: what is spread over tens of megabytes is then found
/// with fewer page walks. It takes about as long as copying the memory. Pages of those that nobody has touched are taken,
/// too. Nothing changes before Linux 6.1, and where `/sys/kernel/mm/transparent_hugepage/enabled` is `never`.
pub fn gather_into_huge_pages() {
    let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if mode.is_empty() || mode.contains("[never]") {
        return;
    }
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for (start, length) in maps.lines().filter_map(huge_part) {
        // SAFETY: the advice changes which pages back the range, and not what it contains; the kernel refuses a range that is no longer mapped.
        unsafe {
            let start = std::ptr::without_provenance_mut(start);
            libc::madvise(start, length, libc::MADV_HUGEPAGE);
            libc::madvise(start, length, COLLAPSE);
        }
    }
}

/// The part of a mapping that may be huge pages, if it is the allocator's: start and length; see `proc_pid_maps(5)`.
fn huge_part(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_whitespace();
    let (range, access, _offset, _device, inode) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let is_heap = access == "rw-p" && inode == "0" && matches!(fields.next(), None | Some("[heap]"));
    let (start, end) = range.split_once('-')?;
    let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16));
    let (start, end) = (start.ok()?.next_multiple_of(HUGE_PAGE), end.ok()? / HUGE_PAGE * HUGE_PAGE);
    (is_heap && start < end).then(|| (start, end - start))
}

#[cfg(test)]
mod huge_page_tests {
    use super::*;

    #[test]
    fn only_whole_huge_pages_of_the_heap_are_gathered() {
        let heap = "55d0c0123000-55d0c0a00000 rw-p 00000000 00:00 0                          [heap]";
        assert_eq!(huge_part(heap), Some((0x55d0_c020_0000, 0x80_0000)));
        assert_eq!(huge_part("7f0000000000-7f0000400000 rw-p 00000000 00:00 0 "), Some((0x7f00_0000_0000, 0x40_0000)));
        for other in [
            "7f0000001000-7f0000201000 rw-p 00000000 00:00 0 ",
            "7f0000000000-7f0000400000 r-xp 00000000 00:00 0 ",
            "7f0000000000-7f0000400000 rw-p 00000000 fe:00 1234 /usr/lib/x.so",
            "7ffd00000000-7ffd00400000 rw-p 00000000 00:00 0                          [stack]",
            "",
            "x-y rw-p 00000000 00:00 0",
        ] {
            assert_eq!(huge_part(other), None, "{other}");
        }
    }

    #[test]
    fn gathered_memory_keeps_its_content() {
        let numbers: Vec<u64> = (0..4 << 20).collect();
        gather_into_huge_pages();
        assert!(numbers.iter().copied().eq(0..4 << 20));
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

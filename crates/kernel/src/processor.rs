//! What this machine's processor has instructions for.

/// Whether AES-GCM is fast here: the processor has instructions for AES and for the carry-less products of GCM.
pub fn has_aes() -> bool {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    let has_aes = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(target_arch = "arm")]
    let has_aes = arm_has_aes();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64", target_arch = "arm")))]
    let has_aes = false;
    has_aes
}

/// A 64-bit processor that runs 32-bit programs says so; older ones have no such instructions.
#[cfg(target_arch = "arm")]
fn arm_has_aes() -> bool {
    /// `HWCAP2_AES` and `HWCAP2_PMULL` of Linux (asm/hwcap.h).
    const AES_AND_PRODUCTS: libc::c_ulong = 0b11;
    // SAFETY: getauxval reads what the kernel has told this process at its start.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    capabilities & AES_AND_PRODUCTS == AES_AND_PRODUCTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lists_is_found() {
        let listed = std::fs::read_to_string("/proc/cpuinfo").expect("Linux");
        let mut features = listed.lines().filter(|line| line.starts_with("flags") || line.starts_with("Features"));
        let line = features.next().unwrap_or_default();
        let lists = |name: &str| line.split_whitespace().any(|word| word == name);
        assert_eq!(has_aes(), lists("aes") && (lists("pclmulqdq") || lists("pmull")), "{line}");
    }
}

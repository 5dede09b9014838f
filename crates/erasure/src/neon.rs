//! The field's arithmetic by NEON, on 32-bit Arm. The standard library offers its instructions to nightly compilers alone, and
//! programs for armv7 are built to run without them, too: so this is assembly, called where the kernel says that the processor has
//! them.
//!
//! An element is multiplied as four digits of four bits: each selects a byte of two tables, one for the low and one for the high
//! byte of the product, and the eight bytes are added up.
#![allow(unsafe_code, reason = "vector instructions; each block states why it is sound")]

use super::UNIT;
use super::transform::Arithmetic;
use reed_solomon_simd::engine::GfElement;
use reed_solomon_simd::engine::tables::{self, Mul128};
use std::arch::asm;

/// NEON among the capabilities of the processor that Linux reports (`HWCAP_NEON` of arch/arm/include/uapi/asm/hwcap.h).
const HWCAP_NEON: usize = 1 << 12;

/// Arithmetic on a processor with NEON.
pub(crate) struct Neon {
    products: &'static Mul128,
}

impl Neon {
    /// The arithmetic, where the processor has NEON.
    pub(crate) fn detect() -> Option<Self> {
        let (capabilities, _) = rustix::param::linux_hwcap();
        (capabilities & HWCAP_NEON != 0).then(|| Self { products: tables::get_mul128() })
    }
}

/// A function over units of two symbols, which differs in what it does before and after it adds the product of `q2` and `q3` (low and
/// high bytes of `y`) to `q0` and `q1` (those of `x`).
macro_rules! over_units {
    ($(#[$doc:meta])* $name:ident, before: [$($before:literal),*], after: [$($after:literal),*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The processor has NEON, and `units` units can be read and written at `x` and at `y`.
        unsafe fn $name(x: *mut [u8; UNIT], y: *mut [u8; UNIT], units: usize, products: &tables::Multiply128lutT) {
            if units == 0 {
                return;
            }
            let (x, y) = (x.cast::<u8>(), y.cast::<u8>());
            // SAFETY: the loop reads and writes `units` units of 64 bytes from `x` and from `y` on, reads the two tables of 64 bytes
            // each, and changes nothing else but the registers named.
            unsafe {
                asm!(
                    ".fpu neon",
                    "vld1.8 {{d16-d19}}, [{low}]!",
                    "vld1.8 {{d20-d23}}, [{low}]",
                    "vld1.8 {{d24-d27}}, [{high}]!",
                    "vld1.8 {{d28-d31}}, [{high}]",
                    "vmov.i8 q7, #15",
                    "2:",
                    "subs {halves}, {halves}, #1",
                    "vld1.8 {{d0-d1}}, [{x}]",
                    "vld1.8 {{d2-d3}}, [{x_high}]",
                    "vld1.8 {{d4-d5}}, [{y}]",
                    "vld1.8 {{d6-d7}}, [{y_high}]",
                    $($before,)*
                    "vand q4, q2, q7",
                    "vtbl.8 d10, {{d16-d17}}, d8",
                    "vtbl.8 d11, {{d16-d17}}, d9",
                    "vtbl.8 d12, {{d24-d25}}, d8",
                    "vtbl.8 d13, {{d24-d25}}, d9",
                    "vshr.u8 q4, q2, #4",
                    "veor q0, q0, q5",
                    "veor q1, q1, q6",
                    "vtbl.8 d10, {{d18-d19}}, d8",
                    "vtbl.8 d11, {{d18-d19}}, d9",
                    "vtbl.8 d12, {{d26-d27}}, d8",
                    "vtbl.8 d13, {{d26-d27}}, d9",
                    "vand q4, q3, q7",
                    "veor q0, q0, q5",
                    "veor q1, q1, q6",
                    "vtbl.8 d10, {{d20-d21}}, d8",
                    "vtbl.8 d11, {{d20-d21}}, d9",
                    "vtbl.8 d12, {{d28-d29}}, d8",
                    "vtbl.8 d13, {{d28-d29}}, d9",
                    "vshr.u8 q4, q3, #4",
                    "veor q0, q0, q5",
                    "veor q1, q1, q6",
                    "vtbl.8 d10, {{d22-d23}}, d8",
                    "vtbl.8 d11, {{d22-d23}}, d9",
                    "vtbl.8 d12, {{d30-d31}}, d8",
                    "vtbl.8 d13, {{d30-d31}}, d9",
                    "veor q0, q0, q5",
                    "veor q1, q1, q6",
                    $($after,)*
                    "vst1.8 {{d0-d1}}, [{x}]!",
                    "vst1.8 {{d2-d3}}, [{x_high}]!",
                    "vst1.8 {{d4-d5}}, [{y}]!",
                    "vst1.8 {{d6-d7}}, [{y_high}]!",
                    // The second half of a unit lies 16 bytes on, the next unit 48.
                    "tst {halves}, #1",
                    "bne 2b",
                    "add {x}, {x}, #32",
                    "add {x_high}, {x_high}, #32",
                    "add {y}, {y}, #32",
                    "add {y_high}, {y_high}, #32",
                    "cmp {halves}, #0",
                    "bne 2b",
                    low = inout(reg) products.lo.as_ptr() => _,
                    high = inout(reg) products.hi.as_ptr() => _,
                    x = inout(reg) x => _,
                    x_high = inout(reg) x.wrapping_add(UNIT / 2) => _,
                    y = inout(reg) y => _,
                    y_high = inout(reg) y.wrapping_add(UNIT / 2) => _,
                    halves = inout(reg) 2 * units => _,
                    out("q0") _, out("q1") _, out("q2") _, out("q3") _, out("q4") _, out("q5") _, out("q6") _, out("q7") _,
                    out("q8") _, out("q9") _, out("q10") _, out("q11") _, out("q12") _, out("q13") _, out("q14") _, out("q15") _,
                    options(nostack),
                );
            }
        }
    };
}

over_units! {
    /// Adds `y`, times an element whose `products` these are, to `x`, then `x` to `y`.
    butterfly, before: [], after: ["veor q2, q2, q0", "veor q3, q3, q1"]
}

over_units! {
    /// Adds `x` to `y`, then `y`, times an element whose `products` these are, to `x`.
    inverse_butterfly, before: ["veor q2, q2, q0", "veor q3, q3, q1"], after: []
}

over_units! {
    /// Makes `x` and `y`, which may be one, the product of `y` and the element whose `products` these are.
    multiply, before: ["vmov.i8 q0, #0", "vmov.i8 q1, #0"], after: ["vmov q2, q0", "vmov q3, q1"]
}

impl Arithmetic for Neon {
    fn butterfly(&self, x: &mut [[u8; UNIT]], y: &mut [[u8; UNIT]], log: GfElement) {
        let units = x.len().min(y.len());
        // SAFETY: there is a `Neon` only where the processor has NEON; both slices have so many units.
        unsafe { butterfly(x.as_mut_ptr(), y.as_mut_ptr(), units, &self.products[usize::from(log)]) }
    }

    fn inverse_butterfly(&self, x: &mut [[u8; UNIT]], y: &mut [[u8; UNIT]], log: GfElement) {
        let units = x.len().min(y.len());
        // SAFETY: as above.
        unsafe { inverse_butterfly(x.as_mut_ptr(), y.as_mut_ptr(), units, &self.products[usize::from(log)]) }
    }

    fn multiply(&self, symbol: &mut [[u8; UNIT]], log: GfElement) {
        let start = symbol.as_mut_ptr();
        // SAFETY: as above.
        unsafe { multiply(start, start, symbol.len(), &self.products[usize::from(log)]) }
    }
}

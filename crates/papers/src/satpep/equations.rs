//! Equations 1 and 2.

use crate::evidence::number;
use crate::{Error, Found, Reproduction, Verdict};
use model::satpep;

/// Windows in segments and bytes of a segment's packet: equal ones, and unequal ones.
const CASES: [&[(f64, f64)]; 4] = [
    &[(1.0, 1500.0)],
    &[(10.0, 1500.0), (90.0, 1500.0)],
    &[(10.0, 1500.0), (20.0, 1500.0), (170.0, 1500.0)],
    &[(10.0, 1460.0), (20.0, 536.0), (170.0, 1460.0)],
];
/// What is available, in bytes: the bandwidth-delay product of 6 Mbit/s and 550 ms, and less.
const AVAILABLE: [f64; 3] = [412_500.0, 100_000.0, 1_500.0];

/// Checks what section 2.1 says of equation 1.
pub fn check() -> Result<Reproduction, Error> {
    let mut farthest: f64 = 0.0;
    let mut is_ordered = true;
    for windows in CASES {
        for available in AVAILABLE {
            let grown = satpep::increments(available, windows).map_err(Error::failed)?.value;
            let bytes: Vec<_> = grown.iter().zip(windows).map(|(grown, (_, packet))| grown * packet).collect();
            farthest = farthest.max((bytes.iter().sum::<f64>() / available - 1.0).abs());
            is_ordered &= bytes.is_sorted_by(|smaller, larger| smaller >= larger);
        }
    }
    let holds = |does: bool| if does { Verdict::Holds } else { Verdict::DoesNotHold };
    let sum = Found::new("sum").verdict(holds(farthest < 1e-9)).note(format!("largest deviation {farthest:.0e}"));
    let order = Found::new("smaller get more").verdict(holds(is_ordered)).note(
        "in bytes; a window above twice the mean shrinks, and a negative available window would turn the order round",
    );
    let product = 6e6 * 0.55 / 8.0;
    let most = |n| satpep::greatest_window(product, 1.0, n, 1500.0);
    let remark = format!(
        "Equation 2 with c = 1, which the paper does not print: {} segments for one connection over 6 Mbit/s and 550 ms, {} \
         for each of 21",
        number(most(1)),
        number(most(21))
    );
    Ok(Reproduction { found: vec![sum, order], remarks: vec![remark], charts: Vec::new() })
}

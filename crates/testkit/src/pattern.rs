//! The bytes of transfers: no two directions and no two places alike, so that what is lost, moved or mixed up shows.

/// Fills `out` with the bytes of the direction `key` from offset `from` on.
pub fn fill(key: u64, from: u64, out: &mut [u8]) {
    let mut word = 0;
    for (at, byte) in (from..).zip(out.iter_mut()) {
        if at == from || at.is_multiple_of(8) {
            word = word_at(key, at);
        }
        *byte = (word >> (at % 8 * 8)) as u8;
    }
}

/// How many of `bytes` differ from those of the direction `key` from offset `from` on.
pub fn count_wrong(key: u64, from: u64, bytes: &[u8]) -> u64 {
    let (mut word, mut wrong) = (0, 0);
    for (at, byte) in (from..).zip(bytes) {
        if at == from || at.is_multiple_of(8) {
            word = word_at(key, at);
        }
        wrong += u64::from(*byte != (word >> (at % 8 * 8)) as u8);
    }
    wrong
}

fn word_at(key: u64, at: u64) -> u64 {
    units::mix(units::mix(key) ^ (at / 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_pieces_is_right_and_what_is_changed_or_shifted_is_wrong() {
        let mut bytes = [0; 100];
        fill(7, 1000, &mut bytes[..37]);
        fill(7, 1037, &mut bytes[37..]);
        assert_eq!(count_wrong(7, 1000, &bytes), 0);
        assert!(count_wrong(7, 1001, &bytes) > 90);
        assert!(count_wrong(8, 1000, &bytes) > 90);
        bytes[50] ^= 1;
        assert_eq!(count_wrong(7, 1000, &bytes), 1);
    }
}

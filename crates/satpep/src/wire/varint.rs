//! Variable-length integers as in QUIC (RFC 9000, section 16): the two top bits of the first byte give the length.

/// The largest value that can be written.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// Bytes that `value` takes.
pub(crate) const fn len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Writes `value` (at most [`MAX`]) at the start of `out`, which has room for [`len`] bytes; returns that length.
pub(crate) fn write(value: u64, out: &mut [u8]) -> usize {
    debug_assert!(value <= MAX);
    match len(value) {
        1 => out[0] = value as u8,
        2 => out[..2].copy_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out[..4].copy_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out[..8].copy_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
    len(value)
}

/// Reads a value from the start of `input`, which then begins after it; `None` if `input` ends too early.
pub(crate) fn read(input: &mut &[u8]) -> Option<u64> {
    let first = *input.first()?;
    let length = 1usize << (first >> 6);
    let (bytes, rest) = input.split_at_checked(length)?;
    let mut value = u64::from(first & 0x3f);
    for byte in &bytes[1..] {
        value = value << 8 | u64::from(*byte);
    }
    *input = rest;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_at_every_length() {
        for value in [0, 1, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, MAX] {
            let mut buffer = [0; 8];
            let length = write(value, &mut buffer);
            assert_eq!(length, len(value));
            let mut input = &buffer[..length];
            assert_eq!(read(&mut input), Some(value));
            assert!(input.is_empty());
            assert_eq!(read(&mut &buffer[..length - 1]), None);
        }
    }

    #[test]
    fn reads_the_examples_of_rfc_9000() {
        let examples: [(&[u8], u64); 4] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ];
        for (mut bytes, value) in examples {
            assert_eq!(read(&mut bytes), Some(value));
        }
    }
}

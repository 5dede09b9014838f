//! What two gateways of the `tcp` transport say on a session's connection, in whatever pieces it comes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use relay::tunnel::words::{Reader, Word};

fn read(bytes: &[u8], piece: usize) -> Vec<Word> {
    let (mut reader, mut words) = (Reader::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        reader.push(piece);
        words.extend(std::iter::from_fn(|| reader.poll()));
    }
    words
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece, bytes)) = input.split_first() else { return };
    let words = read(bytes, usize::from(piece % 8) + 1);
    assert_eq!(words, read(bytes, usize::MAX));
    let mut again = Vec::new();
    words.iter().for_each(|word| word.encode(&mut again));
    assert_eq!(words, read(&again, 1_000));
});

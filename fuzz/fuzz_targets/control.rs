//! The messages of a control connection, in whatever pieces they come.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcp_tunnel::control::{Message, Reader};

fn read(bytes: &[u8], piece: usize) -> Vec<Message> {
    let (mut reader, mut messages) = (Reader::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        reader.push(piece);
        messages.extend(std::iter::from_fn(|| reader.poll()));
    }
    messages
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece, bytes)) = input.split_first() else { return };
    let messages = read(bytes, usize::from(piece % 8) + 1);
    assert_eq!(messages, read(bytes, usize::MAX));
    let mut again = Vec::new();
    messages.iter().for_each(|message| message.encode(&mut again));
    assert_eq!(messages, read(&again, 1_000));
});

//! What a connection of the satellite transport `tcp` begins with, in whatever pieces it comes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcp_tunnel::{Greeting, GreetingError, LONGEST, Parser};

/// Reads as the gateway does: never more than is missing.
fn read(mut bytes: &[u8], most: usize) -> (usize, Result<Option<Greeting>, GreetingError>) {
    let (mut parser, mut used) = (Parser::new(), 0);
    while !bytes.is_empty() {
        let missing = parser.missing();
        assert!((1..=LONGEST).contains(&missing));
        let (piece, rest) = bytes.split_at(missing.min(most).min(bytes.len()));
        match parser.push(piece) {
            Ok(None) => {}
            outcome => return (used + piece.len(), outcome),
        }
        (bytes, used) = (rest, used + piece.len());
    }
    (used, Ok(None))
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece, bytes)) = input.split_first() else { return };
    let (used, at_once) = read(bytes, LONGEST);
    let (_, in_pieces) = read(bytes, usize::from(piece % 8) + 1);
    assert_eq!(at_once, in_pieces);
    assert!(used <= LONGEST);
    if let Ok(Some(Greeting::Session(hello))) = at_once {
        assert_eq!(hello.encode(), bytes[..used]);
    }
});

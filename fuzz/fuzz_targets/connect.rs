//! The connect request of a stream, in whatever pieces it comes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use relay::connect::{HAS_FIELDS, MAX_LENGTH, Parser};

fuzz_target!(|input: &[u8]| {
    let Some((&piece, bytes)) = input.split_first() else { return };
    let at_once = Parser::new().push(bytes);
    let (mut parser, mut used, mut outcome) = (Parser::new(), 0, Ok(None));
    for piece in bytes.chunks(usize::from(piece % 8) + 1) {
        match parser.push(piece) {
            Ok((length, open)) => {
                used += length;
                outcome = Ok(open);
                if open.is_some() {
                    break;
                }
            }
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    match (at_once, outcome) {
        (Ok((length, open)), Ok(in_pieces)) => {
            assert_eq!((length, open), (used, in_pieces));
            // Fields of a later version are skipped and not written again.
            if let Some(open) = open.filter(|_| bytes[1] & HAS_FIELDS == 0) {
                let mut buffer = [0; MAX_LENGTH];
                let length = open.encode(&mut buffer).expect("what was read can be written");
                assert_eq!(buffer[..length], bytes[..length]);
            }
        }
        (at_once, in_pieces) => assert_eq!(at_once.map(|(_, open)| open), in_pieces),
    }
});

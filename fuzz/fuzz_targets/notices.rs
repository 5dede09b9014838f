//! Notices of ends between two gateways of the `tcp` transport, whose connection goes and comes back at any time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcp_tunnel::control::{Ended, Message, Reader};
use tcp_tunnel::notices::Notices;
use satpep::ResetReason;

fn read(reader: &mut Reader, bytes: &[u8]) -> Vec<Message> {
    reader.push(bytes);
    std::iter::from_fn(|| reader.poll()).collect()
}

/// Every end is reported eventually, wherever the connection fails.
fn tell(operations: &[u8]) {
    let (mut notices, mut reader) = (Notices::new(), Reader::new());
    let (mut way, mut back) = (Vec::new(), Vec::new());
    let (mut pushed, mut told) = (0, std::collections::BTreeSet::new());
    let settle = [2, 3].repeat(8);
    for operation in operations.iter().chain(&settle) {
        match operation % 5 {
            0 | 1 => {
                notices.push(Ended { session: 1, number: pushed, reason: ResetReason::Aborted });
                pushed += 1;
            }
            2 => notices
                .poll_transmit(&mut way, usize::from(operation / 5) * 4 + 64 * 1024 * usize::from(*operation == 2)),
            3 => {
                for message in read(&mut reader, &std::mem::take(&mut way)) {
                    match message {
                        Message::Ended(ended) => {
                            told.insert(ended.number);
                        }
                        Message::Probe(number) => back.push(number),
                        other => panic!("nobody said {other:?}"),
                    }
                }
                for number in std::mem::take(&mut back) {
                    notices.on_answer(number, &mut way);
                }
            }
            _ => {
                // The connection goes, with what was under way.
                (reader, way, back) = (Reader::new(), Vec::new(), Vec::new());
                notices.restart();
            }
        }
    }
    assert_eq!(told.len() as u64, pushed, "an end was not told");
    assert!(!notices.has_something_to_say());
}

fuzz_target!(|input: &[u8]| tell(input));

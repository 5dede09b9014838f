//! Opening a connection (RFC 9293, sections 3.5 and 3.10; RFC 6298, section 5.7; RFC 7323).

use super::lone::{Lone, bare, config, seg, syn};
use tcp::{Config, Event, Failure, Flags, ReceiveBuffer, Segment};
use units::{Bytes, Duration};

const ALL: [Flags; 3] = [Flags::TIMESTAMPS, Flags::SACK_PERMITTED, Flags::WINDOW_SCALE];

fn with_all_options() -> Config {
    let config = config("sack");
    Config { options: tcp::Options { timestamps: true, ..config.options }, ..config }
}

#[test]
fn the_three_segments() {
    let mut client = Lone::connecting(with_all_options());
    let offer = client.take();
    assert_eq!(offer.len(), 1);
    assert!(offer[0].has(Flags::SYN) && !offer[0].has(Flags::ACK));
    assert!(ALL.iter().all(|option| offer[0].has(*option)));
    assert_eq!((offer[0].seq, offer[0].len, offer[0].header), (0, 0, 60));

    let mut server = Lone::listening(with_all_options());
    server.give(offer[0]);
    let answer = server.take();
    assert_eq!(answer.len(), 1);
    assert!(answer[0].has(Flags::SYN.with(Flags::ACK)) && ALL.iter().all(|option| answer[0].has(*option)));
    assert_eq!((answer[0].seq, answer[0].ack), (0, 1));
    assert!(server.events().is_empty(), "not connected before the third segment");

    client.at(100);
    client.give(answer[0]);
    let third = client.take();
    assert_eq!(third.len(), 1);
    assert_eq!(
        (third[0].seq, third[0].ack, third[0].len, third[0].flags),
        (1, 1, 0, Flags::ACK.with(Flags::TIMESTAMPS))
    );
    assert!(client.events().contains(&Event::Connected));
    assert_eq!(client.end.metrics().srtt, Duration::from_millis(100));

    server.at(100);
    server.give(third[0]);
    assert!(server.events().contains(&Event::Connected));
    assert!(server.take().is_empty());
}

#[test]
fn an_option_is_used_only_when_both_offer_it() {
    for refused in ALL {
        let offered: Vec<Flags> = ALL.into_iter().filter(|option| *option != refused).collect();
        let mut server = Lone::listening(with_all_options());
        server.give(syn(&offered));
        let answer = server.take()[0];
        for option in ALL {
            assert_eq!(answer.has(option), option != refused, "{option:?} where {refused:?} was not offered");
        }
        let mut client = Lone::connecting(with_all_options());
        client.take();
        client.give(bare(offered.iter().fold(Flags::SYN.with(Flags::ACK), |flags, option| flags.with(*option)), 0, 1));
        let third = client.take()[0];
        assert_eq!(third.has(Flags::TIMESTAMPS), refused != Flags::TIMESTAMPS);
        assert_eq!(third.header, if refused == Flags::TIMESTAMPS { 40 } else { 52 });
        let most = if refused == Flags::WINDOW_SCALE { 65_535 } else { 1 << 30 };
        assert!(third.window <= most && third.window >= most - (1 << 14), "{}", third.window);
        client.payload(seg(1), 1000);
        assert_eq!(client.take()[0].sack.is_empty(), refused == Flags::SACK_PERMITTED);
    }
}

/// RFC 7323, section 2.2: a scale of zero is still the option, and lets the other end scale.
#[test]
fn window_scaling_is_agreed_though_this_end_has_a_small_buffer() {
    let small = Config { receive_buffer: ReceiveBuffer::plain(Bytes::new(30_000)), ..with_all_options() };
    let mut server = Lone::listening(small);
    server.give(syn(&ALL));
    assert!(server.take()[0].has(Flags::WINDOW_SCALE));
}

/// RFC 7323, section 2.2: the window of a SYN is never scaled.
#[test]
fn the_window_of_a_syn_is_not_scaled_and_later_ones_are_whole_units() {
    let large = Config { receive_buffer: ReceiveBuffer::plain(Bytes::new(1_000_001)), ..with_all_options() };
    let mut client = Lone::connecting(large);
    assert_eq!(client.take()[0].window, 65_535);
    client.give(syn(&[Flags::ACK, Flags::WINDOW_SCALE]).acknowledging(1));
    // 1,000,001 >> 4 is the first that fits in 16 bits.
    assert_eq!(client.take()[0].window, 1_000_001 >> 4 << 4);
}

/// RFC 9293, section 3.7.1: segments are no longer than the peer's maximum, and no longer than the own one.
#[test]
fn no_segment_is_longer_than_either_end_takes() {
    let with = |mss| Config { mss, ..with_all_options() };
    for (own, peers, longest) in [(1448, 536, 536), (536, 1448, 536), (1000, 1000, 1000)] {
        let mut client = Lone::connecting(with(own));
        let mut server = Lone::listening(with(peers));
        let offer = client.take()[0];
        assert_eq!(offer.mss(), Some(own));
        server.give(offer);
        let answer = server.take()[0];
        assert_eq!(answer.mss(), Some(peers));
        client.give(answer);
        let third = client.take()[0];
        assert_eq!(third.mss(), None);
        server.give(third);
        for (name, end) in [("client", &mut client), ("server", &mut server)] {
            end.write(100_000);
            let lengths: Vec<_> = end.take().iter().map(|segment| segment.len).collect();
            let window = with(own).initial_window as usize;
            assert_eq!(lengths, vec![longest; window], "{name}, {own} and {peers}");
        }
    }
}

/// RFC 6928, section 2: ten segments, of the size that the connection has: two of 8,948 bytes would be two of 1,448. A window that is
/// set counts segments, whatever their size.
#[test]
fn the_initial_window_is_that_of_the_segments_that_both_ends_take() {
    for (window, peers, expected) in [
        (tcp::initial_window_rfc6928(8_948), 1_448, vec![1_448; 10]),
        (tcp::initial_window_rfc6928(8_948), 4_000, vec![4_000; 3]),
        (tcp::initial_window_rfc6928(8_948), 8_948, vec![8_948; 2]),
        (3.0, 1_448, vec![1_448; 3]),
    ] {
        let mut client =
            Lone::connecting(Config { mss: 8_948, initial_window: window, ..Config::new(tcp::Profile::Rfc) });
        let offer = client.take()[0];
        let mut server = Lone::listening(Config { mss: peers, ..Config::new(tcp::Profile::Rfc) });
        server.give(offer);
        client.give(server.take()[0]);
        client.take();
        client.write(100_000);
        let lengths: Vec<_> = client.take().iter().map(|segment| segment.len).collect();
        assert_eq!(lengths, expected, "{window} segments to {peers}");
    }
}

trait Acknowledging {
    fn acknowledging(self, ack: u64) -> Segment;
}

impl Acknowledging for Segment {
    fn acknowledging(self, ack: u64) -> Segment {
        Segment { ack, ..self }
    }
}

#[test]
fn a_lost_syn_is_sent_again_after_1_s_and_then_backed_off() {
    let mut client = Lone::connecting(config("sack"));
    client.at(20_000);
    let sent = client.take_timed();
    assert!(sent.iter().all(|(_, segment)| segment.has(Flags::SYN)));
    assert_eq!(sent.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1_000, 3_000, 7_000, 15_000]);
}

/// RFC 5681, section 3.1: one segment after a lost SYN; RFC 6298, 5.7: the timer starts from 3 s. RFC 6928, section 2: without
/// timestamps, a SYN that was sent twice need not have been lost, where the initial window is not RFC 5681's.
#[test]
fn after_two_lost_syns_data_begin_with_one_segment_and_after_one_expiry_a_timeout_of_3_s() {
    for (mss, initial_window, answered, segments) in [
        (1_000, 10.0, 1_200, 10),
        (1_000, 10.0, 3_100, 1),
        (1_000, 4.0, 1_200, 1),
        (8_960, tcp::initial_window_rfc6928(8_960), 1_200, 2),
    ] {
        let mut client = Lone::connecting(Config { mss, initial_window, ..config("sack") });
        client.at(answered);
        client.give(bare(Flags::SYN.with(Flags::ACK), 0, 1));
        client.take();
        client.write(20_000);
        assert_eq!(client.data().len(), segments, "answered after {answered} ms");
        client.at(20_000);
        let again = client.take_timed();
        assert_eq!((again[0].0, again[0].1.seq), (answered + 3_000, seg(0)));
    }
}

#[test]
fn a_lost_syn_ack_is_sent_again_by_the_timer_and_for_each_syn() {
    let mut server = Lone::listening(config("sack"));
    server.give(syn(&[]));
    server.at(500);
    server.give(syn(&[]));
    server.at(1_600);
    let sent = server.take_timed();
    assert!(sent.iter().all(|(_, segment)| segment.has(Flags::SYN.with(Flags::ACK)) && segment.ack == 1));
    assert_eq!(sent.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 500, 1_500]);
    // Karn: which of them is acknowledged cannot be told.
    server.give(bare(Flags::ACK, 1, 1));
    assert!(server.events().contains(&Event::Connected));
    assert!(server.end.metrics().srtt.is_zero(), "{:?}", server.end.metrics().srtt);
}

#[test]
fn a_syn_ack_sent_twice_for_two_syns_gives_no_sample() {
    let mut server = Lone::listening(config("sack"));
    server.give(syn(&[]));
    server.at(500);
    server.give(syn(&[]));
    server.at(600);
    server.give(bare(Flags::ACK, 1, 1));
    assert!(server.end.metrics().srtt.is_zero(), "{:?}", server.end.metrics().srtt);
}

#[test]
fn data_on_the_third_segment_are_taken() {
    let mut server = Lone::listening(config("sack"));
    server.give(syn(&[]));
    server.at(100);
    server.take();
    server.payload(1, 700);
    let events = server.events();
    assert!(events.contains(&Event::Connected) && events.contains(&Event::Readable), "{events:?}");
    assert_eq!(server.read(u64::MAX), 700);
    assert_eq!(server.take()[0].ack, 701);
}

#[test]
fn data_after_a_lost_third_segment_connect_as_well() {
    let mut server = Lone::listening(config("sack"));
    server.give(syn(&[Flags::SACK_PERMITTED]));
    server.take();
    server.payload(seg(1), 1000);
    assert!(server.events().contains(&Event::Connected));
    let answer = server.take();
    assert_eq!((answer[0].ack, answer[0].sack.len()), (1, 1));
}

#[test]
fn a_syn_ack_that_comes_again_is_acknowledged_again() {
    let mut client = Lone::connected(config("sack"));
    client.give(bare(Flags::SYN.with(Flags::ACK), 0, 1));
    let sent = client.take();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].flags, sent[0].seq, sent[0].ack), (Flags::ACK, 1, 1));
}

#[test]
fn a_refused_connection_fails_by_name() {
    let mut client = Lone::connecting(config("sack"));
    client.at(100);
    client.give(bare(Flags::RST.with(Flags::ACK), 0, 1));
    assert_eq!(client.events(), [Event::Failed(Failure::Reset)]);
    client.take();
    client.at(100_000);
    assert!(client.take().is_empty());
}

/// RFC 9293, section 3.10.7.3: only a reset that acknowledges the SYN counts.
#[test]
fn a_reset_that_does_not_acknowledge_the_syn_is_ignored() {
    for reset in
        [bare(Flags::RST, 0, 1), bare(Flags::RST.with(Flags::ACK), 0, 5), bare(Flags::RST.with(Flags::ACK), 0, 0)]
    {
        let mut client = Lone::connecting(config("sack"));
        client.give(reset);
        assert!(client.events().is_empty(), "{reset:?}");
    }
}

#[test]
fn no_answer_at_all_fails_by_name_within_three_minutes() {
    let mut client = Lone::connecting(config("sack"));
    client.at(200_000);
    assert_eq!(client.events(), [Event::Failed(Failure::ConnectTimedOut)]);
    let mut server = Lone::listening(config("sack"));
    server.give(syn(&[]));
    server.at(200_000);
    assert_eq!(server.events(), [Event::Failed(Failure::ConnectTimedOut)]);
}

#[test]
fn a_syn_ack_for_something_else_does_not_connect() {
    let mut client = Lone::connecting(config("sack"));
    client.give(bare(Flags::SYN.with(Flags::ACK), 0, 77));
    assert!(!client.events().contains(&Event::Connected));
}

#[test]
fn where_the_peer_refuses_sack_the_recovery_counts_duplicates() {
    let mut client = Lone::connecting(config("rack"));
    client.take();
    client.at(100);
    client.give(bare(Flags::SYN.with(Flags::ACK), 0, 1));
    client.write(20_000);
    client.take();
    client.at(200);
    client.ack(seg(1));
    for _ in 0..3 {
        client.ack(seg(1));
    }
    assert!(client.data().contains(&seg(1)), "the third duplicate is a loss where there is no SACK");
}

fn linux() -> Config {
    let linux = Config::new(tcp::Profile::Linux);
    Config { mss: 1000, ..linux }
}

/// A client of profile `linux` whose SYN number `reached` (from 0) is the first to be answered, after 600 ms.
fn answered(reached: usize) -> Lone {
    let mut client = Lone::connecting(linux());
    client.at(1_000 * reached as u64 + 600);
    let syns = client.take_timed();
    assert_eq!(syns.len(), reached + 1);
    let mut answer = syn(&[Flags::ACK, Flags::TIMESTAMPS, Flags::SACK_PERMITTED, Flags::WINDOW_SCALE]).acknowledging(1);
    answer.timestamps.echo = syns[reached].1.timestamps.value;
    client.give(answer);
    client.take();
    client.write(100_000);
    client
}

/// Linux 6.18 (`tcp_init_transfer`): one retransmission of the SYN leaves the initial window alone, two do not. The
/// timestamp shows the round-trip time.
#[test]
fn in_linux_two_lost_syns_make_data_begin_with_one_segment() {
    for (lost, segments) in [(0, 10), (1, 10), (2, 1), (3, 1)] {
        let mut client = answered(lost);
        assert_eq!(client.data().len(), segments, "after {lost} lost SYNs");
        assert_eq!(client.end.metrics().srtt, Duration::from_millis(600));
        assert!(client.end.window().ssthresh.is_infinite());
    }
}

/// Linux 6.18 (`tcp_try_undo_spurious_syn`): the first of three SYNs is acknowledged, so that none was lost.
#[test]
fn in_linux_a_path_longer_than_the_timeout_is_no_loss() {
    let mut client = Lone::connecting(linux());
    client.at(2_500);
    assert_eq!(client.take().len(), 3);
    client.give(syn(&[Flags::ACK, Flags::TIMESTAMPS, Flags::SACK_PERMITTED, Flags::WINDOW_SCALE]).acknowledging(1));
    client.take();
    client.write(100_000);
    assert_eq!(client.data().len(), 10);
    assert_eq!(client.end.metrics().srtt, Duration::from_millis(2_500));
}

/// Linux 6.18: `tcp_syn_linear_timeouts` is 4, `tcp_syn_retries` 6 and `tcp_synack_retries` 5.
#[test]
fn in_linux_the_first_five_timeouts_of_a_syn_are_one_second_and_those_of_its_answer_double() {
    let mut client = Lone::connecting(linux());
    client.at(200_000);
    let at = |sent: Vec<(u64, Segment)>| sent.iter().map(|(at, _)| at / 1_000).collect::<Vec<_>>();
    assert_eq!(at(client.take_timed()), [0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67]);
    assert_eq!(client.end.metrics().counters.timeouts, 10);
    assert_eq!(client.events(), [Event::Failed(Failure::ConnectTimedOut)]);
    let mut server = Lone::listening(linux());
    server.give(syn(&ALL));
    server.at(200_000);
    assert_eq!(at(server.take_timed()), [0, 1, 3, 7, 15, 31]);
    assert_eq!(server.end.metrics().counters.timeouts, 5);
    assert_eq!(server.events(), [Event::Failed(Failure::ConnectTimedOut)]);
}

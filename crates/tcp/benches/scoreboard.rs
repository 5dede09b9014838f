//! What an acknowledgement costs the sender's scoreboard and the receiver's reports, by how much is in flight and how
//! much is lost: `cargo bench -p bentpipe-tcp --bench scoreboard`.

use std::collections::VecDeque;
use tcp::{Change, Scoreboard};
use units::{CounterRandom, Duration, Instant, RangeSet};

const MSS: u64 = 1448;
/// Acknowledgements timed at once; of several such times the least counts.
const ACKNOWLEDGEMENTS: u64 = 300_000;

/// What the network loses.
#[derive(Clone, Copy)]
enum Loss {
    /// Each segment with this probability.
    Independent(f64),
    /// Of every so many segments, so many in a row.
    Bursts { every: u64, length: u64 },
}

/// A sender that keeps `window` segments in flight, and a receiver that acknowledges each that arrives.
struct Run {
    board: Scoreboard,
    by_time: bool,
    loss: Loss,
    random: CounterRandom,
    now: Instant,
    round_trip: Duration,
    /// Transmissions under way: the first byte, and whether it will be lost.
    under_way: VecDeque<(u64, bool)>,
    sent: u64,
    received: RangeSet,
    rcv_nxt: u64,
    recent: [u64; 3],
}

impl Run {
    fn new(window: u64, by_time: bool, loss: Loss) -> Self {
        let mut run = Self {
            board: Scoreboard::new(1, by_time),
            by_time,
            loss,
            random: CounterRandom::new(1, window),
            now: Instant::ZERO,
            round_trip: Duration::from_micros(10 * window),
            under_way: VecDeque::new(),
            sent: 0,
            received: RangeSet::new(),
            rcv_nxt: 1,
            recent: [0; 3],
        };
        (0..window).for_each(|_| run.send());
        run
    }

    fn send(&mut self) {
        self.now += Duration::from_micros(10);
        let lost = self.board.first_lost();
        let seq = match lost {
            Some((seq, _)) => {
                self.board.on_retransmitted(self.now, seq);
                seq
            }
            None => {
                let seq = self.board.nxt();
                self.board.on_sent(self.now, MSS as u32);
                seq
            }
        };
        self.sent += 1;
        // Detection by position finds no lost retransmission; without a timer that would stop the run.
        let may_be_lost = self.by_time || lost.is_none();
        let is_lost = may_be_lost
            && match self.loss {
                Loss::Independent(probability) => (self.random.next_u64() as f64) < probability * u64::MAX as f64,
                Loss::Bursts { every, length } => self.sent % every < length,
            };
        self.under_way.push_back((seq, is_lost));
    }

    /// One transmission arrives or not. Returns whether it brought an acknowledgement.
    fn step(&mut self) -> bool {
        let Some((seq, is_lost)) = self.under_way.pop_front() else {
            // All that was under way is lost, as after the last of a burst: the timer's case.
            self.board.mark_all_lost();
            self.send();
            return false;
        };
        if is_lost {
            return false;
        }
        self.receive(seq);
        let mut change = Change::default();
        self.board.on_cumulative(self.now, self.rcv_nxt, &mut change);
        for at in self.recent {
            if let Some(range) = self.received.range_of(at) {
                self.board.on_sack(self.now, range, &mut change);
            }
        }
        self.board.rate_sample(self.now, &change, Duration::ZERO);
        if self.by_time {
            if let Some(newest) = change.newest {
                let wait = self.round_trip + self.round_trip / 4;
                self.board.mark_lost_by_time(self.now, newest.into(), wait);
            }
        } else if change.sacked > 0 {
            self.board.mark_lost_by_position(MSS as u32, 3);
        }
        while (self.under_way.len() as u64) * MSS < self.round_trip.as_nanos() / 10_000 * MSS {
            self.send();
        }
        true
    }

    fn receive(&mut self, seq: u64) {
        if seq != self.rcv_nxt {
            self.received.insert(seq..seq + MSS);
            self.recent = [seq, self.recent[0], self.recent[1]];
            return;
        }
        self.rcv_nxt += MSS;
        if let Some(first) = self.received.first().filter(|first| first.start <= self.rcv_nxt) {
            self.rcv_nxt = first.end;
            self.received.pop_first();
        }
    }
}

/// Nanoseconds for which this thread has run, so that other programs do not count.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel");
    text.split_whitespace().next().and_then(|field| field.parse().ok()).expect("its first field is a time")
}

fn nanoseconds_per_acknowledgement(window: u64, by_time: bool, loss: Loss) -> (f64, usize) {
    let mut run = Run::new(window, by_time, loss);
    let mut holes = 0;
    // Two windows, so that losses and their repairs are in a steady state.
    let mut acknowledge = |run: &mut Run, count: u64| {
        let mut left = count;
        while left > 0 {
            left -= u64::from(run.step());
            holes = holes.max(run.received.len());
        }
    };
    acknowledge(&mut run, 2 * window);
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let start = processor_time();
        acknowledge(&mut run, ACKNOWLEDGEMENTS);
        best = best.min((processor_time() - start) / ACKNOWLEDGEMENTS as f64);
    }
    (best, holes)
}

fn main() {
    let losses = [
        ("no loss", Loss::Independent(0.0)),
        ("P = 1e-3", Loss::Independent(1e-3)),
        ("P = 1e-2", Loss::Independent(1e-2)),
        ("P = 1e-1", Loss::Independent(1e-1)),
        ("100 of 10,000", Loss::Bursts { every: 10_000, length: 100 }),
    ];
    println!("nanoseconds for each acknowledgement, and the most ranges that the receiver held");
    println!("{:16}{:10}{:>14}{:>14}{:>14}{:>14}{:>14}", "loss", "detection", 10, 100, 1_000, 10_000, 100_000);
    for (name, loss) in losses {
        for by_time in [false, true] {
            print!("{name:16}{:10}", if by_time { "time" } else { "position" });
            for window in [10, 100, 1_000, 10_000, 100_000] {
                let (nanoseconds, holes) = nanoseconds_per_acknowledgement(window, by_time, loss);
                print!("{:>14}", format!("{nanoseconds:.0} ({holes})"));
            }
            println!();
        }
    }
}

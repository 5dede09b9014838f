//! The cookies that a peer's address is said to want.
//!
//! A cookie reply is no proof of who sent it: anyone who sees an init and knows the peer's public key can make one. So a reply
//! ends nothing and hurries nothing. Of those that came a few are kept. Inits go by turns without a cookie, when the secret
//! that the two keys share vouches for them, and with one of the few: the one that came again and again, for inits that
//! were answered, as the genuine one does, and was not tried in vain.

use crate::handshake::Cookie;
use smallvec::SmallVec;
use units::{Duration, Instant};

/// How long a cookie is worth something, at least.
pub(super) const COOKIE_LIFE: Duration = Duration::from_secs(120);

#[derive(Default)]
pub(super) struct Cookies {
    kept: SmallVec<[Kept; Cookies::MAX]>,
    /// Replies to the latest init.
    replies: u32,
}

struct Kept {
    cookie: Cookie,
    at: Instant,
    /// Inits that were answered with it, and whether the latest was.
    answers: u32,
    answered: bool,
    /// Inits that it was sent with.
    tried: u32,
}

impl Cookies {
    const MAX: usize = 8;

    /// A reply to the latest init brought `cookie`.
    pub(super) fn on_reply(&mut self, now: Instant, cookie: Cookie, random: u32) {
        self.replies = self.replies.saturating_add(1);
        if let Some(known) = self.kept.iter_mut().find(|known| known.cookie == cookie) {
            known.at = now;
            known.answers += u32::from(!std::mem::replace(&mut known.answered, true));
            return;
        }
        let fresh = Kept { cookie, at: now, answers: 1, answered: true, tried: 0 };
        if self.kept.len() < Self::MAX {
            self.kept.push(fresh);
        } else if random % self.replies < Self::MAX as u32 {
            // Those that came once are as good as one another.
            let once = self.kept.iter_mut().filter(|kept| kept.answers <= kept.tried + 1);
            let mut once: SmallVec<[&mut Kept; Self::MAX]> = once.collect();
            let count = once.len();
            if count > 0 {
                *once[(random >> 8) as usize % count] = fresh;
            }
        }
    }

    /// The cookie for attempt number `attempt` since the peer last answered, counted from 1.
    pub(super) fn next(&mut self, now: Instant, attempt: u32, random: u32) -> Option<Cookie> {
        self.replies = 0;
        self.kept.retain(|kept| now.since(kept.at) < COOKIE_LIFE);
        self.kept.iter_mut().for_each(|kept| kept.answered = false);
        // By twos, for attempts go to two addresses by turns.
        if (attempt / 2).is_multiple_of(2) || self.kept.is_empty() {
            return None;
        }
        let first = random as usize % self.kept.len();
        self.kept.rotate_left(first);
        let best = self.kept.iter_mut().max_by_key(|kept| kept.answers * 16 / (kept.tried + 1))?;
        best.tried += 1;
        Some(best.cookie)
    }

    /// An init with this cookie was answered: it is genuine, and others are nothing to go by.
    pub(super) fn on_success(&mut self, cookie: Cookie) {
        self.kept.retain(|kept| kept.cookie == cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_forgeries_displaces_the_genuine_one_by_chance_only() {
        let now = Instant::from_nanos(1);
        let mut found = 0;
        for seed in 0..1000u64 {
            let random = |step: u64| units::mix(seed << 8 | step) as u32;
            let mut cookies = Cookies::default();
            for step in 0..16 {
                cookies.on_reply(now, [if step == 3 { 255 } else { step as u8 }; 16], random(step));
            }
            assert_eq!(cookies.next(now, 1, 0), None, "by turns without one");
            found += u32::from(cookies.next(now, 2, random(99)) == Some([255; 16]));
        }
        assert!(found > 30, "the genuine one of 16 was tried {found} times in 1000");
    }

    #[test]
    fn what_comes_again_is_tried_first() {
        let (now, mut cookies) = (Instant::from_nanos(1), Cookies::default());
        for init in 0..3 {
            for forgery in 0..5 {
                cookies.on_reply(now, [init * 5 + forgery + 1; 16], units::mix(u64::from(init * 5 + forgery)) as u32);
                cookies.on_reply(now, [255; 16], 0);
            }
            assert_eq!(cookies.next(now, 1, 0), None);
        }
        assert_eq!(cookies.next(now, 2, 3), Some([255; 16]));
        assert_eq!(cookies.next(now, 3, 4), Some([255; 16]), "a loss is no proof");
    }

    #[test]
    fn cookies_grow_old() {
        let mut cookies = Cookies::default();
        cookies.on_reply(Instant::from_nanos(1), [1; 16], 0);
        assert_eq!(cookies.next(Instant::from_nanos(2), 2, 0), Some([1; 16]));
        assert_eq!(cookies.next(Instant::from_nanos(1) + COOKIE_LIFE, 2, 0), None);
    }
}

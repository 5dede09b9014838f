//! Stream bytes in pages of fixed size, addressed by stream offset.

use super::offset::StreamOffset;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a page: what one read from a socket may bring.
pub(crate) const PAGE: usize = 32 * 1024;

/// What is kept of a page takes up one of these. Most streams are idle most of the time, with a request or a few keys that nobody has
/// acknowledged or read.
const SIZES: [usize; 3] = [256, 2048, PAGE];

/// Pages that one read may fill at most.
pub(crate) const MOST_LENT: usize = 8;

/// Space in pages, one after the other.
pub(crate) type Spaces<'a> = SmallVec<[IoSliceMut<'a>; MOST_LENT]>;

/// The least size for so many bytes of a page.
fn size_for(length: usize) -> usize {
    SIZES.into_iter().find(|size| *size >= length).unwrap_or(PAGE)
}

/// A size that is at most twice what so many bytes of a page need. There are many of these sizes, each of which would be copied from
/// while bytes come.
fn compact_size_for(length: usize) -> usize {
    length.next_power_of_two().clamp(SIZES[0], PAGE)
}

/// Whole pages to use again, so that the steady state neither allocates nor clears memory. All sessions of an endpoint share them.
#[derive(Clone, Default)]
pub struct PagePool(Arc<Mutex<Spare>>);

/// The pages of a pool that hold nothing. They are at most as many as were in use at one time, which the endpoint's memory bounds.
#[derive(Default)]
struct Spare {
    free: Vec<Box<[u8]>>,
    /// The fewest free pages since the last look: so many were not needed.
    fewest: usize,
}

impl PagePool {
    fn take(&self, size: usize) -> Box<[u8]> {
        let spare = if size < PAGE { None } else { self.spare().take() };
        spare.unwrap_or_else(|| vec![0; size].into_boxed_slice())
    }

    fn give(&self, bytes: Box<[u8]>) {
        if bytes.len() == PAGE {
            self.spare().give(bytes);
        }
    }

    /// Gives back to the system pages that were not needed since the last call, but for some.
    pub(crate) fn trim(&self) {
        let surplus = self.spare().surplus();
        // Without the lock: it takes the system a while.
        drop(surplus);
    }

    /// Gives back to the system every page that holds nothing.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.spare());
        drop(all);
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        // No step between its changes can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spare {
    /// Free pages that are kept though nobody needs them.
    const KEEP: usize = 64;
    /// Pages that are given back at once at most: 8 MiB.
    const MOST: usize = 256;

    fn take(&mut self) -> Option<Box<[u8]>> {
        let page = self.free.pop();
        self.fewest = self.fewest.min(self.free.len());
        page
    }

    fn give(&mut self, page: Box<[u8]>) {
        self.free.push(page);
    }

    fn surplus(&mut self) -> Vec<Box<[u8]>> {
        let surplus = self.fewest.min(self.free.len().saturating_sub(Self::KEEP)).min(Self::MOST);
        let surplus = self.free.split_off(self.free.len() - surplus);
        self.fewest = self.free.len();
        surplus
    }
}

/// What is kept of a page: its bytes from a place on.
struct Part {
    from: usize,
    bytes: Box<[u8]>,
}

impl Part {
    fn new(pool: &mut PagePool, range: &Range<usize>) -> Self {
        Self::with_size(pool, range, size_for(range.len()))
    }

    /// One of `size` bytes, which hold `range`.
    fn with_size(pool: &mut PagePool, range: &Range<usize>, size: usize) -> Self {
        let bytes = pool.take(size);
        Self { from: range.start.min(PAGE - bytes.len()), bytes }
    }

    /// The part of the page that there is.
    fn range(&self) -> Range<usize> {
        self.from..self.from + self.bytes.len()
    }

    fn get(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range.start - self.from..range.end - self.from]
    }

    fn get_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[range.start - self.from..range.end - self.from]
    }

    /// The same bytes of `range` in a part of `size` bytes, which holds `room` and `range`.
    fn moved(self, pool: &mut PagePool, room: &Range<usize>, size: usize, range: Range<usize>) -> Self {
        let mut moved = Self::with_size(pool, room, size);
        moved.get_mut(range.clone()).copy_from_slice(self.get(range));
        pool.give(self.bytes);
        moved
    }
}

/// The bytes of one direction of a stream that are still needed, in pages: pages that hold none of them do not exist, and of one that
/// holds few there is a part.
#[derive(Default)]
pub struct Stored {
    /// Index (offset / PAGE) of the first entry.
    first: u64,
    pages: VecDeque<Option<Part>>,
}

impl Stored {
    fn locate(offset: StreamOffset) -> (u64, usize) {
        (offset.get() / PAGE as u64, (offset.get() % PAGE as u64) as usize)
    }

    /// The place of a page, which may be new.
    fn place(&mut self, index: u64) -> &mut Option<Part> {
        if self.pages.is_empty() {
            self.first = index;
        }
        while index < self.first {
            self.pages.push_front(None);
            self.first -= 1;
        }
        let at = (index - self.first) as usize;
        if self.pages.len() <= at {
            self.pages.resize_with(at + 1, || None);
        }
        &mut self.pages[at]
    }

    /// The part of a page that is `range`, to be written.
    fn part(&mut self, pool: &mut PagePool, index: u64, range: Range<usize>) -> &mut [u8] {
        // What goes on from one page to the next fills that as well.
        let goes_on = index > self.first && !self.pages.is_empty();
        let place = self.place(index);
        let part = match place.take() {
            None if goes_on => Part::with_size(pool, &range, PAGE),
            None => Part::new(pool, &range),
            Some(part) => {
                let there = part.range();
                if there.start <= range.start && range.end <= there.end {
                    part
                } else {
                    let room = there.start.min(range.start)..there.end.max(range.end);
                    part.moved(pool, &room, size_for(room.len()), there)
                }
            }
        };
        place.insert(part).get_mut(range)
    }

    fn page(&self, index: u64) -> Option<&Part> {
        self.pages.get(usize::try_from(index.checked_sub(self.first)?).ok()?)?.as_ref()
    }

    /// Stores `data` at `offset`.
    pub(crate) fn write(&mut self, pool: &mut PagePool, mut offset: StreamOffset, mut data: &[u8]) {
        while !data.is_empty() {
            let (index, within) = Self::locate(offset);
            let length = data.len().min(PAGE - within);
            let (now, later) = data.split_at(length);
            self.part(pool, index, within..within + length).copy_from_slice(now);
            offset += length as u64;
            data = later;
        }
    }

    /// Space for `most` bytes from `offset` on, or up to the end of so many `pages` if that is less. [`Stored::cut`] gives back what
    /// is not used of it.
    pub(crate) fn spaces(
        &mut self,
        pool: &mut PagePool,
        offset: StreamOffset,
        most: usize,
        pages: usize,
    ) -> Spaces<'_> {
        let (index, within) = Self::locate(offset);
        let pages = (within + most).div_ceil(PAGE).min(pages);
        let from = |page: usize| if page == 0 { within } else { 0 };
        for page in 0..pages {
            self.part(pool, index + page as u64, from(page)..PAGE);
        }
        let at = (index - self.first) as usize;
        let parts = self.pages.range_mut(at..at + pages).flatten().enumerate();
        let end = |page: usize| (within + most - page * PAGE).min(PAGE);
        parts.map(|(page, part)| IoSliceMut::new(part.get_mut(from(page)..end(page)))).collect()
    }

    /// Gives back pages behind the `end` of what was written.
    pub(crate) fn cut(&mut self, pool: &mut PagePool, end: StreamOffset) {
        let needed = end.get().div_ceil(PAGE as u64).saturating_sub(self.first);
        for part in self.pages.drain(self.pages.len().min(needed as usize)..).flatten() {
            pool.give(part.bytes);
        }
    }

    /// Copies stored bytes from `offset` into `out`.
    pub(crate) fn read(&self, mut offset: StreamOffset, mut out: &mut [u8]) {
        while !out.is_empty() {
            let (index, within) = Self::locate(offset);
            let length = out.len().min(PAGE - within);
            let (now, later) = out.split_at_mut(length);
            let page = self.page(index).expect("what is read was written and not released");
            now.copy_from_slice(page.get(within..within + length));
            offset += length as u64;
            out = later;
        }
    }

    /// Lends the stored bytes from `from` to `to` as slices; returns how many of `slices` it filled.
    pub(crate) fn slices<'a>(&'a self, mut from: StreamOffset, to: StreamOffset, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        while from < to && filled < slices.len() {
            let (index, within) = Self::locate(from);
            let length = ((to - from) as usize).min(PAGE - within);
            let page = self.page(index).expect("what is read was written and not released");
            slices[filled] = IoSlice::new(page.get(within..within + length));
            filled += 1;
            from += length as u64;
        }
        filled
    }

    /// Forgets bytes before `offset`; with `offset` at the `end` of what was written, every page. Where few bytes are left, they take
    /// up no more than they need.
    pub(crate) fn release(&mut self, pool: &mut PagePool, offset: StreamOffset, end: StreamOffset) {
        let keep_from = if offset >= end { u64::MAX } else { offset.get() / PAGE as u64 };
        while self.first < keep_from {
            match self.pages.pop_front() {
                Some(part) => {
                    self.first += 1;
                    if let Some(part) = part {
                        pool.give(part.bytes);
                    }
                }
                None => break,
            }
        }
        if self.pages.is_empty() {
            self.pages = VecDeque::new();
        } else if end.saturating_since(offset) <= Self::FEW {
            self.shrink(pool, offset.get()..end.get(), size_for);
        }
    }

    /// Has what is left between `offset` and the `end` of what was written take up little more memory than it needs: for bytes that may
    /// wait for long.
    pub(crate) fn compact(&mut self, pool: &mut PagePool, offset: StreamOffset, end: StreamOffset) {
        self.shrink(pool, offset.get()..end.get(), compact_size_for);
    }

    /// Bytes that are worth moving to a part of their size.
    const FEW: u64 = SIZES[1] as u64;

    /// Keeps no more of each page than `bytes`, counted from the beginning of the stream, take up in a part of the size that `size_for`
    /// names.
    fn shrink(&mut self, pool: &mut PagePool, bytes: Range<u64>, size_for: fn(usize) -> usize) {
        for (index, place) in (self.first..).zip(&mut self.pages) {
            let start = index * PAGE as u64;
            let within = |at: u64| at.saturating_sub(start).min(PAGE as u64) as usize;
            let needed = within(bytes.start)..within(bytes.end);
            let size = size_for(needed.len());
            let Some(part) = place.take_if(|part| size < part.bytes.len()) else { continue };
            let there = part.range();
            let kept = needed.start.max(there.start)..needed.end.min(there.end);
            if kept.is_empty() {
                pool.give(part.bytes);
            } else {
                *place = Some(part.moved(pool, &needed, size, kept));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of the pages, and their number.
    fn kept(stored: &Stored) -> (usize, usize) {
        let parts = stored.pages.iter().flatten();
        parts.fold((0, 0), |(bytes, count), part| (bytes + part.bytes.len(), count + 1))
    }

    fn at(offset: u64) -> StreamOffset {
        StreamOffset::new(offset)
    }

    #[test]
    fn few_bytes_take_up_little_wherever_they_are() {
        let mut pool = PagePool::default();
        for offset in [0, 1, 30_000, PAGE as u64 - 1, 5 * PAGE as u64 + 77] {
            let mut stored = Stored::default();
            stored.write(&mut pool, at(offset), b"k");
            assert_eq!(kept(&stored), (SIZES[0], 1));
            let mut read = [0];
            stored.read(at(offset), &mut read);
            assert_eq!(&read, b"k");
            stored.release(&mut pool, at(offset + 1), at(offset + 1));
            assert_eq!(kept(&stored), (0, 0));
        }
    }

    #[test]
    fn what_a_read_did_not_fill_is_given_back() {
        let mut pool = PagePool::default();
        let mut stored = Stored::default();
        let lent: Vec<_> = stored.spaces(&mut pool, at(0), 2 * PAGE + 5, 8).iter().map(|space| space.len()).collect();
        assert_eq!(lent, [PAGE, PAGE, 5]);
        stored.spaces(&mut pool, at(0), 3, 1)[0][..3].copy_from_slice(b"abc");
        assert_eq!(kept(&stored).0, 3 * PAGE);
        stored.cut(&mut pool, at(3));
        assert_eq!(kept(&stored).0, PAGE);
        stored.release(&mut pool, at(0), at(3));
        assert_eq!((kept(&stored).0, free(&pool)), (SIZES[0], 3));
        stored.spaces(&mut pool, at(3), PAGE, 1)[0][..2].copy_from_slice(b"de");
        stored.release(&mut pool, at(1), at(5));
        let mut read = [0; 4];
        stored.read(at(1), &mut read);
        assert_eq!((&read, kept(&stored).0), (b"bcde", SIZES[0]));
    }

    #[test]
    fn the_last_bytes_of_much_take_up_little() {
        let mut pool = PagePool::default();
        let mut stored = Stored::default();
        let bytes: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        stored.write(&mut pool, at(0), &bytes);
        assert_eq!(kept(&stored), (4 * PAGE, 4));
        // Across the end of a page, too.
        for end in [3 * PAGE + 10, bytes.len()] {
            stored.release(&mut pool, at(end as u64 - 100), at(end as u64));
            let mut read = [0; 100];
            stored.read(at(end as u64 - 100), &mut read);
            assert_eq!(read[..], bytes[end - 100..end]);
            assert!(kept(&stored).0 <= 2 * SIZES[0], "{:?}", kept(&stored));
            stored.write(&mut pool, at(end as u64), &bytes[end..]);
        }
    }

    fn free(pool: &PagePool) -> usize {
        pool.spare().free.len()
    }

    #[test]
    fn pages_that_are_needed_again_and_again_are_kept() {
        let pool = &mut PagePool::default();
        let mut stored = Stored::default();
        let window = 300 * PAGE as u64;
        // A window is given back and filled again; then a smaller one.
        let mut turn = |pool: &mut PagePool, turn: u64, length: u64| {
            stored.write(pool, at(turn * window), &vec![1; length as usize]);
            stored.release(pool, at((turn + 1) * window), at((turn + 1) * window));
            free(pool)
        };
        assert!((0..20).all(|number| {
            pool.trim();
            turn(pool, number, window) == 300
        }));
        // Nobody needs more than ten, until the next look and in later ones.
        let kept = [20, 21, 22, 23].map(|number| {
            pool.trim();
            turn(pool, number, 10 * PAGE as u64)
        });
        assert_eq!(kept, [300, 64, 64, 64]);
        pool.clear();
        assert_eq!(free(pool), 0);
    }

    #[test]
    fn sessions_share_what_is_kept() {
        let (mut one, mut other) = (PagePool::default(), PagePool::default());
        other.clone_from(&one);
        let mut stored = Stored::default();
        stored.write(&mut one, at(0), &vec![1; 50 * PAGE]);
        stored.release(&mut one, at(50 * PAGE as u64), at(50 * PAGE as u64));
        assert_eq!((free(&one), free(&other)), (50, 50));
        stored.write(&mut other, at(50 * PAGE as u64), &vec![1; 50 * PAGE]);
        assert_eq!((free(&one), free(&other)), (0, 0));
    }

    proptest! {
        /// Bytes come in order, by copy or by a read that fills a part of what it was lent, and are released behind.
        #[test]
        fn what_is_kept_is_what_was_written(steps in proptest::collection::vec((0usize..40_000, any::<[bool; 2]>(), 0u64..40_000), 1..60)) {
            let mut pool = PagePool::default();
            let (mut stored, mut written, mut released) = (Stored::default(), Vec::<u8>::new(), 0);
            for (length, [is_lent, waits], release) in steps {
                let end = written.len();
                let data: Vec<u8> = (end..end + length).map(|at| ((at * 31) >> 3) as u8).collect();
                let mut taken = 0;
                if is_lent {
                    for mut space in stored.spaces(&mut pool, at(end as u64), length, 1 + length % 3) {
                        let fitting = space.len().min(length - taken);
                        space[..fitting].copy_from_slice(&data[taken..][..fitting]);
                        taken += fitting;
                    }
                    stored.cut(&mut pool, at((end + taken) as u64));
                } else {
                    stored.write(&mut pool, at(end as u64), &data);
                    taken = length;
                }
                written.extend_from_slice(&data[..taken]);
                released = (released + release).min(written.len() as u64);
                stored.release(&mut pool, at(released), at(written.len() as u64));
                let left = &written[released as usize..];
                if waits {
                    stored.compact(&mut pool, at(released), at(written.len() as u64));
                    let most = 2 * left.len() + kept(&stored).1 * SIZES[0];
                    prop_assert!(kept(&stored).0 <= most, "{} bytes that wait take up {:?}", left.len(), kept(&stored));
                }
                let mut read = vec![0; left.len()];
                stored.read(at(released), &mut read);
                prop_assert_eq!(&read[..], left);
                let most = if left.len() <= SIZES[1] { 2 * SIZES[1] } else { left.len() + 2 * PAGE };
                prop_assert!(kept(&stored).0 <= most, "{} bytes take up {:?}", left.len(), kept(&stored));
            }
        }
    }
}

//! Stream bytes in pages of fixed size, addressed by stream offset.

use super::offset::StreamOffset;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes of a page: what one read from a socket may bring.
pub(crate) const PAGE: usize = 32 * 1024;

type Page = Box<[u8; PAGE]>;

/// Pages to use again, so that the steady state neither allocates nor clears memory.
#[derive(Default)]
pub struct PagePool {
    free: Vec<Page>,
}

impl PagePool {
    /// Pages kept for later; more are given back to the system.
    const KEEP: usize = 64;

    fn take(&mut self) -> Page {
        self.free.pop().unwrap_or_else(|| {
            vec![0; PAGE].into_boxed_slice().try_into().expect("the vector was made with a page's length")
        })
    }

    fn give(&mut self, page: Page) {
        if self.free.len() < Self::KEEP {
            self.free.push(page);
        }
    }
}

/// The bytes of one direction of a stream that are still needed, in pages: pages that hold none of them do not exist.
#[derive(Default)]
pub struct Stored {
    /// Index (offset / PAGE) of the first entry.
    first: u64,
    pages: VecDeque<Option<Page>>,
}

impl Stored {
    fn locate(offset: StreamOffset) -> (u64, usize) {
        (offset.get() / PAGE as u64, (offset.get() % PAGE as u64) as usize)
    }

    fn page_mut(&mut self, pool: &mut PagePool, index: u64) -> &mut Page {
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
        self.pages[at].get_or_insert_with(|| pool.take())
    }

    fn page(&self, index: u64) -> Option<&Page> {
        self.pages.get(usize::try_from(index.checked_sub(self.first)?).ok()?)?.as_ref()
    }

    /// Stores `data` at `offset`.
    pub(crate) fn write(&mut self, pool: &mut PagePool, mut offset: StreamOffset, mut data: &[u8]) {
        while !data.is_empty() {
            let (index, within) = Self::locate(offset);
            let length = data.len().min(PAGE - within);
            let (now, later) = data.split_at(length);
            self.page_mut(pool, index)[within..within + length].copy_from_slice(now);
            offset += length as u64;
            data = later;
        }
    }

    /// The space from `offset` to the end of its page.
    pub(crate) fn space(&mut self, pool: &mut PagePool, offset: StreamOffset) -> &mut [u8] {
        let (index, within) = Self::locate(offset);
        &mut self.page_mut(pool, index)[within..]
    }

    /// Copies stored bytes from `offset` into `out`.
    pub(crate) fn read(&self, mut offset: StreamOffset, mut out: &mut [u8]) {
        while !out.is_empty() {
            let (index, within) = Self::locate(offset);
            let length = out.len().min(PAGE - within);
            let (now, later) = out.split_at_mut(length);
            let page = self.page(index).expect("what is read was written and not released");
            now.copy_from_slice(&page[within..within + length]);
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
            slices[filled] = IoSlice::new(&page[within..within + length]);
            filled += 1;
            from += length as u64;
        }
        filled
    }

    /// Forgets bytes before `offset`; with `offset` at the `end` of what was written, every page.
    pub(crate) fn release(&mut self, pool: &mut PagePool, offset: StreamOffset, end: StreamOffset) {
        let keep_from = if offset >= end { u64::MAX } else { offset.get() / PAGE as u64 };
        while self.first < keep_from {
            match self.pages.pop_front() {
                Some(page) => {
                    self.first += 1;
                    if let Some(page) = page {
                        pool.give(page);
                    }
                }
                None => break,
            }
        }
        if self.pages.is_empty() {
            self.pages = VecDeque::new();
        }
    }
}

//! What a stream's bytes are: stored, or elided so that a simulation runs the same protocol on lengths alone.
//!
//! Everything but this is one code: an [`Endpoint`](crate::Endpoint) of [`Elided`] bytes makes the same decisions at the
//! same times as one of [`Stored`] bytes, and its packets have the same sizes. A stream's first [`HEAD`] bytes are kept
//! in both, so that what a gateway says at the beginning of a stream is real; of those after them an elided stream keeps
//! the count. A packet then consists of a head (header, frames, kept bytes, in the format of the wire) and the count
//! of the bytes left out, which are those elided and the tag: an elided session derives no key and seals nothing.

use crate::seal::{DataKey, Sealing, Unsealed};
use crate::stream::offset::StreamOffset;
use crate::stream::pages::PagePool;
pub use crate::stream::pages::Stored;
use std::io::IoSlice;

/// Bytes at the beginning of each direction of a stream that are kept even where the others are elided.
pub const HEAD: usize = 64;

/// The bytes of one direction of a stream: [`Stored`] or [`Elided`].
pub trait Payload: Default + private::Sealed {
    /// Memory that the streams of an endpoint share.
    #[doc(hidden)]
    type Pool: Clone + Default;
    /// How packets are sealed.
    #[doc(hidden)]
    type Key: Sealing;

    /// How many bytes of the piece of `length` bytes at `offset` a packet holds; only the number of the others counts.
    #[doc(hidden)]
    fn kept(offset: StreamOffset, length: usize) -> usize;

    /// Stores `data` at `offset`, as far as it is kept.
    #[doc(hidden)]
    fn write(&mut self, pool: &mut Self::Pool, offset: StreamOffset, data: &[u8]);

    /// Copies stored bytes from `offset` into `out`.
    #[doc(hidden)]
    fn read(&self, offset: StreamOffset, out: &mut [u8]);

    /// Lends the stored bytes from `from` to `to` as slices; returns how many of `slices` it filled.
    #[doc(hidden)]
    fn slices<'a>(&'a self, from: StreamOffset, to: StreamOffset, slices: &mut [IoSlice<'a>]) -> usize;

    /// Forgets bytes before `offset`; with `offset` at the `end` of what was written, all.
    #[doc(hidden)]
    fn release(&mut self, pool: &mut Self::Pool, offset: StreamOffset, end: StreamOffset);

    /// Has the bytes between `offset` and the `end` of what was written take up little more memory than they need.
    #[doc(hidden)]
    fn compact(&mut self, pool: &mut Self::Pool, offset: StreamOffset, end: StreamOffset);

    /// Gives back memory that was not needed since the last call, but for some.
    #[doc(hidden)]
    fn trim(pool: &Self::Pool);

    /// Gives back memory that holds nothing.
    #[doc(hidden)]
    fn clear(pool: &Self::Pool);
}

mod private {
    pub trait Sealed {}
    impl Sealed for super::Stored {}
    impl Sealed for super::Elided {}
}

impl Payload for Stored {
    type Pool = PagePool;
    type Key = DataKey;

    fn kept(_offset: StreamOffset, length: usize) -> usize {
        length
    }

    fn write(&mut self, pool: &mut PagePool, offset: StreamOffset, data: &[u8]) {
        self.write(pool, offset, data);
    }

    fn read(&self, offset: StreamOffset, out: &mut [u8]) {
        self.read(offset, out);
    }

    fn slices<'a>(&'a self, from: StreamOffset, to: StreamOffset, slices: &mut [IoSlice<'a>]) -> usize {
        self.slices(from, to, slices)
    }

    fn release(&mut self, pool: &mut PagePool, offset: StreamOffset, end: StreamOffset) {
        self.release(pool, offset, end);
    }

    fn compact(&mut self, pool: &mut PagePool, offset: StreamOffset, end: StreamOffset) {
        self.compact(pool, offset, end);
    }

    fn trim(pool: &PagePool) {
        pool.trim();
    }

    fn clear(pool: &PagePool) {
        pool.clear();
    }
}

/// Bytes that are counted, after the first [`HEAD`], which are kept.
pub struct Elided {
    head: [u8; HEAD],
}

impl Default for Elided {
    fn default() -> Self {
        Self { head: [0; HEAD] }
    }
}

impl Payload for Elided {
    type Pool = ();
    type Key = Unsealed;

    fn kept(offset: StreamOffset, length: usize) -> usize {
        length.min(StreamOffset::new(HEAD as u64).saturating_since(offset) as usize)
    }

    fn write(&mut self, _pool: &mut (), offset: StreamOffset, data: &[u8]) {
        let kept = Self::kept(offset, data.len());
        if kept > 0 {
            self.head[offset.get() as usize..][..kept].copy_from_slice(&data[..kept]);
        }
    }

    fn read(&self, offset: StreamOffset, out: &mut [u8]) {
        if !out.is_empty() {
            out.copy_from_slice(&self.head[offset.get() as usize..][..out.len()]);
        }
    }

    fn slices<'a>(&'a self, from: StreamOffset, to: StreamOffset, slices: &mut [IoSlice<'a>]) -> usize {
        let kept = Self::kept(from, (to - from) as usize);
        match slices.first_mut().filter(|_| kept > 0) {
            Some(slice) => {
                *slice = IoSlice::new(&self.head[from.get() as usize..][..kept]);
                1
            }
            None => 0,
        }
    }

    fn release(&mut self, _pool: &mut (), _offset: StreamOffset, _end: StreamOffset) {}

    fn compact(&mut self, _pool: &mut (), _offset: StreamOffset, _end: StreamOffset) {}

    fn trim((): &()) {}

    fn clear((): &()) {}
}

//! Reads frames, and refuses what does not follow the grammar.

use super::super::arrivals::ArrivalsFrame;
use super::super::varint;
use super::{
    ACK, ARRIVALS, AckFrame, CLOSE, DRAIN, EncodedRanges, Frame, LONG_TYPE, MAX_ACK_RANGES, MAX_DATA,
    MAX_NEW_STREAM_DATA, MAX_OLDER_RANGES, MAX_RECOVERED_RANGES, MAX_STREAM_DATA, Malformed, OLDER_RANGES, OPENED,
    OlderRangesFrame, PADDING, PATH_CHALLENGE, PATH_RESPONSE, PATH_TOO_SMALL, PING, PathFrame, RECOVERED, REPAIR,
    RESET, RecoveredFrame, RepairFrame, SKIPPABLE, STOP_WAITING, STREAM, STREAM_FIN, STREAM_LENGTH, STREAM_READ, TRAIN,
    WATCH_STREAM,
};
use crate::credit::Credit;
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::stream::{StreamNumber, StreamOffset};
use peering::ResetReason;
use std::marker::PhantomData;

/// Reads frames one after the other.
pub(crate) struct Reader<'a, P> {
    input: &'a [u8],
    /// Bytes that were left out of what is still to be read.
    elided: usize,
    skipped: u64,
    payload: PhantomData<P>,
}

#[cfg(test)]
impl<'a> Reader<'a, crate::Stored> {
    /// Reads what was written whole.
    pub(crate) fn new(plaintext: &'a [u8]) -> Self {
        Self::with_elided(plaintext, 0)
    }
}

impl<'a, P: Payload> Reader<'a, P> {
    /// Reads what `elided` bytes were left out of.
    pub(crate) fn with_elided(plaintext: &'a [u8], elided: usize) -> Self {
        Self { input: plaintext, elided, skipped: 0, payload: PhantomData }
    }

    /// How many frames were skipped so far because their type is not known.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next frame of a known type, `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'a>>, Malformed> {
        while let Some((&kind, rest)) = self.input.split_first() {
            match kind {
                PADDING => self.input = rest,
                LONG_TYPE.. => {
                    if let Some(frame) = self.skippable()? {
                        return Ok(Some(frame));
                    }
                }
                _ => {
                    self.input = rest;
                    return self.body(kind).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// A frame with a length; `None` if its type is not known, and it is passed over.
    fn skippable(&mut self) -> Result<Option<Frame<'a>>, Malformed> {
        let kind = self.integer()?;
        if !SKIPPABLE.contains(&kind) {
            // A type of this version in more bytes than it takes is none either.
            return Err(Malformed::Type(kind));
        }
        let length = usize::try_from(self.integer()?).map_err(|_| Malformed::Fields)?;
        let (mut body, rest) = self.input.split_at_checked(length).ok_or(Malformed::Fields)?;
        self.input = rest;
        // What follows the fields of a known frame may be what a later build adds.
        match kind {
            MAX_NEW_STREAM_DATA => {
                let limit = varint::read(&mut body).ok_or(Malformed::Fields)?;
                Ok(Some(Frame::MaxNewStreamData { limit: Credit::new(limit) }))
            }
            PATH_TOO_SMALL => Ok(Some(Frame::PathTooSmall)),
            WATCH_STREAM | STREAM_READ => {
                let mut field = || varint::read(&mut body).ok_or(Malformed::Fields);
                let (stream, to) = (StreamNumber::new(field()?), StreamOffset::new(field()?));
                let is_report = kind == STREAM_READ;
                Ok(Some(if is_report { Frame::StreamRead { stream, to } } else { Frame::WatchStream { stream, to } }))
            }
            OLDER_RANGES => {
                let rest = std::mem::replace(&mut self.input, body);
                let frame = self.older_ranges()?;
                self.input = rest;
                Ok(Some(Frame::OlderRanges(frame)))
            }
            _ => {
                self.skipped += 1;
                Ok(None)
            }
        }
    }

    fn body(&mut self, kind: u8) -> Result<Frame<'a>, Malformed> {
        Ok(match kind {
            PING => Frame::Ping,
            ACK => Frame::Ack(self.ack()?),
            RECOVERED => Frame::Recovered(self.recovered()?),
            STOP_WAITING => Frame::StopWaiting { lowest: self.packet_number()? },
            MAX_DATA => Frame::MaxData { limit: Credit::new(self.integer()?) },
            MAX_STREAM_DATA => Frame::MaxStreamData { stream: self.stream_number()?, limit: self.offset()? },
            RESET => Frame::Reset {
                stream: self.stream_number()?,
                reason: ResetReason::from_code(self.integer()?),
                final_size: self.offset()?,
            },
            CLOSE => Frame::Close,
            DRAIN => Frame::Drain,
            OPENED => Frame::Opened { streams: self.integer()? },
            TRAIN => Frame::Train,
            ARRIVALS => Frame::Arrivals(ArrivalsFrame::read(&mut self.input).ok_or(Malformed::Fields)?),
            REPAIR => Frame::Repair(RepairFrame {
                back: self.integer()?,
                count: self.integer()?,
                stride: self.integer()?,
                repair_symbols: self.integer()?,
                index: self.integer()?,
                symbol: std::mem::take(&mut self.input),
                elided: std::mem::take(&mut self.elided),
            }),
            PATH_CHALLENGE => Frame::Path(PathFrame::Challenge(self.token()?)),
            PATH_RESPONSE => Frame::Path(PathFrame::Response(self.token()?)),
            _ if kind & !(STREAM_FIN | STREAM_LENGTH) == STREAM => self.stream(kind)?,
            _ => return Err(Malformed::Type(u64::from(kind))),
        })
    }

    fn stream(&mut self, kind: u8) -> Result<Frame<'a>, Malformed> {
        let (stream, offset) = (self.stream_number()?, self.offset()?);
        let length = if kind & STREAM_LENGTH != 0 { self.integer()? } else { (self.input.len() + self.elided) as u64 };
        let length = usize::try_from(length).map_err(|_| Malformed::Fields)?;
        let kept = P::kept(offset, length);
        let (data, rest) = self.input.split_at_checked(kept).ok_or(Malformed::Fields)?;
        if (offset + length as u64).get() > varint::MAX {
            return Err(Malformed::Fields);
        }
        let elided = length - kept;
        self.input = rest;
        self.elided = self.elided.checked_sub(elided).ok_or(Malformed::Fields)?;
        Ok(Frame::Stream { stream, offset, data, elided, fin: kind & STREAM_FIN != 0 })
    }

    fn ack(&mut self) -> Result<AckFrame<'a>, Malformed> {
        let (largest, delay_us, range_count) = (self.packet_number()?, self.integer()?, self.integer()?);
        let missing_below = self.integer()?;
        let (received, lowest) = self.ranges(largest, range_count, MAX_ACK_RANGES)?;
        let covered_from = lowest.checked_before(missing_below).ok_or(Malformed::Fields)?;
        Ok(AckFrame { largest, delay_us, covered_from, received })
    }

    fn recovered(&mut self) -> Result<RecoveredFrame<'a>, Malformed> {
        let (largest, range_count) = (self.packet_number()?, self.integer()?);
        Ok(RecoveredFrame(self.ranges(largest, range_count, MAX_RECOVERED_RANGES)?.0))
    }

    fn older_ranges(&mut self) -> Result<OlderRangesFrame<'a>, Malformed> {
        let (largest, range_count) = (self.packet_number()?, self.integer()?);
        Ok(OlderRangesFrame(self.ranges(largest, range_count, MAX_OLDER_RANGES)?.0))
    }

    /// Ranges up to `largest`, and where the last of them begins.
    fn ranges(
        &mut self,
        largest: PacketNumber,
        count: u64,
        most: usize,
    ) -> Result<(EncodedRanges<'a>, PacketNumber), Malformed> {
        if count == 0 || count > most as u64 {
            return Err(Malformed::Fields);
        }
        let before = self.input;
        for _ in 0..2 * count - 1 {
            self.integer()?;
        }
        let encoded = &before[..before.len() - self.input.len()];
        let ranges = EncodedRanges { largest, encoded, count };
        let (sound, lowest) = ranges.iter().fold((0, PacketNumber::ZERO), |(count, _), range| (count + 1, range.start));
        if sound == count { Ok((ranges, lowest)) } else { Err(Malformed::Fields) }
    }

    fn stream_number(&mut self) -> Result<StreamNumber, Malformed> {
        self.integer().map(StreamNumber::new)
    }

    fn packet_number(&mut self) -> Result<PacketNumber, Malformed> {
        self.integer().map(PacketNumber::new)
    }

    fn offset(&mut self) -> Result<StreamOffset, Malformed> {
        self.integer().map(StreamOffset::new)
    }

    fn token(&mut self) -> Result<u64, Malformed> {
        let (token, rest) = self.input.split_first_chunk().ok_or(Malformed::Fields)?;
        self.input = rest;
        Ok(u64::from_be_bytes(*token))
    }

    fn integer(&mut self) -> Result<u64, Malformed> {
        varint::read(&mut self.input).ok_or(Malformed::Fields)
    }
}

//! Where bytes are in a stream.

crate::sequence::position!(
    /// A place in one direction of a stream: how many bytes come before it (RFC 9000, section 2.2). Final sizes and limits
    /// (MAX_STREAM_DATA) are offsets, too.
    StreamOffset
);

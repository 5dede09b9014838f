//! Types of data items, §13.

/// Types of data items, §13.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
#[allow(missing_docs, reason = "the names of the RFC")]
pub enum ItemKind {
    Status = 1,
    Ipv4ConnectionPoint = 2,
    Ipv6ConnectionPoint = 3,
    PeerType = 4,
    HeartbeatInterval = 5,
    ExtensionsSupported = 6,
    MacAddress = 7,
    Ipv4Address = 8,
    Ipv6Address = 9,
    Ipv4AttachedSubnet = 10,
    Ipv6AttachedSubnet = 11,
    MaximumDataRateReceive = 12,
    MaximumDataRateTransmit = 13,
    CurrentDataRateReceive = 14,
    CurrentDataRateTransmit = 15,
    Latency = 16,
    Resources = 17,
    RelativeLinkQualityReceive = 18,
    RelativeLinkQualityTransmit = 19,
    MaximumTransmissionUnit = 20,
}

impl ItemKind {
    const ALL: [Self; 20] = [
        Self::Status,
        Self::Ipv4ConnectionPoint,
        Self::Ipv6ConnectionPoint,
        Self::PeerType,
        Self::HeartbeatInterval,
        Self::ExtensionsSupported,
        Self::MacAddress,
        Self::Ipv4Address,
        Self::Ipv6Address,
        Self::Ipv4AttachedSubnet,
        Self::Ipv6AttachedSubnet,
        Self::MaximumDataRateReceive,
        Self::MaximumDataRateTransmit,
        Self::CurrentDataRateReceive,
        Self::CurrentDataRateTransmit,
        Self::Latency,
        Self::Resources,
        Self::RelativeLinkQualityReceive,
        Self::RelativeLinkQualityTransmit,
        Self::MaximumTransmissionUnit,
    ];

    pub(crate) fn from_code(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

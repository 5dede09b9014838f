//! Packets as pcapng: every node that was recorded is an interface, every packet a raw IPv4 packet with valid headers,
//! cut off after them as with a short snapshot length. Hosts have addresses of 198.18.0.0/15, the range for
//! measurements (RFC 2544); the payload is zeros.

use crate::error::Error;
use etherparse::{
    IcmpEchoHeader, Icmpv4Header, Icmpv4Type, IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader,
};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::{DataLink, PcapError};
use sim::{Body, FlowConfig, GatewayConfig, NodeId, PacketRecord, Part, Simulation, Traffic, Transport, Ways};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::Ipv4Addr;
use std::time::Duration;
use tcp::{Config, EcnBytes, Flags, Segment};

/// A capture that is being written.
pub struct Capture<W: Write> {
    writer: PcapNgWriter<W>,
    /// The interface of each node, by the node's number.
    interfaces: Vec<Option<u32>>,
    flows: Vec<Sockets>,
    /// The packet that is being made.
    buffer: Vec<u8>,
}

impl<W: Write> Capture<W> {
    /// Begins a capture of the packets that `nodes` record.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn new(
        output: W,
        simulation: &Simulation,
        gateways: &[GatewayConfig],
        nodes: &[NodeId],
    ) -> Result<Self, Error> {
        let network = simulation.network();
        let mut writer = PcapNgWriter::new(output).map_err(failed)?;
        let mut interfaces = vec![None; network.nodes().len()];
        for (number, node) in nodes.iter().enumerate() {
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(network.node_name(*node))),
                // Nanoseconds.
                InterfaceDescriptionOption::IfTsResol(9),
            ];
            let block = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options };
            writer.write_pcapng_block(block).map_err(failed)?;
            interfaces[node.index()] = Some(number as u32);
        }
        let mut split = BTreeMap::new();
        for (gateway, report) in gateways.iter().zip(simulation.report().gateways) {
            split.extend(report.streams.into_iter().map(|stream| (stream.flow, gateway)));
        }
        let mut ways = Ways::default();
        let flows = simulation.flows().iter().enumerate();
        let flows = flows.map(|(number, flow)| {
            let gateway =
                split.get(&flow.name).and_then(|pair| Inner::new(pair, pair.splits(network, &mut ways, flow)?));
            Sockets::of_flow(number, flow, gateway)
        });
        let flows = flows.chain(gateways.iter().map(Sockets::of_gateways)).collect();
        Ok(Self { writer, interfaces, flows, buffer: Vec::new() })
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// If the output cannot be written, or the packet is larger than IP allows.
    pub fn append(&mut self, record: &PacketRecord) -> Result<(), Error> {
        let Some(interface_id) = self.interfaces.get(record.node.index()).copied().flatten() else { return Ok(()) };
        self.buffer.clear();
        self.flows[record.flow as usize].write(record, &mut self.buffer).map_err(Error::Capture)?;
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: Duration::from_nanos(record.at.as_nanos()),
            original_len: record.size.as_u64() as u32,
            data: Cow::Borrowed(&self.buffer),
            options: Vec::new(),
        };
        self.writer.write_pcapng_block(block).map_err(failed).map(|_| ())
    }

    /// The output, with everything written to it.
    pub fn into_inner(self) -> W {
        self.writer.into_inner()
    }
}

fn failed(error: PcapError) -> Error {
    Error::Capture(match error {
        // It would say that bytes could not be read.
        PcapError::IoError(source) => source.to_string(),
        other => other.to_string(),
    })
}

/// What a flow's packets carry that the simulator's do not.
struct Sockets {
    /// Of the client and the server.
    addresses: [Ipv4Addr; 2],
    ports: [u16; 2],
    /// Of the TCP endpoints.
    options: [SynOptions; 2],
    /// Of the gateways that split the flow.
    gateways: Option<Inner>,
}

/// What gateways that split a flow say in the place of the other end, and to one another.
#[derive(Debug, Clone, Copy)]
struct Inner {
    /// Towards hosts.
    options: SynOptions,
    /// Of the gateway that faces the client and of that which faces the server.
    addresses: [Ipv4Addr; 2],
    /// In the connection between them.
    between: SynOptions,
}

impl Inner {
    /// The gateways of a flow on whose way the pair's node number `first` comes first.
    fn new(pair: &GatewayConfig, first: usize) -> Option<Self> {
        let between = match &pair.transport {
            Transport::Tcp(config) => SynOptions::new(config),
            Transport::Satpep2003(protocol) => SynOptions::new(&protocol.satellite),
            // Datagrams carry it.
            Transport::Satpep(_) => SynOptions::default(),
        };
        let [near, far] = [pair.nodes.get(first)?, pair.nodes.get(1 - first)?];
        Some(Self { options: SynOptions::new(&pair.terrestrial), addresses: [*near, *far].map(address), between })
    }
}

/// What an endpoint offers in its SYN, and what its window field means afterwards.
#[derive(Debug, Clone, Copy, Default)]
struct SynOptions {
    mss: u16,
    window_shift: Option<u8>,
}

impl SynOptions {
    fn new(config: &Config) -> Self {
        Self {
            // The option counts the bytes behind a header without options (RFC 6691).
            mss: u16::try_from(config.mss + u32::from(config.options.timestamps) * 12).unwrap_or(u16::MAX),
            window_shift: config.options.window_scaling.then(|| config.window_shift()),
        }
    }
}

/// The address of a node: 198.18.0.1 and up.
fn address(node: NodeId) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 1).to_bits().wrapping_add(node.index() as u32))
}

impl Sockets {
    /// Every flow has a pair of ports of its own: ports of clients count up from 1024, those of servers from 5001.
    fn of_flow(number: usize, flow: &FlowConfig, gateways: Option<Inner>) -> Self {
        const CLIENTS: usize = 64_000;
        let ports = [1024 + (number % CLIENTS) as u16, 5001 + (number / CLIENTS) as u16];
        let options = match &flow.traffic {
            Traffic::Tcp { client, server, .. } => [SynOptions::new(client), SynOptions::new(server)],
            _ => Default::default(),
        };
        Self { addresses: [flow.from, flow.to].map(address), ports, options, gateways }
    }

    /// The datagrams of a pair of gateways.
    fn of_gateways(pair: &GatewayConfig) -> Self {
        Self { addresses: pair.nodes.map(address), ports: [4500; 2], options: Default::default(), gateways: None }
    }

    /// What the two ends of a part of the flow have offered.
    fn options_of(&self, part: Part) -> [SynOptions; 2] {
        let [client, server] = self.options;
        match (self.gateways, part) {
            (None, _) => [client, server],
            (Some(gateway), Part::Client) => [client, gateway.options],
            (Some(gateway), Part::Between) => [gateway.between; 2],
            (Some(gateway), Part::Server) => [gateway.options, server],
        }
    }

    /// The addresses of the two ends of a part of the flow: towards hosts, gateways have those of the other host.
    fn addresses_of(&self, part: Part) -> [Ipv4Addr; 2] {
        self.gateways.filter(|_| part == Part::Between).map_or(self.addresses, |gateways| gateways.addresses)
    }

    /// Appends the packet's headers to `packet`.
    fn write(&self, record: &PacketRecord, packet: &mut Vec<u8>) -> Result<(), String> {
        let from = usize::from(!record.to_server);
        let ports = [self.ports[from], self.ports[1 - from]];
        let ip = |protocol| self.ip_header(record, from, protocol);
        match &record.body {
            Body::Tcp(segment) => {
                let ip = ip(IpNumber::TCP)?;
                ip.write(packet).map_err(text)?;
                let mut tcp = tcp_header(segment, self.options_of(record.part), from, ports)?;
                let payload = &zeros(record, 20 + u64::from(tcp.header_len_u16()));
                tcp.checksum = tcp.calc_checksum_ipv4(&ip, payload).map_err(text)?;
                tcp.write(packet).map_err(text)
            }
            Body::Udp { .. } | Body::Quic { .. } | Body::Datagram(_) => {
                let ip = ip(IpNumber::UDP)?;
                ip.write(packet).map_err(text)?;
                let udp = UdpHeader::with_ipv4_checksum(ports[0], ports[1], &ip, &zeros(record, 28)).map_err(text)?;
                udp.write(packet).map_err(text)
            }
            Body::EchoRequest { number, .. } => {
                ip(IpNumber::ICMP)?.write(packet).map_err(text)?;
                write_echo(Icmpv4Type::EchoRequest(self.echo(*number)), record, packet)
            }
            Body::EchoReply { number, .. } => {
                ip(IpNumber::ICMP)?.write(packet).map_err(text)?;
                write_echo(Icmpv4Type::EchoReply(self.echo(*number)), record, packet)
            }
            other => Err(format!("there is no packet format for {other:?}")),
        }
    }

    fn ip_header(&self, record: &PacketRecord, from: usize, protocol: IpNumber) -> Result<Ipv4Header, String> {
        let addresses = self.addresses_of(record.part);
        let (source, destination) = (addresses[from].octets(), addresses[1 - from].octets());
        let payload = u16::try_from(record.size.as_u64().saturating_sub(20))
            .map_err(|_| format!("{} is more than an IP packet holds", record.size))?;
        let mut header = Ipv4Header::new(payload, 64, protocol, source, destination).map_err(text)?;
        header.dont_fragment = true;
        header.ecn = IpEcn::try_new(record.body.ecn().bits()).map_err(text)?;
        header.header_checksum = header.calc_header_checksum();
        Ok(header)
    }

    fn echo(&self, number: u64) -> IcmpEchoHeader {
        IcmpEchoHeader { id: self.ports[0], seq: number as u16 }
    }
}

/// Sequence numbers modulo 2^32, the window in units of its scale.
fn tcp_header(segment: &Segment, ends: [SynOptions; 2], from: usize, ports: [u16; 2]) -> Result<TcpHeader, String> {
    let is_syn = segment.has(Flags::SYN);
    // Both ends must offer window scaling for either to use it (RFC 7323, section 2.2).
    let scales = ends.iter().all(|options| options.window_shift.is_some());
    let shift = ends[from].window_shift.filter(|_| scales && !is_syn).unwrap_or(0);
    let window = u16::try_from(segment.window >> shift).unwrap_or(u16::MAX);
    let mut header = TcpHeader::new(ports[0], ports[1], segment.seq as u32, window);
    header.syn = is_syn;
    header.fin = segment.has(Flags::FIN);
    header.rst = segment.has(Flags::RST);
    header.psh = segment.has(Flags::PSH);
    header.ack = segment.has(Flags::ACK);
    header.ece = segment.has(Flags::ECE);
    header.cwr = segment.has(Flags::CWR);
    header.ns = segment.has(Flags::AE);
    header.acknowledgment_number = if header.ack { segment.ack as u32 } else { 0 };
    let options = tcp_options(segment, ends[from]);
    header.set_options(&options).map_err(text)?;
    if let Some(option) = accurate_ecn_option(segment).or_else(|| nack_option(segment)) {
        let mut bytes = header.options.as_slice().to_vec();
        // The padding must not end the options.
        bytes[options.iter().map(length).sum()..].fill(NO_OPERATION);
        header.set_options_raw(&[bytes, option].concat()).map_err(text)?;
    }
    Ok(header)
}

/// The option that fills room between others (RFC 9293, section 3.1).
const NO_OPERATION: u8 = 1;

/// The AccECN option, which `etherparse` does not know: its kind says which codepoint the first counter is of.
fn accurate_ecn_option(segment: &Segment) -> Option<Vec<u8>> {
    let kind = if segment.has(Flags::ACCECN0) { 172 } else { 174 };
    let EcnBytes { capable, marked } = segment.accurate_ecn()?;
    let counters = [capable, marked].into_iter().flat_map(|counter| counter.to_be_bytes().into_iter().skip(1));
    Some([kind, 8].into_iter().chain(counters).collect())
}

/// SaTPEP's NACK, for which its paper has no option, as an experimental one (RFC 6994): the hole's first byte, and the one behind it.
fn nack_option(segment: &Segment) -> Option<Vec<u8>> {
    const KIND: u8 = 253;
    const LENGTH: u8 = 12;
    /// "SP", which is not registered.
    const EXPERIMENT: [u8; 2] = *b"SP";
    let has_room = segment.header >= tcp::BARE_HEADER + LENGTH;
    let hole = segment.sack_blocks().next().filter(|_| segment.has(Flags::NACK) && has_room)?;
    let ends = [hole.start, hole.end].into_iter().flat_map(|end| (end as u32).to_be_bytes());
    Some([KIND, LENGTH].into_iter().chain(EXPERIMENT).chain(ends).collect())
}

/// The options that a segment's header has room for: ns-2's agents have none on the wire.
fn tcp_options(segment: &Segment, offered: SynOptions) -> Vec<TcpOptionElement> {
    let room = usize::from(segment.header.saturating_sub(tcp::BARE_HEADER));
    let mut options = Vec::new();
    if segment.has(Flags::SYN) {
        options.push(TcpOptionElement::MaximumSegmentSize(offered.mss));
        let has_sack = segment.has(Flags::SACK_PERMITTED);
        options.extend(has_sack.then_some(TcpOptionElement::SelectiveAcknowledgementPermitted));
        let shift = offered.window_shift.filter(|_| segment.has(Flags::WINDOW_SCALE));
        options.extend(shift.map(TcpOptionElement::WindowScale));
    }
    // Aligned as stacks do (RFC 7323, appendix A), except in a SYN, which is full.
    let aligned = |options: &mut Vec<TcpOptionElement>, option| {
        if !segment.has(Flags::SYN) {
            options.extend([TcpOptionElement::Noop, TcpOptionElement::Noop]);
        }
        options.push(option);
    };
    if segment.has(Flags::TIMESTAMPS) {
        aligned(&mut options, TcpOptionElement::Timestamp(segment.timestamps.value, segment.timestamps.echo));
    }
    let blocks: Vec<(u32, u32)> = segment.sack_blocks().map(|block| (block.start as u32, block.end as u32)).collect();
    if let Some((first, rest)) = blocks.split_first()
        && !segment.has(Flags::NACK)
    {
        let block = |at: usize| rest.get(at).copied();
        aligned(&mut options, TcpOptionElement::SelectiveAcknowledgement(*first, [block(0), block(1), block(2)]));
    }
    if options.iter().map(length).sum::<usize>() > room { Vec::new() } else { options }
}

/// Bytes of an option.
fn length(option: &TcpOptionElement) -> usize {
    match option {
        TcpOptionElement::Noop => 1,
        TcpOptionElement::MaximumSegmentSize(_) => 4,
        TcpOptionElement::WindowScale(_) => 3,
        TcpOptionElement::SelectiveAcknowledgementPermitted => 2,
        TcpOptionElement::SelectiveAcknowledgement(_, rest) => 10 + 8 * rest.iter().flatten().count(),
        TcpOptionElement::Timestamp(..) => 10,
    }
}

fn write_echo(kind: Icmpv4Type, record: &PacketRecord, packet: &mut Vec<u8>) -> Result<(), String> {
    Icmpv4Header::with_checksum(kind, &zeros(record, 28)).write(packet).map_err(text)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// The payload behind `headers` bytes of headers.
fn zeros(record: &PacketRecord, headers: u64) -> Vec<u8> {
    vec![0; record.size.as_u64().saturating_sub(headers).min(65_536) as usize]
}

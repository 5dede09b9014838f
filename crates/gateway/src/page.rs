//! The live page: what the crate `web` shows of this gateway.

use crate::config::{CapacitySource, WebSettings};
use crate::error::{StartError, while_doing};
use crate::handle::{Extent, Handle};
use crate::snapshot::{self, Side, Snapshot};
use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use web::{Access, Detail, MIN_TOKEN, Sample, Server, Token};

/// The page's listener, and whom it will answer.
#[derive(Debug)]
pub(crate) struct Page {
    listener: TcpListener,
    access: Access,
}

/// Reads the token and listens, as `settings` say.
pub(crate) fn listen(settings: &WebSettings) -> Result<Page, StartError> {
    let access = match &settings.token_file {
        Some(file) => {
            let doing = || format!("[web] token_file {}", file.display());
            let text = std::fs::read_to_string(file).map_err(while_doing(doing()))?;
            let too_short =
                || io::Error::new(io::ErrorKind::InvalidData, format!("shorter than {MIN_TOKEN} characters"));
            Access::Token(Token::new(&text).ok_or_else(too_short).map_err(while_doing(doing()))?)
        }
        None if settings.allow_unauthenticated => Access::Open,
        None => Access::Local,
    };
    let doing = format!("[web] listen {}", settings.listen);
    Ok(Page { listener: TcpListener::bind(settings.listen).map_err(while_doing(doing))?, access })
}

impl Page {
    /// Serves the page of `handle`'s gateway.
    pub(crate) fn serve(self, handle: Handle) -> Result<Server, StartError> {
        let source = move |detail| {
            let has_streams = detail == Detail::Streams;
            handle.report(Extent::Sample { has_streams }).map(|snapshot| sample(snapshot, has_streams))
        };
        Server::start(self.listener, self.access, source).map_err(while_doing("starting the page of [web]"))
    }
}

/// What the page shows of `snapshot`.
fn sample(snapshot: Snapshot, has_streams: bool) -> Sample {
    let places: HashMap<String, usize> =
        snapshot.peers.iter().enumerate().map(|(at, peer)| (peer.name.clone(), at)).collect();
    // A stream whose peer was removed this moment is not shown.
    let placed = |stream: snapshot::Stream| Some(self::stream(*places.get(&stream.peer)?, stream));
    Sample {
        name: snapshot.name,
        transport: snapshot.transport,
        uptime_s: snapshot.uptime_s,
        is_draining: snapshot.draining.is_some(),
        reloads: snapshot.reloads,
        capacity_bps: snapshot.rate_bps as f64,
        capacity_source: match snapshot.capacity_source {
            CapacitySource::Estimated => "estimated",
            CapacitySource::Configured | CapacitySource::Reported => snapshot.link.source.name(),
        },
        link: web::Link {
            source: snapshot.link.source.name(),
            rate_bps: snapshot.link.rate_bps as f64,
            receive_rate_bps: snapshot.link.receive_rate_bps as f64,
            rtt_s: snapshot.link.rtt_s,
            age_s: snapshot.link.age_s,
        },
        modem: snapshot
            .modem
            .map(|modem| web::Modem { has_session: modem.address.is_some(), link_is_up: modem.link_is_up }),
        cross_traffic_bps: snapshot.cross_traffic_bps as f64,
        sent_ip_bytes: snapshot.satellite.sent_ip_bytes,
        received_ip_bytes: snapshot.satellite.received_ip_bytes,
        bypassed: snapshot.bypassed,
        streams: has_streams.then(|| snapshot.streams.into_iter().filter_map(placed).collect()),
        peers: snapshot.peers.into_iter().map(peer).collect(),
    }
}

fn peer(peer: snapshot::Peer) -> web::Peer {
    web::Peer {
        name: peer.name,
        state: peer.state.name(),
        trouble: peer.trouble.map(|trouble| (trouble.reason.into_owned(), trouble.says)),
        rtt_s: peer.rtt_s,
        mtu: peer.mtu,
        streams: peer.streams,
        sent_packets: peer.sent_packets,
        lost_packets: peer.lost_packets,
        sent_bytes: peer.sent_bytes,
        retransmitted_bytes: peer.retransmitted_bytes,
        repair_bytes: peer.repair_bytes,
        received_bytes: peer.received_bytes,
        send_buffered_bytes: peer.send_buffered_bytes,
    }
}

fn stream(peer: usize, stream: snapshot::Stream) -> web::Stream {
    web::Stream {
        stream: stream.stream,
        peer,
        is_near: stream.side == Side::Near,
        client: stream.client,
        server: stream.server,
        class: stream.class,
        state: stream.state,
        age_s: stream.age_s,
        from_tcp_bytes: stream.from_tcp_bytes,
        to_tcp_bytes: stream.to_tcp_bytes,
        send_buffered_bytes: stream.send_buffered_bytes.unwrap_or(0),
        receive_buffered_bytes: stream.receive_buffered_bytes.unwrap_or(0),
    }
}

//! The handshake and the tunnel requests of the `tcp` transport as state machines, with someone between the gateways who knows public
//! keys, sees everything, and delays, repeats, alters and invents. The far gateway takes a tunnel request only if the near one
//! made it, and once; neither takes a session for the other's that is not.

use peering::PrivateKey;
use relay::connect::ConnectRequest;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use tcp_tunnel::replay::ReplayWindow;
use tcp_tunnel::{CHALLENGE, Challenge, Greeting, Hello, Offer, Parser, SessionKey, TAG, TunnelRequest};

/// The near gateway, the far one, and the attacker.
fn keys() -> &'static [PrivateKey; 3] {
    static KEYS: OnceLock<[PrivateKey; 3]> = OnceLock::new();
    KEYS.get_or_init(|| [1, 2, 3].map(|byte| PrivateKey::from_random([byte; 32])))
}

/// What the far gateway knows of a session that somebody asked for.
struct Responder {
    key: SessionKey,
    /// The initiator has proved who it is, and it is the near gateway.
    is_proved: bool,
    window: ReplayWindow,
}

/// The gateways, and all that the attacker has seen.
#[derive(Default)]
pub struct Model {
    /// What the near gateway asked, and the sessions that it takes for the far one's.
    hellos: Vec<Hello>,
    near: Vec<SessionKey>,
    far: Vec<Responder>,
    /// All that was ever on the way.
    challenges: Vec<[u8; CHALLENGE]>,
    proofs: Vec<[u8; TAG]>,
    requests: Vec<Vec<u8>>,
    /// What the near gateway opened: session of the near one, number, connection.
    made: BTreeSet<(u64, u64, ConnectRequest)>,
    taken: BTreeSet<(u64, u64)>,
    nonces: u8,
}

fn open(byte: u8) -> ConnectRequest {
    let address = |last: u8| std::net::SocketAddr::from(([198, 18, 0, last], 80));
    ConnectRequest::new(address(1), address(byte))
}

fn tunnel_request(bytes: &[u8]) -> Option<TunnelRequest> {
    let (mut parser, mut rest) = (Parser::new(), bytes);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(parser.missing().min(rest.len()));
        rest = behind;
        match parser.push(piece) {
            Ok(Some(Greeting::Tunnel(tunnel_request))) => return Some(tunnel_request),
            Ok(None) => {}
            _ => return None,
        }
    }
    None
}

fn flip(bytes: &mut [u8], argument: u8) {
    let place = usize::from(argument) % bytes.len();
    bytes[place] ^= 1 << (argument % 8);
}

impl Model {
    fn nonce(&mut self) -> [u8; 32] {
        self.nonces = self.nonces.wrapping_add(1);
        [self.nonces; 32]
    }

    /// Someone begins a session with the far gateway with the public key `initiator`.
    fn call(&mut self, hello: &Hello) {
        let (nonce, session) = (self.nonce(), self.far.len() as u64 + 1);
        let responder = SessionKey::challenge(&keys()[1], hello, Offer::SPOKEN, nonce, session, 1);
        let (key, challenge) = responder.expect("the keys are real ones");
        self.challenges.push(challenge.encode());
        self.far.push(Responder { key, is_proved: false, window: ReplayWindow::new() });
    }

    /// The near gateway reads a challenge as the answer to its hello.
    fn read_challenge(&mut self, hello: usize, bytes: [u8; CHALLENGE]) {
        let Some(challenge) = Challenge::decode(&bytes) else { return };
        let hello = self.hellos[hello];
        if let Ok((key, proof)) = SessionKey::prove(&keys()[0], &keys()[1].public_key(), &hello, &challenge) {
            assert!(
                self.challenges.contains(&bytes),
                "a challenge that the far gateway never made was taken for its own"
            );
            self.near.push(key);
            self.proofs.push(proof);
        }
    }

    fn read_proof(&mut self, session: usize, proof: [u8; TAG]) {
        let responder = &mut self.far[session];
        if responder.key.is_proof(&proof) {
            assert!(self.proofs.contains(&proof), "a proof that the near gateway never made");
            responder.is_proved = true;
        }
    }

    fn read_tunnel_request(&mut self, bytes: &[u8]) {
        let Some(tunnel_request) = tunnel_request(bytes) else { return };
        let number = (tunnel_request.session as usize).wrapping_sub(1);
        let Some(responder) = self.far.get_mut(number) else { return };
        if responder.is_proved
            && responder.key.is_made_by_peer(&tunnel_request)
            && responder.window.take(tunnel_request.number)
        {
            assert!(
                self.made.contains(&(tunnel_request.session, tunnel_request.number, tunnel_request.connect)),
                "{tunnel_request:?} was invented"
            );
            assert!(
                self.taken.insert((tunnel_request.session, tunnel_request.number)),
                "{tunnel_request:?} was taken twice"
            );
        }
    }

    /// One thing happens, as two bytes say. Returns how many tunnel requests were taken so far.
    pub fn step(&mut self, operation: u8, argument: u8) -> usize {
        let pick = |length: usize| usize::from(argument) % length.max(1);
        match operation % 12 {
            0 => {
                let hello = Hello::new(keys()[0].public_key(), self.nonce());
                self.hellos.push(hello);
                self.call(&hello);
            }
            // Someone repeats a hello, or says one under the near gateway's name.
            1 if !self.hellos.is_empty() => self.call(&self.hellos[pick(self.hellos.len())].clone()),
            2 => self.call(&Hello::new(keys()[0].public_key(), [argument; 32])),
            3 if !self.hellos.is_empty() && !self.challenges.is_empty() => {
                let challenge = self.challenges[self.challenges.len() - 1];
                self.read_challenge(self.hellos.len() - 1, challenge);
            }
            4 if !self.hellos.is_empty() && !self.challenges.is_empty() => {
                let challenge = self.challenges[pick(self.challenges.len())];
                self.read_challenge(pick(self.hellos.len()), challenge);
            }
            5 if !self.hellos.is_empty() && !self.challenges.is_empty() => {
                let mut challenge = self.challenges[self.challenges.len() - 1];
                flip(&mut challenge, argument);
                self.read_challenge(self.hellos.len() - 1, challenge);
            }
            // Someone answers in the far gateway's place with a key of their own.
            6 if !self.hellos.is_empty() => {
                let hello = self.hellos[self.hellos.len() - 1];
                let forged = SessionKey::challenge(&keys()[2], &hello, Offer::SPOKEN, [argument; 32], 1, 1);
                self.read_challenge(self.hellos.len() - 1, forged.expect("a real key").1.encode());
            }
            7 if !self.far.is_empty() && !self.proofs.is_empty() => {
                self.read_proof(pick(self.far.len()), self.proofs[self.proofs.len() - 1]);
            }
            8 if !self.far.is_empty() => {
                let challenge = self.challenges[pick(self.challenges.len())];
                let tag = *challenge.last_chunk().expect("a challenge ends in a tag");
                self.read_proof(pick(self.far.len()), tag);
            }
            9 if !self.near.is_empty() => {
                let (number, request) = (self.requests.len() as u64, open(argument));
                let bytes = self.near[pick(self.near.len())].open(number, &request).expect("addresses of one family");
                let session = tunnel_request(&bytes).expect("it was just written").session;
                self.made.insert((session, number, request));
                self.read_tunnel_request(&bytes);
                self.requests.push(bytes);
            }
            10 if !self.requests.is_empty() => {
                let bytes = self.requests[pick(self.requests.len())].clone();
                self.read_tunnel_request(&bytes);
            }
            11 if !self.requests.is_empty() => {
                let mut bytes = self.requests[self.requests.len() - 1].clone();
                flip(&mut bytes, argument);
                self.read_tunnel_request(&bytes);
            }
            _ => {}
        }
        self.taken.len()
    }
}

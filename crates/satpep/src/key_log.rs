//! Data keys to decrypt recorded traffic, as TLS implementations write theirs to the file that `SSLKEYLOGFILE` names
//! (draft-ietf-tls-keylogfile): for the dissector in `contrib/wireshark`.

use crate::seal::{Cipher, DataSecrets, Mode, Suite};

/// The key of one direction of a session, for as long as no handshake renews it. Anyone who reads it can decrypt the traffic.
#[derive(Clone, PartialEq, Eq)]
pub struct LoggedKey {
    receiver: u32,
    suite: Suite,
    key: Vec<u8>,
}

impl LoggedKey {
    /// Those of a finished handshake: of what arrives by `local_index`, and of what is sent to `peer_index`.
    pub(crate) fn pair(secrets: &DataSecrets, local_index: u32, peer_index: u32) -> [Self; 2] {
        let suite = secrets.suite;
        [(local_index, &secrets.receive), (peer_index, &secrets.send)].map(|(receiver, secret)| Self {
            receiver,
            suite,
            key: suite.key(secret),
        })
    }
}

/// A line of the key log: the receiver's index, the version, the mode, the cipher and the key.
impl std::fmt::Display for LoggedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mode = match self.suite.mode {
            Mode::Encrypted => "encrypted",
            Mode::Clear => "clear",
        };
        let cipher = match self.suite.cipher {
            Cipher::Aes128Gcm => "aes-128-gcm",
            Cipher::ChaCha20Poly1305 => "chacha20-poly1305",
        };
        write!(f, "SATPEP_KEY {:08x} {} {mode} {cipher} ", self.receiver, self.suite.version)?;
        self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for LoggedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LoggedKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_what_the_key_is_for_and_debug_hides_it() {
        let suite = Suite { version: 3, mode: Mode::Encrypted, cipher: Cipher::Aes128Gcm };
        let secrets = DataSecrets { suite, send: [1; 32], receive: [2; 32] };
        let [received, sent] = LoggedKey::pair(&secrets, 0x1234, 0xabcd_0001);
        assert!(received.to_string().starts_with("SATPEP_KEY 00001234 3 encrypted aes-128-gcm "));
        assert!(sent.to_string().starts_with("SATPEP_KEY abcd0001 3 encrypted aes-128-gcm "));
        let key = |line: String| line.rsplit_once(' ').map(|(_, key)| key.to_owned());
        assert_eq!(key(sent.to_string()).map(|key| key.len()), Some(32));
        assert_ne!(key(sent.to_string()), key(received.to_string()));
        assert_eq!(format!("{sent:?}"), "LoggedKey(…)");
    }
}

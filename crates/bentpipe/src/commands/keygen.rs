//! `bentpipe keygen`: keys for gateways, written like WireGuard's.

use crate::output::{Failure, Output};
use clap::Args as ClapArgs;
use ring::rand::{SecureRandom, SystemRandom};
use satpep::PrivateKey;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  bentpipe keygen --out /etc/bentpipe/private.key        # a new private key, readable by its owner only
  bentpipe keygen --public < /etc/bentpipe/private.key   # its public key, for the other gateway's configuration";

/// Make a private key, or print the public key of one
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Write the private key to this new file (mode 0600; missing folders are made with mode 0700) and print the public key
    #[arg(long, value_name = "FILE", conflicts_with = "public")]
    out: Option<PathBuf>,
    /// Read a private key from stdin and print its public key
    #[arg(long)]
    public: bool,
}

/// Prints or writes a key.
///
/// # Errors
/// If stdin holds no key, or the file exists or cannot be written.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    if args.public {
        let public = read_key()?.public_key().to_string();
        return output.result(&serde_json::json!({"public_key": public}), |_| public.clone());
    }
    let mut random = [0; 32];
    SystemRandom::new().fill(&mut random).map_err(|_| Failure::missing("the system has no randomness"))?;
    let key = PrivateKey::from_random(random);
    let (private, public) = (key.to_base64(), key.public_key().to_string());
    match &args.out {
        None => {
            let document = serde_json::json!({"private_key": private, "public_key": public});
            output.result(&document, |_| private.clone())
        }
        Some(path) => {
            write_key(path, &private)?;
            output.result(&serde_json::json!({"private_key_file": path, "public_key": public}), |_| public.clone())
        }
    }
}

fn read_key() -> Result<PrivateKey, Failure> {
    let mut text = String::new();
    std::io::stdin().take(1024).read_to_string(&mut text).map_err(|error| Failure::usage(format!("stdin: {error}")))?;
    text.trim().parse().map_err(|_| Failure::usage("stdin does not hold a private key in base64"))
}

fn write_key(path: &Path, key: &str) -> Result<(), Failure> {
    let name = format!("--out {}", path.display());
    let fail = |error: std::io::Error| Failure::unwritable(&name, &error);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fail)?;
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::usage(format!(
            "{name}: the file exists, and keygen overwrites no key: choose another name, or remove the file first"
        )),
        _ => fail(error),
    })?;
    writeln!(file, "{key}").map_err(|error| {
        // What is left would keep the next try from making the file.
        let _ = std::fs::remove_file(path);
        fail(error)
    })
}

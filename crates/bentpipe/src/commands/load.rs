//! `bentpipe load`: one end of the connections of `bench connections`, which starts it as a process of its own.

use crate::output::Failure;
use clap::Args as ClapArgs;
use lab::load::{Client, Order, serve};
use std::io::{BufRead, Write};
use std::net::SocketAddr;

/// Open connections as ordered on stdin, a line of JSON for each order, or echo what comes
#[derive(ClapArgs)]
#[command(hide = true)]
pub struct Args {
    /// Be the server
    #[arg(long)]
    serve: bool,
    /// The servers, or where this one listens
    #[arg(required = true)]
    addresses: Vec<SocketAddr>,
}

/// Tells that it is ready, and then what each order has come to.
///
/// # Errors
/// If the system refuses something, or an order is none.
pub fn run(args: &Args) -> Result<(), Failure> {
    kernel::process::raise_open_files()?;
    if args.serve {
        // If nobody reads it, nobody is there to connect.
        return Ok(serve(&args.addresses, |addresses| drop(say(&addresses)))?);
    }
    let mut client = Client::new(args.addresses.clone())?;
    say(&args.addresses)?;
    for line in std::io::stdin().lock().lines() {
        let order: Order = serde_json::from_str(&line.map_err(Failure::failed)?).map_err(Failure::usage)?;
        say(&client.carry_out(order)?)?;
    }
    Ok(())
}

fn say(document: &impl serde::Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(document).map_err(Failure::failed)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Failure::failed)
}

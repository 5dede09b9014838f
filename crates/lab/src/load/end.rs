//! A client or server that is a process of its own.

use super::{Order, Tally};
use crate::Error;
use kernel::Namespace;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A process that runs [`super::serve`] or a [`super::Client`]. It ends when this is dropped.
#[derive(Debug)]
pub struct End {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl End {
    /// Starts `program` with `arguments` inside `namespace`, for connections to, or as a server at, `addresses`, which follow the
    /// arguments; returns when it is ready. Call it from the thread that lives as long as the process is to.
    ///
    /// # Errors
    /// If it does not start, or ends.
    pub fn start(
        namespace: &Namespace,
        program: &Path,
        arguments: &[&str],
        addresses: &[SocketAddr],
    ) -> Result<Self, Error> {
        let mut command = namespace.command(program);
        command.args(arguments).args(addresses.iter().map(ToString::to_string));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(Error::failed)?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::failed("a process was started without pipes"));
        };
        let mut end = Self { child, orders, answers: BufReader::new(answers) };
        end.answer()?;
        Ok(end)
    }

    /// Has a client carry out `order`. Its result is reported by [`End::tally`], so that several can be at work.
    ///
    /// # Errors
    /// If it has ended.
    pub fn order(&mut self, order: Order) -> Result<(), Error> {
        let line = serde_json::to_string(&order).map_err(Error::failed)?;
        writeln!(self.orders, "{line}").map_err(Error::failed)
    }

    /// Waits for the result of the last order.
    ///
    /// # Errors
    /// If the client has ended, or says something else.
    pub fn tally(&mut self) -> Result<Tally, Error> {
        serde_json::from_str(&self.answer()?).map_err(Error::failed)
    }

    /// Descriptors that it has open.
    ///
    /// # Errors
    /// If it has ended.
    pub fn descriptors(&self) -> Result<u64, Error> {
        Ok(kernel::process::open_files(self.child.id())?)
    }

    fn answer(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(Error::failed)?;
        if line.is_empty() {
            return Err(Error::failed("a client or server has ended; its last words are above"));
        }
        Ok(line)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // One that has ended already needs no signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

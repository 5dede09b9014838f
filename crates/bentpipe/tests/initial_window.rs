//! `bentpipe send --initial-window` where the next hop is in none of the host's networks, or of the other family.
//! Where the machine does not allow namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: starts programs and waits for them")]

use kernel::Namespace;
use kernel::network::IpBatch;
use kernel::testing::namespace;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

const SERVER: &str = "192.0.2.7";

/// A host, and a server that is its router at the same time.
fn host_and_server() -> Option<[Namespace; 2]> {
    let (host, server) = (namespace()?, namespace()?);
    IpBatch::new(&host)
        .add_veth("sat0", &server, "sat0")
        .add("address add 198.18.0.1/32 dev sat0")
        .add("link set sat0 addrgenmode none up")
        .add("address add fe80::1/64 dev sat0 nodad")
        .run()
        .unwrap();
    IpBatch::new(&server)
        .add(format!("address add {SERVER}/32 dev sat0"))
        .add("address add 203.0.113.1/32 dev sat0")
        .add("link set sat0 addrgenmode none up")
        .add("address add fe80::2/64 dev sat0 nodad")
        .add("route add 198.18.0.1/32 dev sat0")
        .run()
        .unwrap();
    Some([host, server])
}

fn ip(namespace: &Namespace, arguments: &str) -> String {
    let output = namespace.command("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The connection of `sender`, which must not end before it has one.
fn accept(listener: &TcpListener, sender: &mut Child) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    loop {
        if let Ok((stream, _)) = listener.accept() {
            return stream;
        }
        if sender.try_wait().unwrap().is_some() {
            let mut said = String::new();
            sender.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{said}");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_transfer_gets_a_host_route_by_the_same_next_hop_whatever_its_form() {
    for next_hop in ["via 203.0.113.1 dev sat0 onlink", "via inet6 fe80::2 dev sat0"] {
        let Some([host, server]) = host_and_server() else { return };
        ip(&host, &format!("-4 route add default {next_hop}"));
        let before = ip(&host, "-4 route show");
        let listener = server.run(|| TcpListener::bind((SERVER, 7)).unwrap()).unwrap();
        let mut sender = host
            .command(env!("CARGO_BIN_EXE_bentpipe"))
            .args(["send", "--to", &format!("{SERVER}:7"), "--size", "1MB", "--initial-window", "20"])
            .env_remove("BENTPIPE_LOG")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stream = accept(&listener, &mut sender);
        let route = ip(&host, &format!("-4 route show {SERVER}"));
        let (gateway, _) = next_hop.split_once(" dev").unwrap();
        assert!(route.contains(gateway) && route.contains("initcwnd 20"), "{next_hop}: {route}");
        drop(stream);
        assert!(!sender.wait().unwrap().success(), "the server has read nothing");
        assert_eq!(ip(&host, "-4 route show"), before, "{next_hop}");
    }
}

#!/usr/bin/env python3
"""Send files over quinn through `bentpipe emulate`, and print the table tests/data/quinn/transfers.csv anew.

Each transfer has three network namespaces of its own: client, link, server. The link loses the same packets, by number, that the simulator's
loses in the test. Needs root, ip (iproute2), a built `bentpipe` and cargo; the namespaces are removed at the end. quinn's own crates are no
dependency of bentpipe: ./quinn is outside the workspace.
"""
import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ADDRESSES = {"client": "198.18.0.1", "server": "198.18.0.2"}
BYTES, RATE, RTT, QUEUE = 5_000_000, "10Mbit/s", "100ms", "1BDP"
CONTROLS, LOSSES = ("newreno", "cubic"), ("1e-3", "1e-2")
# More than any transfer sends, and longer than any takes.
PACKETS, LIMIT_S = 6000, 180


def drops(loss, seed):
    """Numbers of the packets lost on the client's way; the first ones, of the handshake, are not."""
    draws = random.Random(seed)
    return [number for number in range(PACKETS) if draws.random() < float(loss) and number > 5]


def ip(*words):
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def namespaces(number):
    """Client, link and server, joined by veth; neighbours are known, so that the link carries nothing but the transfer."""
    names = {role: f"bpq-{os.getpid()}-{number}-{role}" for role in ("client", "link", "server")}
    inside = {role: ("netns", "exec", name) for role, name in names.items()}
    try:
        for role, name in names.items():
            ip("netns", "add", name)
            ip(*inside[role], "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        for role, address in ADDRESSES.items():
            ip("link", "add", "eth0", "netns", names[role], "type", "veth", "peer", "name", role, "netns", names["link"])
            ip("-n", names["link"], "link", "set", role, "up")
            ip("-n", names[role], "link", "set", "eth0", "address", f"02:00:00:00:00:0{address[-1]}", "up")
            ip("-n", names[role], "address", "add", f"{address}/24", "dev", "eth0")
        for role, other in (("client", "server"), ("server", "client")):
            address = ADDRESSES[other]
            ip("-n", names[role], "neighbour", "add", address, "lladdr", f"02:00:00:00:00:0{address[-1]}", "dev", "eth0")
        yield {role: ["ip", *words] for role, words in inside.items()}
    finally:
        for name in names.values():
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def transfer(number, control, loss, seed, programs):
    """The line of the table for one transfer."""
    lost = drops(loss, seed)
    with namespaces(number) as enter, contextlib.ExitStack() as stack:

        def start(words, **options):
            process = subprocess.Popen(words, **options)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        link = [programs["bentpipe"], "emulate", "--between", "client", "server", "--rate", RATE, "--rtt", RTT, "--queue", QUEUE]
        if lost:
            link += ["--drop-up", ",".join(map(str, lost))]
        start([*enter["link"], *link, "--duration", f"{LIMIT_S}s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        address = f"{ADDRESSES['server']}:4433"
        start([*enter["server"], programs["quinn"], "server", address], stderr=subprocess.DEVNULL)
        time.sleep(1.5)
        words = [*enter["client"], programs["quinn"], "client", address, str(BYTES), control]
        figures = subprocess.run(words, check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout.strip()
    return f"{control},{loss},{seed},{' '.join(map(str, lost))},{figures}"


def claim_processors():
    """Priority for this session and all that it starts: on a busy machine the link would be late otherwise."""
    with contextlib.suppress(OSError):
        os.setsid()
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/autogroup").write_text("-15")
        os.nice(-15)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bentpipe", required=True, help="the program")
    parser.add_argument("--build", default=tempfile.gettempdir(), help="where quinn's program is built")
    parser.add_argument("--seeds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=2, help="transfers side by side")
    arguments = parser.parse_args()
    build = ["cargo", "build", "--release", "--locked", "--target-dir", arguments.build, "--manifest-path", HERE / "quinn/Cargo.toml"]
    subprocess.run(build, check=True)
    programs = {"bentpipe": arguments.bentpipe, "quinn": pathlib.Path(arguments.build) / "release/quinn-transfer"}
    claim_processors()
    cases = [(control, loss, seed) for control in CONTROLS for loss in LOSSES for seed in range(1, arguments.seeds + 1)]
    print("control,loss,seed,drops,time_s,sent,lost")
    times = {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        lines = pool.map(lambda numbered: transfer(numbered[0], *numbered[1], programs), enumerate(cases))
        for (control, loss, _), line in zip(cases, lines):
            print(line, flush=True)
            times.setdefault((control, loss), []).append(float(line.split(",")[-3]))
    for (control, loss), measured in times.items():
        print(f"{control} {loss}: median {statistics.median(measured):.2f} s", file=sys.stderr)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Transfers that last for a while, checked to the last byte, for scripts/test-upgrade.

transfers.py serve ADDRESS PORT
transfers.py run ADDRESS PORT COUNT SECONDS    COUNT at once, every other one towards the server; exit code 1 if one fails

The first line of a connection says which way the bytes go, how many seconds they take and their seed. The receiver answers
with their digest (uploads), or compares it (downloads).
"""

import asyncio
import hashlib
import random
import sys

STEP = 0.1
CHUNK = 20_000


def chunks(seed, seconds):
    source = random.Random(seed)
    return [source.randbytes(CHUNK) for _ in range(max(1, round(seconds / STEP)))]


async def send(writer, seed, seconds):
    for chunk in chunks(seed, seconds):
        writer.write(chunk)
        await writer.drain()
        await asyncio.sleep(STEP)
    writer.write_eof()


def digest(parts):
    return hashlib.sha256(b"".join(parts)).hexdigest()


async def on_client(reader, writer):
    try:
        way, seconds, seed = (await reader.readline()).decode().split()
        if way == "down":
            await send(writer, int(seed), float(seconds))
        else:
            writer.write(digest([await reader.read(-1)]).encode())
            writer.write_eof()
        await writer.drain()
    except (ConnectionError, ValueError) as error:
        print(f"server: {error}", file=sys.stderr)
    finally:
        writer.close()


async def transfer(address, port, number, seconds):
    reader, writer = await asyncio.open_connection(address, port)
    way = "up" if number % 2 else "down"
    writer.write(f"{way} {seconds} {number}\n".encode())
    expected = digest(chunks(number, seconds))
    if way == "down":
        found = digest([await reader.read(-1)])
    else:
        await send(writer, number, seconds)
        found = (await reader.read(-1)).decode()
    writer.close()
    if found != expected:
        raise ValueError(f"transfer {number} ({way}): other bytes, or an early end")


async def serve(address, port):
    server = await asyncio.start_server(on_client, address, port, backlog=1024)
    await server.serve_forever()


async def run(address, port, count, seconds):
    runs = [transfer(address, port, number, seconds) for number in range(count)]
    outcomes = await asyncio.gather(*runs, return_exceptions=True)
    faults = [outcome for outcome in outcomes if outcome is not None]
    for fault in faults[:5]:
        print(f"FAILED: {fault!r}")
    print(f"{count - len(faults)} of {count} transfers are complete")
    return bool(faults)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", address, port]:
            asyncio.run(serve(address, int(port)))
        case ["run", address, port, count, seconds]:
            sys.exit(asyncio.run(run(address, int(port), int(count), float(seconds))))
        case _:
            sys.exit(__doc__)

"""A congestion control in Python: `python python/examples/newreno.py [SCENARIO]`."""

import sys

import bentpipe as bp


class NewReno(bp.CongestionControl):
    """Slow start and congestion avoidance of RFC 5681 (windows by bytes acknowledged, at most two segments each in slow start), half
    of what is outstanding after a loss. With the recovery `newreno` it is the simulator's own NewReno of the profile `rfc`."""

    def grow(self, ack, window):
        acked = ack.acked / ack.mss
        if window.cwnd < window.ssthresh:
            wanted = min(acked, 1.0 if ack.state == "timeout" else 2.0)
            taken = min(wanted, window.ssthresh - window.cwnd)
            window.cwnd += taken
            acked = wanted - taken
        if acked > 0:
            window.cwnd += acked / window.cwnd

    def on_loss(self, loss, window):
        window.ssthresh = max(loss.flight / loss.mss / 2, 2.0)


if __name__ == "__main__":
    result = bp.simulate(sys.argv[1] if len(sys.argv) > 1 else "scenarios/geo-bulk.toml", variants="newreno", controls=NewReno, seeds=3)
    print(result.flows["goodput_bps"])

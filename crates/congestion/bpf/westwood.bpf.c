/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * bp_westwood: Westwood+ (Grieco and Mascolo, ACM CCR 34(2), 2004). Reno's growth; after a loss the window is what the
 * measured bandwidth fills over the smallest round-trip time. One bandwidth sample each round trip, through two filters.
 */
#include "kernel.h"

/* A sample takes a round trip, and at least this. */
#define LEAST_SAMPLE_USEC 50000
/* The round-trip time before the first measurement. */
#define INITIAL_RTT_USEC 20000000

struct westwood {
	__u64 first_filter; /* bytes per second */
	__u64 estimate;
	__u64 sample_start; /* microseconds; 0 before the first acknowledgement */
	__u64 sample_bytes;
	__u32 rtt; /* microseconds */
	__u32 min_rtt;
	__u32 snd_una;
	__u32 accounted; /* bytes that duplicates have stood for */
	__u32 forgets_min_rtt;
};

ASSERT_FITS(struct westwood);

/* The window that the bandwidth fills over the smallest round-trip time. */
INLINE __u32 bandwidth_window(const struct tcp_sock *tp, const struct westwood *westwood)
{
	return max_u32(segments_in(westwood->estimate, westwood->min_rtt, tp->mss_cache), 2);
}

SEC("struct_ops")
void westwood_init(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct westwood *westwood = STATE(tp);

	westwood->first_filter = 0;
	westwood->estimate = 0;
	westwood->sample_start = 0;
	westwood->sample_bytes = 0;
	westwood->rtt = INITIAL_RTT_USEC;
	westwood->min_rtt = INITIAL_RTT_USEC;
	westwood->snd_una = tp->snd_una;
	westwood->accounted = 0;
	westwood->forgets_min_rtt = 0;
}

/* Bytes that an acknowledgement accounts for: a duplicate stands for one segment, which the cumulative one that follows
 * does not count again. */
INLINE __u32 delivered(const struct tcp_sock *tp, struct westwood *westwood, __u32 flags)
{
	__u32 mss = tp->mss_cache, acked = tp->snd_una - westwood->snd_una;

	westwood->snd_una = tp->snd_una;
	if (!acked) {
		if (!(flags & CA_ACK_SLOWPATH) || flags & CA_ACK_WIN_UPDATE)
			return 0;
		westwood->accounted += mss;
		return mss;
	}
	if (acked <= mss)
		return acked;
	if (westwood->accounted >= acked) {
		westwood->accounted -= acked;
		return mss;
	}
	acked -= westwood->accounted;
	westwood->accounted = 0;
	return acked;
}

SEC("struct_ops")
void westwood_ack(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct westwood *westwood = STATE(tp);
	__u64 elapsed, sample;

	if (!westwood->sample_start)
		westwood->sample_start = tp->tcp_mstamp;
	elapsed = tp->tcp_mstamp - westwood->sample_start;
	if (elapsed > max_u32(westwood->rtt, LEAST_SAMPLE_USEC)) {
		sample = westwood->sample_bytes * USEC_PER_SEC / elapsed;
		if (!westwood->first_filter && !westwood->estimate) {
			westwood->first_filter = sample;
			westwood->estimate = sample;
		} else {
			westwood->first_filter = (7 * westwood->first_filter + sample) / 8;
			westwood->estimate = (7 * westwood->estimate + westwood->first_filter) / 8;
		}
		westwood->sample_start = tp->tcp_mstamp;
		westwood->sample_bytes = 0;
	}
	westwood->sample_bytes += delivered(tp, westwood, (__u32)ctx[1]);
}

SEC("struct_ops")
void westwood_measure(__u64 *ctx)
{
	struct westwood *westwood = STATE(SOCKET(ctx));
	const struct ack_sample *sample = (const struct ack_sample *)ctx[1];
	__u32 rtt = sample->rtt_us;

	if (sample->rtt_us <= 0)
		return;
	westwood->rtt = rtt;
	if (westwood->forgets_min_rtt || rtt < westwood->min_rtt)
		westwood->min_rtt = rtt;
	westwood->forgets_min_rtt = 0;
}

SEC("struct_ops")
void westwood_event(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct westwood *westwood = STATE(tp);

	switch (ctx[1]) {
	case CA_EVENT_COMPLETE_CWR:
		tp->snd_ssthresh = bandwidth_window(tp, westwood);
		tp->snd_cwnd = tp->snd_ssthresh;
		break;
	case CA_EVENT_LOSS:
		/* The path may have become longer: the next round-trip time is believed. */
		tp->snd_ssthresh = bandwidth_window(tp, westwood);
		westwood->forgets_min_rtt = 1;
		break;
	}
}

SEC("struct_ops")
void westwood_avoid(__u64 *ctx)
{
	tcp_reno_cong_avoid(SK(SOCKET(ctx)), (__u32)ctx[1], (__u32)ctx[2]);
}

SEC("struct_ops")
__u32 westwood_ssthresh(__u64 *ctx)
{
	return tcp_reno_ssthresh(SK(SOCKET(ctx)));
}

SEC("struct_ops")
__u32 westwood_undo(__u64 *ctx)
{
	return tcp_reno_undo_cwnd(SK(SOCKET(ctx)));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bp_westwood = {
	.init = (void *)westwood_init,
	.in_ack_event = (void *)westwood_ack,
	.pkts_acked = (void *)westwood_measure,
	.cwnd_event = (void *)westwood_event,
	.cong_avoid = (void *)westwood_avoid,
	.ssthresh = (void *)westwood_ssthresh,
	.undo_cwnd = (void *)westwood_undo,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bp_westwood",
};

char _license[] SEC("license") = "Dual MIT/GPL";

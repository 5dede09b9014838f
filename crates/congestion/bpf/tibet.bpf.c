/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * bp_tibet: Reno's growth; after a loss the window is what the bandwidth that the sender itself uses fills over the
 * smallest round-trip time (Capone, Fratta and Martignon, IEEE TMC 3(2), 2004). The bandwidth is the mean length of
 * segments over the mean time between them, each averaged by itself, then low-passed.
 *
 * The kernel calls no control when a segment leaves. What left since the acknowledgement before is seen at the next one:
 * the bytes, and when the last of them left. Segments that left together count as such, which is how they leave when
 * acknowledgements clock them.
 */
#include "kernel.h"

/* The pole of the two averages is 99/100, the time constant of the last filter a second. */
#define KEEP 99
#define OF 100
#define TIME_CONSTANT_NSEC NSEC_PER_SEC
/* Segments of one flight that are averaged one by one: 64 kB, the most that leave as one. */
#define MOST_TOGETHER 46

struct tibet {
	__u64 bytes_sent; /* seen so far */
	__u64 last; /* when the segments seen last left, in ns; 0 before the first */
	__u64 mean_length; /* bytes, times 2^8; 0 before the second segment */
	__u64 mean_interval; /* ns, times 2^8 */
	__u64 estimate; /* bytes per second */
};

ASSERT_FITS(struct tibet);

/* e^(-x), both in units of 2^-16, within 1e-3. */
INLINE __u64 decay(__u64 x)
{
	/* 2^-y with y = x log2(e); 2^-f by its Taylor series, f in [0, 1). */
	__u64 y = x * 94548 >> 16;
	__u64 f = y & 0xffff, f2 = f * f >> 16, f3 = f2 * f >> 16, f4 = f3 * f >> 16;
	__u64 part = 65536 - (f * 45426 >> 16) + (f2 * 15743 >> 16) - (f3 * 3637 >> 16) + (f4 * 630 >> 16);

	return y >> 16 > 31 ? 0 : part >> (y >> 16);
}

/* One segment of `length` bytes that left `interval` ns after the one before. */
INLINE void average(struct tibet *tibet, __u32 length, __u64 interval)
{
	__u64 scaled_length = (__u64)length << 8, scaled_interval = interval << 8;

	if (!tibet->mean_length) {
		tibet->mean_length = scaled_length;
		tibet->mean_interval = scaled_interval;
		return;
	}
	tibet->mean_length = (KEEP * tibet->mean_length + (OF - KEEP) * scaled_length) / OF;
	tibet->mean_interval = (KEEP * tibet->mean_interval + (OF - KEEP) * scaled_interval) / OF;
}

/* What is in use by now; it remembers nothing of what there was `interval` ns ago if that was nothing. */
INLINE void estimate(struct tibet *tibet, __u64 interval)
{
	__u64 memory = tibet->estimate ? decay((interval << 16) / TIME_CONSTANT_NSEC) : 0;
	__u64 ratio;

	if (!tibet->mean_interval)
		return;
	ratio = tibet->mean_length * NSEC_PER_SEC / tibet->mean_interval;
	tibet->estimate = ((65536 - memory) * ratio + memory * tibet->estimate) >> 16;
}

/* Takes in what has left since it was called last. */
NOINLINE void account(struct tcp_sock *tp, struct tibet *tibet)
{
	__u64 bytes = tp->bytes_sent - tibet->bytes_sent, now = tp->tcp_wstamp_ns, last = tibet->last;
	__u32 mss = tp->mss_cache;

	if (!bytes)
		return;
	tibet->bytes_sent = tp->bytes_sent;
	tibet->last = now;
	/* The first segment of all has none before it. */
	if (last && now >= last) {
		average(tibet, bytes < mss ? bytes : mss, now - last);
		estimate(tibet, now - last);
	}
#pragma clang loop unroll(disable)
	for (int k = 0; k < MOST_TOGETHER && bytes > mss; k++) {
		bytes -= mss;
		average(tibet, bytes < mss ? bytes : mss, 0);
	}
}

INLINE __u32 bandwidth_window(const struct tcp_sock *tp, const struct tibet *tibet)
{
	return max_u32(segments_in(tibet->estimate, tp->rtt_min.s[0].v, tp->mss_cache), 2);
}

SEC("struct_ops")
void tibet_init(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct tibet *tibet = STATE(tp);

	tibet->bytes_sent = tp->bytes_sent;
	tibet->last = 0;
	tibet->mean_length = 0;
	tibet->mean_interval = 0;
	tibet->estimate = 0;
}

SEC("struct_ops")
void tibet_ack(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);

	account(tp, STATE(tp));
}

SEC("struct_ops")
void tibet_event(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct tibet *tibet = STATE(tp);
	__u64 now, rtt;

	switch (ctx[1]) {
	case CA_EVENT_TX_START:
		account(tp, tibet);
		/* A silence of the application counts as one round trip at most: it does not erase the estimate. */
		now = bpf_ktime_get_ns();
		rtt = (tp->srtt_us >> 3) * NSEC_PER_USEC;
		if (tibet->last && now > rtt && tibet->last < now - rtt)
			tibet->last = now - rtt;
		break;
	case CA_EVENT_LOSS:
		tp->snd_ssthresh = bandwidth_window(tp, tibet);
		break;
	}
}

SEC("struct_ops")
void tibet_avoid(__u64 *ctx)
{
	tcp_reno_cong_avoid(SK(SOCKET(ctx)), (__u32)ctx[1], (__u32)ctx[2]);
}

/* A window that is smaller than the estimate stays as it is. */
SEC("struct_ops")
__u32 tibet_ssthresh(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);

	return max_u32(min_u32(bandwidth_window(tp, STATE(tp)), tp->snd_cwnd), 2);
}

SEC("struct_ops")
__u32 tibet_undo(__u64 *ctx)
{
	return tcp_reno_undo_cwnd(SK(SOCKET(ctx)));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bp_tibet = {
	.init = (void *)tibet_init,
	.in_ack_event = (void *)tibet_ack,
	.cwnd_event = (void *)tibet_event,
	.cong_avoid = (void *)tibet_avoid,
	.ssthresh = (void *)tibet_ssthresh,
	.undo_cwnd = (void *)tibet_undo,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bp_tibet",
};

char _license[] SEC("license") = "Dual MIT/GPL";

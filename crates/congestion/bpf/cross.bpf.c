/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * bp_cross: the window that the link layer dictates. RTT * R / (8 (1 + K) S N) segments, at least two: R is the
 * terminal's allocation in bit/s, K the bytes of headers for each byte of payload S of a segment, N the sessions that
 * have data to send (Kim et al.). Corruption does not reduce it; a timeout does, to two segments, until the next
 * acknowledgement. The round-trip time is the smallest, and what user space lets wait at the link: a smoothed one would grow
 * with the queue that the window makes.
 */
#include "kernel.h"

/* Windows are never smaller: it takes two segments to be acknowledged at once. */
#define LEAST 2
#define WINDOWS_BUFFERED 4
/* Windows of so many segments are large. */
#define SMALL 100
/* Connections count as sessions while they have sent in this period or the one before: 2^30 ns, about a second. */
#define PERIOD_SHIFT 30
/* How often a counter is tried that other processors change at the same time. */
#define ATTEMPTS 8

/* What user space says of a link. */
struct link {
	__u64 rate; /* payload bytes per second of all sessions: R / (8 (1 + K)) */
	__u64 fallback; /* the same, once the word is too old */
	__u64 valid_until; /* CLOCK_MONOTONIC in ns; 0: for ever */
	__u32 sessions; /* N; 0: as many as are counted here */
	__u32 queue; /* what may wait at the link, in us: part of the round-trip time of which the window is made */
};

/* Sessions of even and odd periods: the period's number in the upper half, their count in the lower one. */
struct activity {
	__u64 periods[2];
};

/* Links by the mark of the sockets that use them (SO_MARK); that of mark 0 is everybody else's. */
struct {
	int (*type)[1]; /* hash */
	int (*max_entries)[64];
	__u32 *key;
	struct link *value;
} bp_cross_links SEC(".maps");

struct {
	int (*type)[1];
	int (*max_entries)[64];
	__u32 *key;
	struct activity *value;
} bp_cross_counts SEC(".maps");

struct cross {
	__u64 period; /* in which the connection was counted last */
	__u32 mark; /* where */
	__u32 rank; /* how many had been counted before it then */
	__u8 is_counted; /* in that period */
	__u8 was_counted; /* in the one before it, too */
	__u8 is_open; /* the connection is established; the state is zeros before */
};

ASSERT_FITS(struct cross);

/* Adds `change` to a period's count, which starts from zero where the slot still has that of an earlier one; `before` is what
 * it was. */
INLINE bool count(struct activity *activity, __u64 period, __s32 change, __u32 *before)
{
	__u64 *slot = &activity->periods[period & 1];

#pragma clang loop unroll(disable)
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		__u64 old = *slot;
		bool is_current = old >> 32 == (period & 0xffffffff);
		__u64 now = is_current ? old : period << 32;

		if (change < 0 && (!is_current || !(__u32)old))
			return 1;
		*before = now;
		if (__sync_val_compare_and_swap(slot, old, now + change) == old)
			return 1;
	}
	return 0;
}

INLINE __u32 counted(const struct activity *activity, __u64 period)
{
	__u64 slot = activity->periods[period & 1];

	return slot >> 32 == (period & 0xffffffff) ? (__u32)slot : 0;
}

/* Takes the connection out of the counts. */
NOINLINE void leave(struct cross *cross, __u64 period)
{
	struct activity *activity;
	__u32 mark = cross->mark, before;

	if (!cross->is_counted)
		return;
	cross->is_counted = 0;
	activity = bpf_map_lookup_elem(&bp_cross_counts, &mark);
	if (!activity)
		return;
	/* Counts of periods that have gone by do not matter, and are not changed. */
	count(activity, cross->period, -1, &before);
	if (cross->was_counted && cross->period == period)
		count(activity, period - 1, -1, &before);
}

/* N, with this connection, which is counted if it sends. */
INLINE __u32 active_sessions(struct cross *cross, __u32 mark, __u64 period, bool sends)
{
	struct activity *activity, nothing = {};
	__u32 now, before;

	if (cross->is_counted && cross->mark != mark)
		leave(cross, period);
	activity = bpf_map_lookup_elem(&bp_cross_counts, &mark);
	if (!activity) {
		bpf_map_update_elem(&bp_cross_counts, &mark, &nothing, BPF_NOEXIST);
		activity = bpf_map_lookup_elem(&bp_cross_counts, &mark);
	}
	if (!activity)
		return 1;
	if (sends && (!cross->is_counted || cross->period != period) && count(activity, period, 1, &cross->rank)) {
		cross->was_counted = cross->is_counted && cross->period == period - 1;
		cross->is_counted = 1;
		cross->period = period;
		cross->mark = mark;
	}
	now = counted(activity, period);
	before = counted(activity, period - 1);
	return max_u32(max_u32(now, before) + !cross->is_counted, 1);
}

/* Whole segments of `all` for the session of this rank among `n`: what is left of dividing goes to as many of them, so that all
 * together have `all`. */
INLINE __u64 part(__u64 all, __u32 rank, __u32 n)
{
	rank %= n;
	return all * (rank + 1) / n - all * rank / n;
}

/* Sets window and pacing from the link. */
NOINLINE void follow_link(struct tcp_sock *tp, bool sends)
{
	struct cross *cross = STATE(tp);
	__u64 now = bpf_ktime_get_ns();
	__u32 mark = tp->inet_conn.icsk_inet.sk.sk_mark;
	__u32 rtt = tp->rtt_min.s[0].v;
	__u32 nobody = 0, n;
	struct link *link;
	__u64 rate, window;

	link = bpf_map_lookup_elem(&bp_cross_links, &mark);
	if (!link) {
		mark = nobody;
		link = bpf_map_lookup_elem(&bp_cross_links, &nobody);
	}
	if (!link) {
		tp->snd_cwnd = LEAST;
		return;
	}
	n = active_sessions(cross, mark, now >> PERIOD_SHIFT, sends);
	if (link->sessions)
		n = link->sessions;
	if (rtt == ~0U)
		rtt = tp->srtt_us >> 3;
	if (!rtt)
		return;
	rate = link->valid_until && now > link->valid_until ? link->fallback : link->rate;
	window = part(segments_in(rate, (__u64)rtt + link->queue, tp->mss_cache), cross->rank, n);
	if (window > tp->snd_cwnd_clamp)
		window = tp->snd_cwnd_clamp;
	window = max_u32(window, LEAST);
	tp->snd_cwnd = window;
	/* A larger window fills over one round trip. */
	tp->inet_conn.icsk_inet.sk.sk_pacing_rate = window * tp->mss_cache * USEC_PER_SEC / rtt;
}

SEC("struct_ops")
void cross_init(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct cross *cross = STATE(tp);

	cross->period = 0;
	cross->mark = 0;
	cross->rank = 0;
	cross->is_counted = 0;
	cross->was_counted = 0;
	cross->is_open = 1;
	if (tp->inet_conn.icsk_inet.sk.sk_pacing_status == SK_PACING_NONE)
		tp->inet_conn.icsk_inet.sk.sk_pacing_status = SK_PACING_NEEDED;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	/* It may be an end that only receives. */
	follow_link(tp, 0);
}

SEC("struct_ops")
void cross_release(__u64 *ctx)
{
	leave(STATE(SOCKET(ctx)), bpf_ktime_get_ns() >> PERIOD_SHIFT);
}

/* For each acknowledgement, that of the SYN before init included. */
SEC("struct_ops")
void cross_control(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	const struct cross *cross = STATE(tp);

	if (cross->is_open)
		follow_link(tp, 1);
}

SEC("struct_ops")
void cross_event(__u64 *ctx)
{
	if (ctx[1] == CA_EVENT_TX_START)
		follow_link(SOCKET(ctx), 1);
}

/* After a timeout, until the next acknowledgement. */
SEC("struct_ops")
void cross_state(__u64 *ctx)
{
	if ((__u8)ctx[1] == TCP_CA_Loss)
		SOCKET(ctx)->snd_cwnd = LEAST;
}

SEC("struct_ops")
__u32 cross_ssthresh(__u64 *ctx)
{
	(void)ctx;
	return TCP_INFINITE_SSTHRESH;
}

SEC("struct_ops")
__u32 cross_undo(__u64 *ctx)
{
	return SOCKET(ctx)->snd_cwnd;
}

/* Segments of small windows leave one by one: in pairs, as the kernel has them leave at such rates, the last of an odd window
 * would wait for another to become free, in each session. Of large windows that is little, and pacing of pairs bears twice as
 * late a timer. */
SEC("struct_ops")
__u32 cross_burst(__u64 *ctx)
{
	return SOCKET(ctx)->snd_cwnd < SMALL ? 1 : 2;
}

/* Windows of data that the send buffer grows to: a loss is repaired a round trip later and acknowledged after another, and
 * the window stays full meanwhile. */
SEC("struct_ops")
__u32 cross_buffer(__u64 *ctx)
{
	(void)ctx;
	return WINDOWS_BUFFERED;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bp_cross = {
	.init = (void *)cross_init,
	.release = (void *)cross_release,
	.cong_control = (void *)cross_control,
	.cwnd_event = (void *)cross_event,
	.set_state = (void *)cross_state,
	.ssthresh = (void *)cross_ssthresh,
	.undo_cwnd = (void *)cross_undo,
	.min_tso_segs = (void *)cross_burst,
	.sndbuf_expand = (void *)cross_buffer,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bp_cross",
};

char _license[] SEC("license") = "Dual MIT/GPL";

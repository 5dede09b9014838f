/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * bp_cross: the window that the link layer dictates. RTT * R / (8 (1 + K) S N) segments, at least two: R is the
 * terminal's allocation in bit/s, K the bytes of headers for each byte of payload S of a segment, N the sessions that
 * have data to send (Kim et al.). Who has less to send than its share counts by what it uses, and who is limited by its window
 * has what the others leave (max-min fairness). Corruption does not reduce it; a timeout does, to two segments, until the next
 * acknowledgement. The round-trip time is the smallest, and what user space lets wait at the link: a smoothed one would grow
 * with the queue that the window makes.
 */
#include "kernel.h"

/* Windows are never smaller: it takes two segments to be acknowledged at once. */
#define LEAST 2
#define WINDOWS_BUFFERED 4
/* Windows of so many segments are large. */
#define SMALL 100
/* What late timers have kept back, up to an eighth of the window, leaves at 9/8 of the rate. */
#define FASTER(rate) ((rate) + ((rate) >> 3))
/* The window is full from 7/8 on, and until it is less than half full. */
#define FULL(window) ((window) - ((window) >> 3))
#define STILL_FULL(window) ((window) >> 1)

/* What user space says of a link. */
struct link {
	__u64 rate; /* payload bytes per second of all sessions: R / (8 (1 + K)) */
	__u64 fallback; /* the same, once the word is too old */
	__u64 valid_until; /* CLOCK_MONOTONIC in ns; 0: for ever */
	__u32 sessions; /* N; 0: as many as are counted here */
	__u32 queue; /* what may wait at the link, in us: part of the round-trip time of which the window is made */
	__u32 account; /* where its connections are counted: links with the same share one capacity */
	__u32 reserved;
};

/* What a connection does with its window. */
enum use {
	QUIET, /* nothing waits to be sent */
	GROWING, /* it has more to send, and has not filled its window */
	FULL_WINDOW, /* it has more to send than its window lets it */
	USES, /* as a mask of an index */
};

/* What the connections of a link do: how many there are of each use, and payload bytes per second that they have under way in a
 * round trip (those of a full window: that their windows are). */
struct account {
	__u64 connections[USES + 1];
	__u64 rates[USES + 1];
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
	struct account *value;
} bp_cross_accounts SEC(".maps");

struct cross {
	__u64 rate; /* what of its account's is this connection's */
	__u32 account;
	__u8 use;
	__u8 is_counted; /* it has something under way or to send */
	__u8 is_open; /* the connection is established; the state is zeros before */
	__u8 has_timed_out; /* and nothing has been acknowledged since */
};

ASSERT_FITS(struct cross);

INLINE void add(struct account *account, const struct cross *cross, __s64 sign)
{
	__u32 use = cross->use & USES;

	__sync_fetch_and_add(&account->connections[use], sign);
	__sync_fetch_and_add(&account->rates[use], sign * (__s64)cross->rate);
}

/* Takes the connection out of its account. */
NOINLINE void leave(struct cross *cross)
{
	struct account *account;
	__u32 key = cross->account;

	if (!cross->is_counted)
		return;
	cross->is_counted = 0;
	account = bpf_map_lookup_elem(&bp_cross_accounts, &key);
	if (account)
		add(account, cross, -1);
}

INLINE struct account *account_of(__u32 key)
{
	struct account *account = bpf_map_lookup_elem(&bp_cross_accounts, &key), nothing = {};

	if (account)
		return account;
	bpf_map_update_elem(&bp_cross_accounts, &key, &nothing, BPF_NOEXIST);
	return bpf_map_lookup_elem(&bp_cross_accounts, &key);
}

/* Segments that have left and have neither arrived nor been lost. */
INLINE __u32 in_flight(const struct tcp_sock *tp)
{
	__u32 gone = tp->sacked_out + tp->lost_out, out = tp->packets_out + tp->retrans_out;

	return out > gone ? out - gone : 0;
}

/* `a - b`, at least 0: counts of other processors may be ahead of theirs of rates. */
INLINE __u64 less(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

/* The rate of a connection of this use beside `others`. What those use that have no more to send is theirs; what is left of the link
 * is divided between those that have. Those with a full window divide also what the others of these have not come to use
 * yet: unused window is theirs until it is used. */
INLINE __u64 share(__u64 all, const struct account *others, __u32 use)
{
	__u64 left = less(all, others->rates[QUIET]), full = others->connections[FULL_WINDOW] + 1;
	__u64 fair = left / (others->connections[GROWING] + full);
	__u64 most;

	if (use != FULL_WINDOW)
		return fair;
	most = less(left, others->rates[GROWING]) / full;
	return most > fair ? most : fair;
}

/* Sets window and pacing from the link. `next` segments are about to leave, if there are so many. */
NOINLINE void follow_link(struct tcp_sock *tp, __u32 next)
{
	struct cross *cross = STATE(tp), before;
	__u32 mark = tp->inet_conn.icsk_inet.sk.sk_mark;
	__u32 rtt = tp->rtt_min.s[0].v, mss = tp->mss_cache;
	__u32 nobody = 0, flight, key, use;
	__u64 all, part, left, window, waits, each, time, pace, most;
	struct account *account, others;
	struct link *link;

	link = bpf_map_lookup_elem(&bp_cross_links, &mark);
	if (!link)
		link = bpf_map_lookup_elem(&bp_cross_links, &nobody);
	if (!link) {
		tp->snd_cwnd = LEAST;
		return;
	}
	if (rtt == ~0U)
		rtt = tp->srtt_us >> 3;
	if (!rtt || !mss)
		return;
	key = link->account;
	if (cross->is_counted && cross->account != key)
		leave(cross);
	account = account_of(key);
	if (!account)
		return;
	time = (__u64)rtt + link->queue;
	each = (__u64)mss * USEC_PER_SEC / time;
	all = link->valid_until && bpf_ktime_get_ns() > link->valid_until ? link->fallback : link->rate;

	waits = after(tp->write_seq, tp->snd_nxt) ? tp->write_seq - tp->snd_nxt : 0;
	flight = in_flight(tp);
	if (waits <= (__u64)next * mss) {
		flight += (waits + mss - 1) / mss;
		use = QUIET;
	} else {
		bool was_full = cross->is_counted && cross->use == FULL_WINDOW;

		flight += next;
		/* The two segments after a timeout are no share. */
		use = !cross->has_timed_out && flight >= (was_full ? STILL_FULL(tp->snd_cwnd) : FULL(tp->snd_cwnd)) ? FULL_WINDOW : GROWING;
	}

	others = *account;
	if (cross->is_counted) {
		others.connections[cross->use & USES] -= 1;
		others.rates[cross->use & USES] = less(others.rates[cross->use & USES], cross->rate);
	}
	if (link->sessions) {
		part = all / link->sessions;
		window = segments_in(part, time, mss);
	} else {
		part = share(all, &others, use);
		window = segments_in(part, time, mss);
		left = less(all, others.rates[QUIET] + others.rates[GROWING] + others.rates[FULL_WINDOW]);
		/* What is left of dividing whole segments goes to who comes first, so that all together have `all`. */
		window += use == FULL_WINDOW && segments_in(left, time, mss) > window;
	}
	if (window > tp->snd_cwnd_clamp)
		window = tp->snd_cwnd_clamp;
	window = max_u32(window, LEAST);

	before = *cross;
	cross->account = key;
	cross->use = use;
	cross->rate = (use == FULL_WINDOW ? window : flight) * each;
	/* Over a short round trip the least window is more than its part of the link, or than all of it. */
	if (part < LEAST * each && cross->rate > part)
		cross->rate = part;
	cross->is_counted = flight || use != QUIET;
	/* Others may look in between: they see more rather than less. */
	if (cross->is_counted)
		add(account, cross, 1);
	if (before.is_counted)
		add(account, &before, -1);
	if (cross->has_timed_out)
		return;
	tp->snd_cwnd = window;
	/* A window leaves in a round trip. Those that have not filled theirs do so together at the link's rate, for which those with
	 * full ones make way: a short answer does not wait for a round trip to end. */
	pace = window * mss * USEC_PER_SEC / rtt;
	if (use == FULL_WINDOW && flight < window && flight >= FULL(window))
		pace = FASTER(pace);
	if (use != FULL_WINDOW && !link->sessions) {
		all /= others.connections[GROWING] + 1;
		pace = all > pace ? all : pace;
	}
	/* SO_MAX_PACING_RATE; all ones unless it is set. */
	most = tp->inet_conn.icsk_inet.sk.sk_max_pacing_rate;
	tp->inet_conn.icsk_inet.sk.sk_pacing_rate = pace < most ? pace : most;
}

SEC("struct_ops")
void cross_init(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct cross *cross = STATE(tp);

	cross->is_counted = 0;
	cross->has_timed_out = 0;
	cross->is_open = 1;
	if (tp->inet_conn.icsk_inet.sk.sk_pacing_status == SK_PACING_NONE)
		tp->inet_conn.icsk_inet.sk.sk_pacing_status = SK_PACING_NEEDED;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	follow_link(tp, 0);
}

SEC("struct_ops")
void cross_release(__u64 *ctx)
{
	leave(STATE(SOCKET(ctx)));
}

/* For each acknowledgement, that of the SYN before init included. */
SEC("struct_ops")
void cross_control(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct cross *cross = STATE(tp);

	if (!cross->is_open)
		return;
	cross->has_timed_out = 0;
	follow_link(tp, 0);
}

/* After a timeout, until the next acknowledgement. */
SEC("struct_ops")
void cross_state(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct cross *cross = STATE(tp);

	if ((__u8)ctx[1] != TCP_CA_Loss || !cross->is_open)
		return;
	cross->has_timed_out = 1;
	tp->snd_cwnd = LEAST;
	follow_link(tp, 0);
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
 * late a timer. The kernel asks before it sends, so that the window is that of the moment. */
SEC("struct_ops")
__u32 cross_burst(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	const struct cross *cross = STATE(tp);
	__u32 burst = tp->snd_cwnd < SMALL ? 1 : 2;

	if (cross->is_open)
		follow_link(tp, burst);
	return burst;
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
	.set_state = (void *)cross_state,
	.ssthresh = (void *)cross_ssthresh,
	.undo_cwnd = (void *)cross_undo,
	.min_tso_segs = (void *)cross_burst,
	.sndbuf_expand = (void *)cross_buffer,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bp_cross",
};

char _license[] SEC("license") = "Dual MIT/GPL";

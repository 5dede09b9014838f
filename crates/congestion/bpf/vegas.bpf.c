/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * bp_vegas: keeps a few segments queued at the bottleneck, judged by the round-trip time (Brakmo and Peterson, IEEE JSAC
 * 13(8), 1995), with Linux's reading: the smallest time of each round, alpha 2, beta 4, gamma 1, Reno's loss response.
 */
#include "kernel.h"

#define ALPHA 2
#define BETA 4
#define GAMMA 1
/* A round with fewer samples tells nothing: one of them may have been a delayed acknowledgement. */
#define LEAST_SAMPLES 3

struct vegas {
	__u32 base; /* microseconds: the smallest of the connection */
	__u32 round_min; /* of the round */
	__u32 samples;
	__u32 round_end; /* the round ends when this is acknowledged */
	__u32 is_on; /* nothing is being repaired */
};

ASSERT_FITS(struct vegas);

INLINE void start_round(const struct tcp_sock *tp, struct vegas *vegas)
{
	vegas->round_end = tp->snd_nxt;
	vegas->round_min = ~0U;
	vegas->samples = 0;
}

SEC("struct_ops")
void vegas_init(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct vegas *vegas = STATE(tp);

	vegas->base = ~0U;
	vegas->is_on = 1;
	start_round(tp, vegas);
}

SEC("struct_ops")
void vegas_state(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct vegas *vegas = STATE(tp);

	vegas->is_on = (__u8)ctx[1] == TCP_CA_Open;
	if (vegas->is_on)
		start_round(tp, vegas);
}

SEC("struct_ops")
void vegas_measure(__u64 *ctx)
{
	struct vegas *vegas = STATE(SOCKET(ctx));
	const struct ack_sample *sample = (const struct ack_sample *)ctx[1];
	__s32 rtt = sample->rtt_us;

	if (rtt < 0)
		return;
	/* Nothing below divides by zero. */
	rtt = rtt ? rtt : 1;
	vegas->base = min_u32(vegas->base, rtt);
	vegas->round_min = min_u32(vegas->round_min, rtt);
	vegas->samples++;
}

SEC("struct_ops")
void vegas_event(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);

	/* After a silence the round that was open means nothing. */
	if (ctx[1] == CA_EVENT_CWND_RESTART || ctx[1] == CA_EVENT_TX_START)
		start_round(tp, STATE(tp));
}

/* What a round has shown. */
INLINE void end_round(struct tcp_sock *tp, const struct vegas *vegas, __u32 acked)
{
	__u32 rtt = vegas->round_min, base = vegas->base, cwnd = tp->snd_cwnd;
	__u32 fitting = (__u64)cwnd * base / rtt;
	__u32 excess = (__u64)cwnd * (rtt - base) / base;

	if (excess > GAMMA && in_slow_start(tp)) {
		tp->snd_cwnd = max_u32(min_u32(cwnd, fitting + 1), 2);
		tp->snd_ssthresh = min_u32(tp->snd_ssthresh, tp->snd_cwnd);
	} else if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
	} else if (excess > BETA) {
		tp->snd_cwnd = max_u32(cwnd - 1, 2);
		tp->snd_ssthresh = min_u32(tp->snd_ssthresh, tp->snd_cwnd);
	} else if (excess < ALPHA) {
		tp->snd_cwnd = min_u32(cwnd + 1, tp->snd_cwnd_clamp);
	}
	tp->snd_ssthresh = max_u32(tp->snd_ssthresh, (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2));
}

SEC("struct_ops")
void vegas_avoid(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct vegas *vegas = STATE(tp);
	__u32 ack = ctx[1], acked = ctx[2];

	if (!vegas->is_on) {
		tcp_reno_cong_avoid(SK(tp), ack, acked);
		return;
	}
	if (after(ack, vegas->round_end)) {
		/* A kernel's base may be missing where the first sample was spoilt. */
		if (vegas->samples >= LEAST_SAMPLES && vegas->base && vegas->round_min)
			end_round(tp, vegas, acked);
		else
			tcp_reno_cong_avoid(SK(tp), ack, acked);
		start_round(tp, vegas);
	} else if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
	}
}

SEC("struct_ops")
__u32 vegas_ssthresh(__u64 *ctx)
{
	return tcp_reno_ssthresh(SK(SOCKET(ctx)));
}

SEC("struct_ops")
__u32 vegas_undo(__u64 *ctx)
{
	return tcp_reno_undo_cwnd(SK(SOCKET(ctx)));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bp_vegas = {
	.init = (void *)vegas_init,
	.set_state = (void *)vegas_state,
	.pkts_acked = (void *)vegas_measure,
	.cwnd_event = (void *)vegas_event,
	.cong_avoid = (void *)vegas_avoid,
	.ssthresh = (void *)vegas_ssthresh,
	.undo_cwnd = (void *)vegas_undo,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bp_vegas",
};

char _license[] SEC("license") = "Dual MIT/GPL";

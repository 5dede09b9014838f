/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * bp_hybla: on a long path the window grows as that of a connection with a round-trip time of 25 ms (Caini and
 * Firrincieli, IJSCN 22(5), 2004), with the constants of Linux's own Hybla: rho in eighths, an acknowledgement counts
 * once however many segments it covers, and the growth is Reno's while anything is being repaired.
 */
#include "kernel.h"

#define REFERENCE_RTT_USEC 25000
#define MAX_EXPONENT 16
#define MAX_WINDOW 65535
/* Fractions of segments are in units of 2^-16. */
#define ONE (1ULL << 16)

struct hybla {
	__u64 gain; /* 2^rho - 1, in fractions */
	__u32 rho; /* in eighths */
	__u32 min_srtt; /* eight times microseconds, as the kernel has it */
	__u32 fraction; /* of a segment, by which the window is larger than snd_cwnd says */
	__u32 state;
};

ASSERT_FITS(struct hybla);

/* 2^(k/8) in fractions; volatile keeps it in the section where the loader looks for it. */
const volatile __u32 roots[8] = { 65536, 71468, 77936, 84990, 92682, 101070, 110218, 120194 };

/* rho follows the smallest smoothed round-trip time. */
INLINE void update_rho(struct tcp_sock *tp, struct hybla *hybla)
{
	__u32 rho = max_u32(tp->srtt_us / REFERENCE_RTT_USEC, 8);

	hybla->min_srtt = tp->srtt_us;
	hybla->rho = rho;
	hybla->gain = ((__u64)roots[rho & 7] << min_u32(rho >> 3, MAX_EXPONENT)) - ONE;
}

SEC("struct_ops")
void hybla_init(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct hybla *hybla = STATE(tp);

	hybla->fraction = 0;
	hybla->state = TCP_CA_Open;
	update_rho(tp, hybla);
	if (!tp->srtt_us)
		hybla->min_srtt = ~0U;
	else
		tp->snd_cwnd = hybla->rho >> 3;
}

SEC("struct_ops")
void hybla_state(__u64 *ctx)
{
	struct hybla *hybla = STATE(SOCKET(ctx));

	hybla->state = (__u8)ctx[1];
}

SEC("struct_ops")
void hybla_avoid(__u64 *ctx)
{
	struct tcp_sock *tp = SOCKET(ctx);
	struct hybla *hybla = STATE(tp);
	__u32 cwnd = tp->snd_cwnd, ssthresh = tp->snd_ssthresh;
	__u64 window;

	if (tp->srtt_us && tp->srtt_us < hybla->min_srtt)
		update_rho(tp, hybla);
	if (hybla->state != TCP_CA_Open || (in_slow_start(tp) && hybla->rho == 8)) {
		tcp_reno_cong_avoid(SK(tp), (__u32)ctx[1], (__u32)ctx[2]);
		return;
	}
	if (!is_window_limited(tp) || !cwnd)
		return;
	window = cwnd * ONE + hybla->fraction;
	if (cwnd < ssthresh) {
		window += hybla->gain;
		if (window > ssthresh * ONE)
			window = ssthresh * ONE;
	} else {
		/* rho^2 in 64ths. */
		window += (__u64)hybla->rho * hybla->rho * ONE * ONE / 64 / window;
	}
	if (window > MAX_WINDOW * ONE)
		window = MAX_WINDOW * ONE;
	hybla->fraction = window % ONE;
	tp->snd_cwnd = min_u32(window / ONE, tp->snd_cwnd_clamp);
}

SEC("struct_ops")
__u32 hybla_ssthresh(__u64 *ctx)
{
	return tcp_reno_ssthresh(SK(SOCKET(ctx)));
}

SEC("struct_ops")
__u32 hybla_undo(__u64 *ctx)
{
	return tcp_reno_undo_cwnd(SK(SOCKET(ctx)));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bp_hybla = {
	.init = (void *)hybla_init,
	.set_state = (void *)hybla_state,
	.cong_avoid = (void *)hybla_avoid,
	.ssthresh = (void *)hybla_ssthresh,
	.undo_cwnd = (void *)hybla_undo,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bp_hybla",
};

char _license[] SEC("license") = "Dual MIT/GPL";

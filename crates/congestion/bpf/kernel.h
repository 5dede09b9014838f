/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the programs use of the kernel: types, helpers and functions. Only the fields that are read are named; where they
 * are is found out when a program is loaded (CO-RE), so that one object serves every kernel that has them.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
/* A function of the kernel that programs may call. */
#define KERNEL_FUNCTION extern __attribute__((section(".ksyms")))
#define MEMBER(type, name) type(*name)

#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_SEC 1000000000ULL
#define USEC_PER_SEC 1000000ULL

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock {
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
	__u32 sk_mark;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u64 icsk_ca_priv[13];
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 mss_cache;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq; /* behind the last byte that waits to be sent */
	__u32 packets_out; /* segments sent and not acknowledged; of these arrived, lost, and sent again: */
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 srtt_us; /* eight times the smoothed round-trip time */
	__u32 max_packets_out;
	__u64 bytes_sent; /* of data, what was sent again included */
	__u64 tcp_mstamp; /* microseconds, of the packet that is being handled */
	__u64 tcp_wstamp_ns; /* when the last segment left */
	__u8 is_cwnd_limited : 1;
	struct minmax rtt_min;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
};

#pragma clang attribute pop

enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };

enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
};

/* What an acknowledgement was, in the hook in_ack_event. */
#define CA_ACK_SLOWPATH 1
#define CA_ACK_WIN_UPDATE 2

/* An update that only adds. */
#define BPF_NOEXIST 1
/* Any process may choose the control, not only those with CAP_NET_ADMIN. */
#define TCP_CONG_NON_RESTRICTED 1
/* The kernel itself delays segments to sk_pacing_rate. */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
#define TCP_INFINITE_SSTHRESH 0x7fffffff

/* The loader finds the members by their names. A program gets their arguments as an array of words. */
struct tcp_congestion_ops {
	MEMBER(__u32, ssthresh)(struct sock *);
	MEMBER(void, cong_avoid)(struct sock *, __u32, __u32);
	MEMBER(void, set_state)(struct sock *, __u8);
	MEMBER(void, cwnd_event)(struct sock *, enum tcp_ca_event);
	MEMBER(void, in_ack_event)(struct sock *, __u32);
	MEMBER(void, pkts_acked)(struct sock *, const struct ack_sample *);
	MEMBER(void, cong_control)(struct sock *);
	MEMBER(__u32, undo_cwnd)(struct sock *);
	MEMBER(__u32, min_tso_segs)(struct sock *);
	MEMBER(__u32, sndbuf_expand)(struct sock *);
	char name[16];
	__u32 flags;
	MEMBER(void, init)(struct sock *);
	MEMBER(void, release)(struct sock *);
};

KERNEL_FUNCTION __u32 tcp_reno_ssthresh(struct sock *sk);
KERNEL_FUNCTION __u32 tcp_reno_undo_cwnd(struct sock *sk);
KERNEL_FUNCTION void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked);
KERNEL_FUNCTION __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked);

static void *(*const bpf_map_lookup_elem)(const void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(const void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;

/* The first argument of every member. */
#define SOCKET(ctx) ((struct tcp_sock *)(ctx)[0])
#define SK(tp) ((struct sock *)(tp))
/* The control's own state of a connection. */
#define STATE(tp) ((void *)(tp)->inet_conn.icsk_ca_priv)
#define ASSERT_FITS(type) _Static_assert(sizeof(type) <= 13 * 8, "the state fits into icsk_ca_priv")

INLINE __u32 min_u32(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

INLINE __u32 max_u32(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

/* Whether sequence number a is later than b. */
INLINE bool after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

INLINE bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Whether the window was what limited the sender, by the kernel's own rule. */
INLINE bool is_window_limited(const struct tcp_sock *tp)
{
	/* A bit field: its place, too, is known at load time only. */
	__u32 at = __builtin_preserve_field_info(tp->is_cwnd_limited, 0);
	__u32 left = __builtin_preserve_field_info(tp->is_cwnd_limited, 4);
	__u32 right = __builtin_preserve_field_info(tp->is_cwnd_limited, 5);
	__u64 word = 0;

	switch (__builtin_preserve_field_info(tp->is_cwnd_limited, 1)) {
	case 1:
		word = *(const __u8 *)((const char *)tp + at);
		break;
	case 2:
		word = *(const __u16 *)((const char *)tp + at);
		break;
	case 4:
		word = *(const __u32 *)((const char *)tp + at);
		break;
	case 8:
		word = *(const __u64 *)((const char *)tp + at);
		break;
	}
	if (word << left >> right)
		return 1;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Segments that `rate` bytes per second send in `usec` microseconds. */
INLINE __u64 segments_in(__u64 rate, __u64 usec, __u32 mss)
{
	return mss ? rate * usec / USEC_PER_SEC / mss : 0;
}

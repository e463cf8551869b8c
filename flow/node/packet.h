// What the programs share: types and helpers of the kernel's linux/bpf.h, and how a packet's flow is found. It
// needs no header of the machine, so that the same compiler makes the same bytes everywhere.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define inline_always static inline __attribute__((always_inline))
#define uint(name, value) int (*name)[value]
#define type(name, t) typeof(t) *name

struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
	u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end, napi_id, family;
	u32 remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port, data_meta;
	u64 flow_keys, tstamp;
	u32 wire_len, gso_segs;
};

enum { HASH = 1, ARRAY = 2, HASH_PERCPU = 5, ARRAY_PERCPU = 6, HASH_LRU = 9, RING = 27 };
enum { TCX_NEXT = -1 };
enum { NOEXIST = 1 }; // map_update keeps what another processor has stored meanwhile

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const now_ns)(void) = (void *)5;
static u64 (*const ticks)(void) = (void *)118; // of the kernel, each 1 to 10 ms; the kernel makes a load of it, and no call
static long (*const load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;
static long (*const ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;

// Addresses of IPv4 are mapped into IPv6. Ports are in the order of the host.
struct key {
	u8 source[16], destination[16];
	u16 source_port, destination_port;
	u32 interface;
	u8 protocol, pad[3];
};

// Set before a program is loaded.
volatile const u64 gap_ns = 20000000ULL;
volatile const u64 idle_ns = 1000000000ULL;

// The TCP fields are zero in UDP.
struct segment {
	u32 payload, sequence, acknowledged;
	u8 flags;
};

// A tail is the end of a flow's payload, as sequence number, and how much of it the other side has acknowledged.
struct tail {
	u64 heard; // time of the last acknowledgement of more
	u32 end, acknowledged;
};

enum counter { CREATED, OPENED, LOST, UNKEPT, OTHER, CUT, FRAGMENT, HINTED, OUTSIDE, MARKED, COUNTERS };

struct {
	uint(type, ARRAY_PERCPU);
	uint(max_entries, COUNTERS);
	type(key, u32);
	type(value, u64);
} counters SEC(".maps");

inline_always void count(u32 which) {
	u64 *c = map_lookup(&counters, &which);
	if (c)
		*c += 1;
}

inline_always u32 big16(const u8 *b) { return (u32)b[0] << 8 | b[1]; }

inline_always void copy16(u8 *to, const u8 *from) {
	for (int i = 0; i < 16; i++)
		to[i] = from[i];
}

enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };
enum { IPV4 = 0x0800, IPV6 = 0x86dd, VLAN = 0x8100, QINQ = 0x88a8 };
enum { TCP = 6, UDP = 17, HOP = 0, ROUTING = 43, FRAGMENTED = 44, AUTH = 51, OPTIONS = 60 };

// start makes nothing of a flow acknowledged.
inline_always void start(struct tail *t, const struct segment *g) {
	t->end = g->sequence;
	t->acknowledged = g->sequence - 1;
}

// extend moves the end behind a segment; one that is sent again leaves it.
inline_always void extend(struct tail *t, const struct segment *g) {
	u32 end = g->sequence + g->payload;
	if ((s32)(end - t->end) > 0)
		t->end = end;
}

// acknowledge takes the acknowledgement of the other side's segment. Late ones change nothing.
inline_always void acknowledge(struct tail *t, const struct segment *g, u64 now) {
	if ((s32)(g->acknowledged - t->acknowledged) > 0) {
		t->acknowledged = g->acknowledged;
		t->heard = now;
	}
}

// over reports whether a silence has ended the flow's message: for gap_ns after all of it was acknowledged, or for idle_ns. Packets
// that wait in a queue are no silence of the sender: a long flow in the last band would begin again in the first.
inline_always int over(const struct tail *t, u64 last, u64 now) {
	// Another processor may have stored a later time meanwhile: the differences have a sign.
	s64 silence = now - last;
	if (silence <= (s64)gap_ns) // most often
		return 0;
	s64 unheard = now - t->heard;
	if (unheard < silence)
		silence = unheard;
	return silence > (s64)idle_ns || (silence > (s64)gap_ns && t->acknowledged == t->end);
}

// load_near reads words of a packet at a constant: those of its first part, where headers most often are, without a call of the
// kernel. It has no variable for the place: without CAP_PERFMON the verifier takes no sum of one and a packet's address.
inline_always long load_near(struct __sk_buff *skb, const u32 at, u32 *to, const u32 words) {
	const u8 *from = (const u8 *)(long)skb->data + at;
	if (from + words * 4 > (const u8 *)(long)skb->data_end)
		return load_bytes(skb, at, to, words * 4);
	for (u32 i = 0; i < words; i++)
		to[i] = ((const u32 *)from)[i]; // which need not be aligned
	return 0;
}

// parse finds flow and segment of a packet. It returns 0, or the counter of why there is none.
inline_always int parse(struct __sk_buff *skb, struct key *key, struct segment *segment) {
	u32 first[6], words[10];
	u8 *type = (u8 *)first, *h = (u8 *)words; // what follows, with its first bytes or zeros: an IPv4 header is read at once
	u32 at = 14, end;
	if (load_near(skb, 12, first, 6) && load_bytes(skb, 12, type, 22) && load_bytes(skb, 12, type, 2))
		return CUT;
	u32 kind = big16(type);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (kind != VLAN && kind != QINQ)
			break;
		if (load_bytes(skb, at + 2, type, 22) && load_bytes(skb, at + 2, type, 2))
			return CUT;
		kind = big16(type);
		at += 4;
	}
	u32 next, length;
	if (kind == IPV4) {
		h = type + 2;
		u32 header = (h[0] & 15) * 4;
		if (h[0] >> 4 != 4 || header < 20)
			return CUT;
		if (big16(h + 6) & 0x1fff)
			return FRAGMENT;
		length = big16(h + 2);
		next = h[9];
		key->source[10] = key->source[11] = key->destination[10] = key->destination[11] = 0xff;
		for (int i = 0; i < 2; i++) {
			((u16 *)key->source)[6 + i] = ((u16 *)h)[6 + i];
			((u16 *)key->destination)[6 + i] = ((u16 *)h)[8 + i];
		}
		end = at + length;
		at += header;
		h = (u8 *)words;
	} else if (kind == IPV6) {
		if (load_bytes(skb, at, h, 40))
			return CUT;
		if (h[0] >> 4 != 6)
			return CUT;
		length = big16(h + 4);
		next = h[6];
		copy16(key->source, h + 8);
		copy16(key->destination, h + 24);
		at += 40;
		end = at + length;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			if (next != HOP && next != ROUTING && next != OPTIONS && next != AUTH && next != FRAGMENTED)
				break;
			if (load_bytes(skb, at, h, 4))
				return CUT;
			if (next == FRAGMENTED && big16(h + 2) >> 3)
				return FRAGMENT;
			at += next == FRAGMENTED ? 8 : next == AUTH ? (h[1] + 2) * 4 : (h[1] + 1) * 8;
			next = h[0];
		}
	} else {
		return OTHER;
	}
	// A length of 0 is that of a buffer of more than 64 KB; behind a shorter one there is padding.
	if (!length || end > skb->len)
		end = skb->len;
	if (next == TCP) {
		if (at == 34 ? load_near(skb, 34, words, 5) : load_bytes(skb, at, h, 20))
			return CUT;
		u32 header = (h[12] >> 4) * 4;
		if (header < 20)
			return CUT;
		segment->flags = h[13];
		segment->sequence = __builtin_bswap32(words[1]);
		segment->acknowledged = __builtin_bswap32(words[2]);
		at += header;
	} else if (next == UDP) {
		if (load_bytes(skb, at, h, 8))
			return CUT;
		at += 8;
	} else {
		return OTHER;
	}
	if (at > end)
		return CUT;
	key->source_port = big16(h);
	key->destination_port = big16(h + 2);
	key->interface = skb->ifindex;
	key->protocol = next;
	segment->payload = end - at;
	return 0;
}

// answered finds the flow that a packet from the other side acknowledges. It returns 0 where there is one.
inline_always int answered(struct __sk_buff *skb, struct key *key, struct segment *segment) {
	struct key from = {};
	if (parse(skb, &from, segment) || !(segment->flags & ACK))
		return -1;
	copy16(key->source, from.destination);
	copy16(key->destination, from.source);
	key->source_port = from.destination_port;
	key->destination_port = from.source_port;
	key->interface = from.interface;
	key->protocol = from.protocol;
	return 0;
}

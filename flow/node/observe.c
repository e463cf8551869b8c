//go:build ignore

// The program that counts flows. It reads packets and changes none: it calls no helper that stores to a packet,
// writes no field of its context, and always passes on to the next program.
//
// It needs no header, so that the same compiler makes the same bytes on every machine: types and helpers below are
// those of the kernel's linux/bpf.h.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
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

enum { HASH_PERCPU = 5, ARRAY_PERCPU = 6, HASH_LRU = 9, RING = 27 };
enum { TCX_NEXT = -1 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const now_ns)(void) = (void *)5;
static long (*const load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;
static long (*const ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;

// Set before the program is loaded.
volatile const u64 gap_ns = 1000000000ULL;
volatile const u64 step_bytes = 10000000ULL;

// Addresses of IPv4 are mapped into IPv6. Ports are in the order of the host.
struct key {
	u8 source[16], destination[16];
	u16 source_port, destination_port;
	u32 interface;
	u8 protocol, pad[3];
};

enum role { UNKNOWN, CLIENT, SERVER };

struct state {
	u64 bytes, packets; // of payload; packets that had some
	u64 first, last;    // when, since boot
	u64 told;           // bytes when the flow was last told of
	u8 role, closed, pad[6];
};

enum end { RUNNING, FINISHED, IDLE };

struct event {
	struct key key;
	u32 end;
	struct state state;
};

struct traffic {
	u64 packets;  // buffers, as the kernel hands them on
	u64 segments; // packets on the wire
};

enum counter { CREATED, OPENED, LOST, UNKEPT, OTHER, CUT, FRAGMENT, COUNTERS };

struct {
	uint(type, HASH_LRU);
	uint(max_entries, 65536);
	type(key, struct key);
	type(value, struct state);
} flows SEC(".maps");

struct {
	uint(type, RING);
	uint(max_entries, 1 << 20);
} events SEC(".maps");

struct {
	uint(type, ARRAY_PERCPU);
	uint(max_entries, COUNTERS);
	type(key, u32);
	type(value, u64);
} counters SEC(".maps");

// Interfaces that are watched; user space makes the entries.
struct {
	uint(type, HASH_PERCPU);
	uint(max_entries, 4096);
	type(key, u32);
	type(value, struct traffic);
} interfaces SEC(".maps");

// For the bindings.
const struct event *unused_event __attribute__((unused));
const enum counter *unused_counter __attribute__((unused));
const enum role *unused_role __attribute__((unused));
const enum end *unused_end __attribute__((unused));

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

// parse finds flow, payload and TCP flags of a packet. It returns 0, or the counter of why there is none.
inline_always int parse(struct __sk_buff *skb, struct key *key, u32 *payload, u8 *flags) {
	u8 h[40];
	u32 at = 14, end;
	if (load_bytes(skb, 12, h, 2))
		return CUT;
	u32 kind = big16(h);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (kind != VLAN && kind != QINQ)
			break;
		if (load_bytes(skb, at + 2, h, 2))
			return CUT;
		kind = big16(h);
		at += 4;
	}
	u32 next, length;
	if (kind == IPV4) {
		if (load_bytes(skb, at, h, 20))
			return CUT;
		u32 header = (h[0] & 15) * 4;
		if (h[0] >> 4 != 4 || header < 20)
			return CUT;
		if (big16(h + 6) & 0x1fff)
			return FRAGMENT;
		length = big16(h + 2);
		next = h[9];
		key->source[10] = key->source[11] = key->destination[10] = key->destination[11] = 0xff;
		for (int i = 0; i < 4; i++) {
			key->source[12 + i] = h[12 + i];
			key->destination[12 + i] = h[16 + i];
		}
		end = at + length;
		at += header;
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
		if (load_bytes(skb, at, h, 20))
			return CUT;
		u32 header = (h[12] >> 4) * 4;
		if (header < 20)
			return CUT;
		*flags = h[13];
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
	*payload = end - at;
	return 0;
}

// tell sends what is known of a flow to user space. A flow without payload is none.
inline_always void tell(const struct key *key, const struct state *s, u32 end) {
	if (!s->bytes)
		return;
	struct event e = {.key = *key, .end = end, .state = *s};
	if (ring_output(&events, &e, sizeof(e), 0))
		count(LOST);
}

SEC("tc")
int observe(struct __sk_buff *skb) {
	u32 interface = skb->ifindex;
	struct traffic *seen = map_lookup(&interfaces, &interface);
	if (seen) {
		u32 segments = skb->gso_segs;
		seen->packets += 1;
		seen->segments += segments ? segments : 1;
	}
	struct key key = {};
	u32 payload = 0;
	u8 flags = 0;
	int none = parse(skb, &key, &payload, &flags);
	if (none) {
		count(none);
		return TCX_NEXT;
	}
	u64 now = now_ns();
	struct state *s = map_lookup(&flows, &key);
	if (s && s->bytes && (flags & SYN || (payload && now - s->last > gap_ns))) {
		tell(&key, s, flags & SYN ? FINISHED : IDLE);
		s->bytes = s->packets = s->told = 0;
	}
	if (s && s->closed) {
		// What is sent again after the end is no flow. User space takes the entry off.
		if (!(flags & SYN))
			return TCX_NEXT;
		s->closed = 0;
	}
	if (!s) {
		if (!payload && !(flags & SYN))
			return TCX_NEXT;
		struct state fresh = {.first = now, .last = now};
		map_update(&flows, &key, &fresh, 0);
		s = map_lookup(&flows, &key);
		if (!s) {
			count(UNKEPT);
			return TCX_NEXT;
		}
		count(CREATED);
	}
	if (flags & SYN)
		s->role = flags & ACK ? SERVER : CLIENT;
	if (payload) {
		if (!s->bytes) {
			count(OPENED);
			s->first = now;
		}
		__sync_fetch_and_add(&s->bytes, payload);
		s->packets += 1;
		s->last = now;
		if (s->bytes - s->told >= step_bytes && !(flags & (FIN | RST))) {
			s->told = s->bytes;
			tell(&key, s, RUNNING);
		}
	}
	if (flags & (FIN | RST)) {
		tell(&key, s, FINISHED);
		s->bytes = s->packets = s->told = 0;
		s->last = now;
		s->closed = 1;
	}
	return TCX_NEXT;
}

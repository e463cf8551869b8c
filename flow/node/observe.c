//go:build ignore

// The program that counts flows. It reads packets and changes none: it calls no helper that stores to a packet,
// writes no field of its context, and always passes on to the next program.

#include "packet.h"

// Set before the program is loaded.
volatile const u64 step_bytes = 10000000ULL;

enum role { UNKNOWN, CLIENT, SERVER };

struct state {
	u64 bytes, packets; // of payload; packets that had some
	u64 first, last;    // when, since boot
	u64 told;           // bytes when the flow was last told of
	u8 role, closed, pad[6];
	struct tail tail;
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
	struct segment segment = {};
	int none = parse(skb, &key, &segment);
	if (none) {
		count(none);
		return TCX_NEXT;
	}
	u32 payload = segment.payload;
	u8 flags = segment.flags;
	u64 now = now_ns();
	struct state *s = map_lookup(&flows, &key);
	if (s && s->bytes && (flags & SYN || (payload && over(&s->tail, s->last, now)))) {
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
		start(&fresh.tail, &segment);
		if (!map_update(&flows, &key, &fresh, NOEXIST))
			count(CREATED);
		s = map_lookup(&flows, &key);
		if (!s) {
			count(UNKEPT);
			return TCX_NEXT;
		}
	}
	if (flags & SYN) {
		s->role = flags & ACK ? SERVER : CLIENT;
		start(&s->tail, &segment);
	}
	if (payload) {
		if (!s->bytes) {
			count(OPENED);
			s->first = now;
		}
		__sync_fetch_and_add(&s->bytes, payload);
		s->packets += 1;
		s->last = now;
		extend(&s->tail, &segment);
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

// acknowledged takes the acknowledgements of flows, on the way to their senders.
SEC("tc")
int acknowledged(struct __sk_buff *skb) {
	struct key key = {};
	struct segment segment = {};
	if (answered(skb, &key, &segment))
		return TCX_NEXT;
	struct state *s = map_lookup(&flows, &key);
	if (s)
		acknowledge(&s->tail, &segment, now_ns());
	return TCX_NEXT;
}

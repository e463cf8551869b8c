//go:build ignore

// The program that orders flows, at the uplink on the way out: it says in each packet's priority which class of the
// queueing discipline behind it shall send it. It changes nothing in the packet, and passes on to the next program.

#include "packet.h"

enum { MOST_BANDS = 8, NO_PREALLOC = 1 };

// Set before the program is loaded.
volatile const u64 gap_ns = 1000000000ULL;

// One value, so that a packet sees all of an update or nothing of it.
struct bands {
	u64 sequence;
	u64 id;      // of this update, unlike any other's
	u64 network; // cookie of the namespace of the interface
	u32 queue;   // the interface's length of a queue, before
	u32 count;
	u32 first;                 // class of the first band; those of the others follow
	u32 pad;
	u64 above[MOST_BANDS - 1]; // a flow that has sent so many bytes is in the next band
};

struct progress {
	u64 bytes; // of payload
	u64 last;  // since boot
};

struct load {
	u64 packets; // buffers, as the kernel hands them on
	u64 bytes;   // headers included
};

struct {
	uint(type, HASH);
	uint(max_entries, 1);
	uint(map_flags, NO_PREALLOC); // a value that a packet still reads is not written over
	type(key, u32);
	type(value, struct bands);
} settings SEC(".maps");

struct {
	uint(type, HASH_LRU);
	uint(max_entries, 65536);
	type(key, struct key);
	type(value, struct progress);
} flows SEC(".maps");

struct {
	uint(type, ARRAY_PERCPU);
	uint(max_entries, MOST_BANDS);
	type(key, u32);
	type(value, struct load);
} sent SEC(".maps");

const enum counter *unused_counter __attribute__((unused));

SEC("tc")
int order(struct __sk_buff *skb) {
	u32 zero = 0;
	struct bands *set = map_lookup(&settings, &zero);
	if (!set)
		return TCX_NEXT;
	struct key key = {};
	u32 payload = 0;
	u8 flags = 0;
	u32 band = 0;
	int none = parse(skb, &key, &payload, &flags);
	if (none) {
		// What belongs to no flow is small, most often, and never goes behind the longest flows.
		count(none);
		band = (set->count - 1) / 2;
	} else {
		u64 now = now_ns(), bytes = 0;
		// Another processor may have stored a later time meanwhile: the difference has a sign.
		struct progress *p = map_lookup(&flows, &key);
		if (p && (flags & SYN || (payload && (s64)(now - p->last) > (s64)gap_ns)))
			p->bytes = 0;
		if (p) {
			bytes = p->bytes;
			if (payload) {
				__sync_fetch_and_add(&p->bytes, payload);
				p->last = now;
			}
		} else if (payload) {
			struct progress fresh = {.bytes = payload, .last = now};
			if (map_update(&flows, &key, &fresh, 0))
				count(UNKEPT);
			else
				count(OPENED);
		}
#pragma unroll
		for (u32 i = 0; i < MOST_BANDS - 1; i++)
			if (i + 1 < set->count && bytes >= set->above[i])
				band = i + 1;
	}
	struct load *s = map_lookup(&sent, &band);
	if (s) {
		s->packets += 1;
		s->bytes += skb->len;
	}
	skb->priority = set->first + band;
	return TCX_NEXT;
}

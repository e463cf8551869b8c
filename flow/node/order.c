//go:build ignore

// The programs that order flows, at the uplink on the way out: they say in each packet's priority which class of the
// queueing discipline behind them shall send it, and pass on to the next program. The one that is called order changes nothing
// in the packet, and has no helper that could; the one that is called mark also writes a DSCP where the packet has none.
// A flow whose size was declared goes, after the first band, to the deeper of two: that of its bytes and that of its size.
// Where there is a scope, flows from other addresses are in no band by bytes.

#include "packet.h"

enum { MOST_BANDS = 8, NO_PREALLOC = 1, SETTINGS = 64 }; // less than 256: one byte of current changes

// Set before the program is loaded.
volatile const u64 tick_ns = 1000000ULL; // between two ticks of the kernel

// A packet sees all of an update or nothing of it: it looks up one value.
struct bands {
	u64 sequence;
	u64 id;      // of this update, unlike any other's
	u64 network; // cookie of the namespace of the interface
	u32 queue;   // the interface's length of a queue, before
	u32 count;
	u32 first;                 // class of the first band; those of the others follow
	u32 pad;
	u64 above[MOST_BANDS - 1]; // a flow that has sent so many bytes is in the next band
	u64 hints; // number of this state of the map of hints, unlike any other's; 0 = none count
	u64 scoped; // whether only flows from the addresses of the map of scope are in bands by bytes
	u8 dscp[MOST_BANDS]; // that mark writes into packets of flows, by band; 0 = none
};

struct progress {
	u64 bytes; // of payload
	u64 last;  // by the kernel's ticks
	u64 hint;  // size in bytes that was declared of it, 0 = none
	u64 asked; // the state of the map of hints that said so
	struct tail tail;
};

// A port of either side, behind the address that sends.
struct place {
	u8 source[16];
	u16 port, pad;
};

struct address {
	u8 source[16];
};

struct load {
	u64 packets; // buffers, as the kernel hands them on
	u64 bytes;   // headers included
};

// Current says which settings are in force. User space writes an update over those of SETTINGS updates ago, which no packet reads
// any more, and current after it. A look-up in an array is no call: one in a hash map takes a fifth of the program's time.
struct {
	uint(type, ARRAY);
	uint(max_entries, SETTINGS);
	type(key, u32);
	type(value, struct bands);
} settings SEC(".maps");

struct {
	uint(type, ARRAY);
	uint(max_entries, 1);
	type(key, u32);
	type(value, u32);
} current SEC(".maps");

struct {
	uint(type, HASH_LRU);
	uint(max_entries, 65536);
	type(key, struct key);
	type(value, struct progress);
} flows SEC(".maps");

// Sizes in bytes that were declared; user space makes the entries.
struct {
	uint(type, HASH);
	uint(max_entries, 16384);
	uint(map_flags, NO_PREALLOC);
	type(key, struct place);
	type(value, u64);
} hints SEC(".maps");

// Addresses that send flows which are in bands by bytes; user space makes the entries.
struct {
	uint(type, HASH);
	uint(max_entries, 4096);
	uint(map_flags, NO_PREALLOC);
	type(key, struct address);
	type(value, u32);
} scope SEC(".maps");

struct {
	uint(type, ARRAY_PERCPU);
	uint(max_entries, MOST_BANDS);
	type(key, u32);
	type(value, struct load);
} sent SEC(".maps");

const enum counter *unused_counter __attribute__((unused));

// hinted is the size that was declared of a flow, or 0: that of its sender's port comes before that of the other side's.
inline_always u64 hinted(const struct key *key) {
	struct place at = {.port = key->source_port};
	copy16(at.source, key->source);
	u64 *size = map_lookup(&hints, &at);
	if (!size) {
		at.port = key->destination_port;
		size = map_lookup(&hints, &at);
	}
	if (!size || !*size)
		return 0;
	count(HINTED);
	return *size;
}

// put orders a packet, and returns the DSCP of its band, 0 where it has none.
inline_always u8 put(struct __sk_buff *skb) {
	u32 zero = 0, *at = map_lookup(&current, &zero);
	struct bands *set = at ? map_lookup(&settings, at) : 0;
	if (!set || !set->count)
		return 0;
	struct key key = {};
	struct segment segment = {};
	u32 band = 0;
	u8 dscp = 0;
	int none = parse(skb, &key, &segment);
	if (!none && set->scoped && !map_lookup(&scope, key.source))
		none = OUTSIDE;
	if (none) {
		// What belongs to no flow is small, most often, and never goes behind the longest flows.
		count(none);
		band = (set->count - 1) / 2;
	} else {
		u64 now = ticks() * tick_ns, bytes = 0;
		dscp = set->dscp[0];
		struct progress *p = map_lookup(&flows, &key);
		u32 payload = segment.payload;
		if (p && segment.flags & SYN) {
			p->bytes = 0;
			start(&p->tail, &segment);
		} else if (p && payload && over(&p->tail, p->last, now)) {
			p->bytes = 0;
		}
		if (p) {
			bytes = p->bytes;
			if (payload) {
				__sync_fetch_and_add(&p->bytes, payload);
				p->last = now;
				extend(&p->tail, &segment);
			}
		} else if (payload) {
			struct progress fresh = {.bytes = payload, .last = now};
			start(&fresh.tail, &segment);
			extend(&fresh.tail, &segment);
			if (!map_update(&flows, &key, &fresh, NOEXIST))
				count(OPENED);
			else if ((p = map_lookup(&flows, &key))) // another processor has opened it meanwhile
				__sync_fetch_and_add(&p->bytes, payload);
			else
				count(UNKEPT);
		}
		if (p && set->hints && bytes >= set->above[0]) {
			if (p->asked != set->hints) {
				p->hint = hinted(&key);
				p->asked = set->hints;
			}
			// The last byte of so large a flow comes after hint - 1 others.
			if (p->hint > bytes)
				bytes = p->hint - 1;
		}
#pragma unroll
		for (u32 i = 0; i < MOST_BANDS - 1; i++) {
			if (i + 1 >= set->count || bytes < set->above[i])
				break;
			band = i + 1;
			dscp = set->dscp[i + 1]; // here at a constant: without CAP_PERFMON the verifier takes no other
		}
	}
	struct load *s = map_lookup(&sent, &band);
	if (s) {
		s->packets += 1;
		s->bytes += skb->len;
	}
	skb->priority = set->first + band;
	return dscp;
}

SEC("tc")
int order(struct __sk_buff *skb) {
	put(skb);
	return TCX_NEXT;
}

// acknowledged takes the acknowledgements of flows, on the way in.
SEC("tc")
int acknowledged(struct __sk_buff *skb) {
	struct key key = {};
	struct segment segment = {};
	if (answered(skb, &key, &segment))
		return TCX_NEXT;
	struct progress *p = map_lookup(&flows, &key);
	if (p)
		acknowledge(&p->tail, &segment, ticks() * tick_ns);
	return TCX_NEXT;
}

static long (*const store_bytes)(void *skb, u32 offset, const void *from, u32 len, u64 flags) = (void *)9;
static long (*const replace_checksum)(void *skb, u32 offset, u64 from, u64 to, u64 size) = (void *)10; // of an IPv4 header

enum { RECOMPUTE = 1 }; // the checksum of the whole packet, where the kernel has one

// write_dscp writes a DSCP into a packet of a flow that has none. Its ECN stays.
inline_always void write_dscp(struct __sk_buff *skb, u8 dscp) {
	u16 was, is; // the first 16 bits of the header: those of IPv6 have 4 bits of the flow label at their end
	u8 *from = (u8 *)&was, *to = (u8 *)&is, type[2];
	u32 at = 12;
	if (load_bytes(skb, at, type, 2))
		return;
#pragma unroll
	for (int i = 0; i < 2; i++) {
		u32 kind = big16(type);
		if (kind != VLAN && kind != QINQ)
			break;
		at += 4;
		if (load_bytes(skb, at, type, 2))
			return;
	}
	at += 2;
	if (load_bytes(skb, at, from, 2))
		return;
	is = was;
	if (big16(type) == IPV4) {
		if (from[1] >> 2)
			return;
		to[1] |= dscp << 2;
		// The checksum is behind the DSCP: once it could be written, that can be too.
		if (replace_checksum(skb, at + 10, was, is, 2) || store_bytes(skb, at, to, 2, 0))
			return;
	} else {
		if ((from[0] & 15) || from[1] >> 6)
			return;
		to[0] |= dscp >> 2;
		to[1] |= dscp << 6;
		if (store_bytes(skb, at, to, 2, RECOMPUTE))
			return;
	}
	count(MARKED);
}

SEC("tc")
int mark(struct __sk_buff *skb) {
	u8 dscp = put(skb);
	if (dscp)
		write_dscp(skb, dscp);
	return TCX_NEXT;
}

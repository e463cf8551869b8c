package trace

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Order returns the events in the i-th order of arrival. Order 0 is the file's and
// shares its slice; the caller must not change it. For i ≥ 1 the create requests
// are shuffled by rand.New(rand.NewPCG(seed, i)).Shuffle: a request arrives at the
// time of the slot it lands in and its deletes keep their delay after it; deletes
// of initial requests stay where they are. At equal times deletes are first, then
// the order of slots, then the file's; only a delete without delay still follows
// its own create.
func (t *Trace) Order(seed uint64, i int) []Event {
	if i < 0 {
		panic(fmt.Sprintf("trace: order %d", i))
	}
	if i == 0 {
		return t.Events
	}
	return t.shuffled(rand.New(rand.NewPCG(seed, uint64(i))))
}

func (t *Trace) shuffled(rng *rand.Rand) []Event {
	creates := 0
	for _, e := range t.Events {
		if e.Kind == Create {
			creates++
		}
	}
	// Until the merge the first part of out holds the times of the slots, the
	// last part the deletes.
	out := make([]Event, len(t.Events))
	slots, deletes := out[:creates], out[creates:]
	landed := make([]int32, creates)         // the request in each slot
	slotOf := make([]int32, len(t.Requests)) // its inverse; -1 for initial requests
	for i := range t.Initial {
		slotOf[i] = -1
	}
	slot, waiting := 0, 0
	for _, e := range t.Events {
		if e.Kind == Create {
			slots[slot].Time, landed[slot], slotOf[e.Request] = e.Time, e.Request, int32(slot)
			slot++
			continue
		}
		if s := slotOf[e.Request]; s >= 0 {
			e.Time -= slots[s].Time // the delay
		}
		deletes[waiting] = e
		waiting++
	}
	rng.Shuffle(creates, func(i, j int) { landed[i], landed[j] = landed[j], landed[i] })
	for s, request := range landed {
		slotOf[request] = int32(s)
	}
	for i := range deletes {
		if s := slotOf[deletes[i].Request]; s >= 0 {
			deletes[i].Time += slots[s].Time
		}
	}
	// Where time and slot are equal, as for deletes of initial requests, the file's order stays. Keys are faster than a stable sort.
	type key struct {
		time     float64
		slot, at int32
	}
	keys := make([]key, len(deletes))
	for i, d := range deletes {
		keys[i] = key{d.Time, slotOf[d.Request], int32(i)}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.time != b.time {
			return cmp.Compare(a.time, b.time)
		}
		return cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(a.at, b.at))
	})
	sorted := make([]Event, len(deletes))
	for i, k := range keys {
		sorted[i] = deletes[k.at]
	}
	out, slot = out[:0], 0
	for _, e := range t.Events {
		if e.Kind != Create {
			continue
		}
		for len(sorted) > 0 {
			d := sorted[0]
			// An equal time and a slot not yet reached: a delete without delay.
			if d.Time > e.Time || d.Time == e.Time && int(slotOf[d.Request]) >= slot {
				break
			}
			out, sorted = append(out, d), sorted[1:]
		}
		request := landed[slot]
		out = append(out, Event{e.Time, Create, request, t.Requests[request].Count})
		slot++
	}
	return append(out, sorted...)
}

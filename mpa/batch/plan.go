package batch

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/internal/usage"
)

// Settings of the part.
type Settings struct {
	// Grace is how long batch pods may hold more than is offered, Starving how long online pods may leave
	// less than [usage.BatchDelivered] of that which they hold. Then the youngest are evicted.
	Grace, Starving time.Duration
	// Stale is the age from which the use of a node is unknown: nothing is offered then, and nobody evicted.
	Stale time.Duration
	// Growth is the most by which an offer grows, as a share of the node an hour.
	Growth float64
}

// Held is a batch pod that is bound to a node.
type Held struct {
	Namespace, Name string
	CPU             float64 // cores, by its request of [CPU]
	Memory          int64   // bytes, by its request of [Memory]
	Uses            int64   // bytes of memory; 0 = unknown
	Priority        int32
	Begun           time.Time
}

// Seen are the facts about a node at a time.
type Seen struct {
	Now       time.Time
	Capacity  float64   // allocatable cores
	Memory    int64     // allocatable bytes
	Used      float64   // cores, by online pods
	UsedAt    time.Time // of that; zero = unknown
	Expected  func(at float64) float64
	Requested int64 // memory of online pods in bytes, the larger of their requests and their use
	Held      []Held
}

// A Decision is about one node.
type Decision struct {
	CPU    int64 // thousandths of a core to offer, with those that are held
	Memory int64 // bytes
	Evict  []Held
	Why    string // no cpu is offered, or pods are evicted; empty = neither
}

// A Node is the memory of one. Its zero value offers nothing yet.
type Node struct {
	offer    usage.Offer
	last     time.Time
	above    since // more is held than offered
	starving since
}

// since is the time from which on something holds.
type since struct{ at time.Time }

// lasts reports for how long a condition has held, given whether it holds now. A clock that was set back
// begins anew.
func (s *since) lasts(now time.Time, holds bool) time.Duration {
	if !holds || s.at.After(now) {
		s.at = time.Time{}
	}
	if !holds {
		return -1
	}
	if s.at.IsZero() {
		s.at = now
	}
	return now.Sub(s.at)
}

// Resume begins with the cores that a node offers already, by its status.
func (n *Node) Resume(cores float64, now time.Time) { n.offer.Resume(cores, seconds(now)) }

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Decide returns the offer of a node, and the batch pods that have to leave.
func (n *Node) Decide(s Settings, in Seen) (d Decision) {
	if age := in.Now.Sub(in.UsedAt); in.UsedAt.IsZero() || age > s.Stale || age < -s.Stale {
		n.above, n.starving = since{}, since{}
		return Decision{Why: "the use of its pods is not known"}
	}
	if in.Now.Before(n.last) { // a clock that was ahead must not stop the growth
		n.Resume(n.offer.Cores, in.Now)
	}
	n.offer.Growth, n.last = s.Growth, in.Now
	cores := n.offer.Update(seconds(in.Now), in.Capacity, in.Used, usage.Expected(seconds(in.Now), in.Expected))
	d.CPU, d.Memory = int64(1000*cores), max(0, in.Memory-in.Requested)
	var held []Held
	cpu, memory := 0., int64(0)
	for _, h := range in.Held {
		if h.Memory > 0 && h.Uses > h.Memory {
			d.Evict, d.Why = append(d.Evict, h), "batch pods use more memory than they request"
			continue
		}
		held, cpu, memory = append(held, h), cpu+h.CPU, memory+h.Memory
	}
	left := max(0, in.Capacity-in.Used)
	above := n.above.lasts(in.Now, cpu > cores+1e-9 || memory > d.Memory)
	starving := n.starving.lasts(in.Now, left < usage.BatchDelivered*cpu-1e-9)
	most, bytes := math.Inf(1), int64(math.MaxInt64)
	if starving >= s.Starving {
		most, d.Why = left/usage.BatchDelivered, "online pods leave too little cpu"
	}
	if above >= s.Grace {
		most, bytes, d.Why = min(most, cores), d.Memory, "batch pods hold more than is left, for longer than the grace"
	}
	d.Evict = append(d.Evict, victims(held, most, bytes)...)
	return d
}

// victims are the pods that leave until the others hold no more than some cores and bytes: the lowest
// priority first, then the youngest.
func victims(held []Held, cores float64, bytes int64) (out []Held) {
	held = slices.Clone(held)
	slices.SortStableFunc(held, func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Begun.Compare(a.Begun), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	cpu, memory := 0., int64(0)
	for _, h := range held {
		cpu, memory = cpu+h.CPU, memory+h.Memory
	}
	for _, h := range held {
		helps := cpu > cores+1e-9 && h.CPU > 0 || memory > bytes && h.Memory > 0
		if helps {
			cpu, memory, out = cpu-h.CPU, memory-h.Memory, append(out, h)
		}
	}
	return out
}

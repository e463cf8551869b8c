package central

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
)

const (
	// heard is how long a node counts that was not heard of: its agent writes each minute.
	heard = 3 * time.Minute
	// ahead is how far a node's clock may be ahead.
	ahead = time.Minute
	// mostBits per second is more than any uplink sends.
	mostBits = 1e13
	// drawn is the most flows that one search adds to a window.
	drawn = flow.WindowSizes / 3
)

// A Verdict is the result of checking a node's sketch.
type Verdict string

// The verdicts.
const (
	Taken     Verdict = "taken"
	Replayed  Verdict = "replayed"  // its number is not above that of one before
	Future    Verdict = "future"    // it ends in the future
	Old       Verdict = "old"       // it was written long ago, by an agent that no longer runs
	Malformed Verdict = "malformed" // it has numbers that make no sense
	Orphaned  Verdict = "orphaned"  // of a node without a policy
)

// A Central decides for all policies. One goroutine at a time uses it.
type Central struct {
	Every    time.Duration // between searches for a policy's thresholds
	Tuner    flow.Tuner
	Verdicts map[Verdict]int // how often; made where it is nil

	learners map[types.UID]*learner // by policy
	seen     map[types.UID]said     // by NodeFlows
}

type said struct {
	version string
	written time.Time // by the node's clock
	at      time.Time // when it was seen
	looked  int64     // number of the sketch that was looked at last
	taken   int64     // number of the one that was taken last
}

// A learner is the state of a policy's flows.
type learner struct {
	window  flow.Window
	decider flow.Decider
	wanted  flow.Thresholds
	most    int64 // sequence number that a node has taken
	bands   int32
	search  string
	last    time.Time // of a search
	rounds  uint64

	pending flow.Sketch // since then
	load    float64     // sum of loads weighted by bits
	bits    float64     // sum of the weights
	loads   int         // number of loads reported
}

// Step takes the sketches of nodes since the last step, and returns the policies whose status changes, with the new
// status. An error of one policy does not stop the others.
func (c *Central) Step(now time.Time, policies []*v1alpha1.FlowPolicy, nodes []*v1alpha1.NodeFlows) ([]*v1alpha1.FlowPolicy, error) {
	if c.Verdicts == nil {
		c.Verdicts = map[Verdict]int{}
	}
	learners := map[types.UID]*learner{}
	for _, p := range policies {
		l := c.learners[p.UID]
		if l == nil {
			l = &learner{last: now}
		}
		l.most = taken(p, nodes)
		if l.bands != p.Spec.Bands {
			l.bands, l.wanted = p.Spec.Bands, nil
			s := flow.Thresholds(p.Status.Thresholds)
			if p.Status.Sequence != l.most {
				if a := agreed(p, nodes); a != nil {
					s = a
				}
			}
			if s.ValidateFor(int(l.bands)) == nil {
				l.wanted = slices.Clone(s)
			}
			l.decider.Bands, l.decider.Tuner, l.decider.Present, l.decider.Least = int(l.bands), c.Tuner, l.wanted, flow.LeastThreshold
		}
		learners[p.UID] = l
	}
	c.learners = learners
	c.listen(now, policies, nodes)
	var changed []*v1alpha1.FlowPolicy
	var errs []error
	for _, p := range policies {
		l := c.learners[p.UID]
		if err := l.decide(now, c.Every, p); err != nil {
			errs = append(errs, fmt.Errorf("FlowPolicy %s: %w", p.Name, err))
		}
		n := p.DeepCopy()
		l.write(&n.Status, p)
		c.judge(now, n, nodes)
		if !equality.Semantic.DeepEqual(p.Status, n.Status) {
			changed = append(changed, n)
		}
	}
	return changed, errors.Join(errs...)
}

// listen adds the new sketches of nodes to the pending ones of their policies.
func (c *Central) listen(now time.Time, policies []*v1alpha1.FlowPolicy, nodes []*v1alpha1.NodeFlows) {
	rates := map[types.UID]float64{}
	for _, p := range policies {
		if p.Spec.Rate != nil {
			rates[p.UID] = p.Spec.Rate.AsApproximateFloat64()
		}
	}
	seen := map[types.UID]said{}
	for _, n := range nodes {
		before, known := c.seen[n.UID]
		is := before
		is.version, is.written = n.ResourceVersion, n.Status.At.Time
		switch {
		case !known && is.written.Before(now): // this central has just begun
			is.at = is.written
		case !known || !is.written.Equal(before.written):
			is.at = now // regardless of the node's clock
		}
		if t := n.Status.Traffic; t != nil && n.ResourceVersion != before.version && t.Number != before.looked {
			v := c.verdict(now, n, before.taken)
			c.Verdicts[v]++
			if v != Replayed {
				is.looked = t.Number
			}
			if v == Taken {
				is.taken = t.Number
				c.learners[n.Status.PolicyUID].take(t, rates[n.Status.PolicyUID])
			}
		}
		seen[n.UID] = is
	}
	c.seen = seen
}

func (c *Central) verdict(now time.Time, n *v1alpha1.NodeFlows, last int64) Verdict {
	t := n.Status.Traffic
	s := flow.Sketch{First: int(t.First), Counts: t.Counts}
	switch {
	case t.Number <= last:
		return Replayed
	case t.Until.Sub(now) > ahead:
		return Future
	case now.Sub(t.Until.Time) > heard:
		return Old
	case s.Validate() != nil || t.Bytes < 0 || !(t.BitsPerSecond >= 0 && t.BitsPerSecond <= mostBits) || t.Load != nil && !(*t.Load >= 0 && !math.IsInf(*t.Load, 0)):
		return Malformed
	case c.learners[n.Status.PolicyUID] == nil:
		return Orphaned
	}
	return Taken
}

// take adds the traffic of a node. The rate is that of the policy, or 0.
func (l *learner) take(t *v1alpha1.NodeTraffic, rate float64) {
	l.pending.Merge(flow.Sketch{First: int(t.First), Counts: t.Counts})
	load := math.NaN()
	switch {
	case rate > 0:
		load = t.BitsPerSecond / rate
	case t.Load != nil:
		load = *t.Load
	}
	if load >= 0 {
		l.load += min(load, 1) * t.BitsPerSecond
		l.bits += t.BitsPerSecond
		l.loads++
	}
}

// decide searches for thresholds where it is time for that.
func (l *learner) decide(now time.Time, every time.Duration, p *v1alpha1.FlowPolicy) error {
	switch {
	case p.Spec.Mode == v1alpha1.Disabled:
		l.search = ""
		l.begin(now)
		return nil
	case len(p.Spec.Thresholds) > 0:
		l.search, l.wanted = "the spec has thresholds", slices.Clone(p.Spec.Thresholds)
		l.decider.Present = l.wanted
		l.begin(now)
		return nil
	case now.Sub(l.last) < every:
		return nil
	}
	l.rounds++
	for _, size := range l.pending.Draw(drawn, rand.New(rand.NewPCG(seed(p.UID), l.rounds))) {
		if _, err := l.window.Add(size); err != nil {
			l.begin(now)
			return err
		}
	}
	load, loads := l.load/l.bits, l.loads
	l.begin(now)
	switch {
	case loads == 0:
		l.search = "no node has said the load of its uplink"
		return nil
	case math.IsNaN(load):
		l.search = "the uplinks of the nodes have sent nothing"
		return nil
	}
	d, err := l.decider.Decide(now, &l.window, load)
	if err != nil {
		return err
	}
	l.search = d.Reason
	if !d.Hold {
		l.wanted = d.Thresholds
	}
	return nil
}

// begin begins the time until the next search, for which nothing is pending yet.
func (l *learner) begin(now time.Time) {
	l.last, l.pending, l.load, l.bits, l.loads = now, flow.Sketch{}, 0, 0, 0
}

func seed(uid types.UID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // never fails
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// taken is the sequence number to continue from. It is above that of the status if a node has a larger one: somebody
// has written an older status, or the policy has been restored from a copy. It is below it if no node can have that
// one: agents refuse numbers far ahead.
func taken(p *v1alpha1.FlowPolicy, nodes []*v1alpha1.NodeFlows) int64 {
	most, last := p.Status.Sequence, int64(0)
	for _, n := range nodes {
		if s := &n.Status; s.PolicyUID == p.UID {
			last = max(last, s.Sequence)
			if s.Sequence > most && s.Sequence-p.Status.Sequence <= v1alpha1.FarAhead/2 { // further, agents that lag behind would refuse the next
				most = s.Sequence
			}
		}
	}
	if most-last > v1alpha1.FarAhead {
		most = last
	}
	return most
}

// agreed are the thresholds that more than half of a policy's nodes have under other numbers than that of the status, or nil.
// One node's word is that of one node.
func agreed(p *v1alpha1.FlowPolicy, nodes []*v1alpha1.NodeFlows) flow.Thresholds {
	following := 0
	votes := map[string]int{}
	for _, n := range nodes {
		if n.Status.PolicyUID == p.UID {
			following++
			if n.Status.Sequence != p.Status.Sequence {
				votes[fmt.Sprint(n.Status.Thresholds)]++
			}
		}
	}
	for _, n := range nodes {
		if t := flow.Thresholds(n.Status.Thresholds); n.Status.PolicyUID == p.UID && 2*votes[fmt.Sprint(n.Status.Thresholds)] > following && t.ValidateFor(int(p.Spec.Bands)) == nil {
			return t
		}
	}
	return nil
}

// write writes the thresholds. A change has the next sequence number, which is above that of any node.
func (l *learner) write(s *v1alpha1.FlowPolicyStatus, p *v1alpha1.FlowPolicy) {
	s.ObservedGeneration = p.Generation
	s.Search = l.search
	if !l.wanted.Equal(s.Thresholds) || s.Sequence != l.most {
		s.Thresholds = slices.Clone(l.wanted)
		s.Sequence = l.most + 1
	}
}

// following are the nodes that follow a policy, by name: those that have been heard of, and the silent ones.
func (c *Central) following(now time.Time, p *v1alpha1.FlowPolicy, nodes []*v1alpha1.NodeFlows) (list, silent []*v1alpha1.NodeFlows) {
	for _, n := range nodes {
		switch {
		case n.Status.PolicyUID != p.UID:
		case now.Sub(c.seen[n.UID].at) <= heard:
			list = append(list, n)
		default:
			silent = append(silent, n)
		}
	}
	for _, l := range [][]*v1alpha1.NodeFlows{list, silent} {
		slices.SortFunc(l, func(a, b *v1alpha1.NodeFlows) int { return cmp.Compare(a.Name, b.Name) })
	}
	return list, silent
}

package planned

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
	"slices"
	"sync"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/plan"
)

const (
	planSeed       = 1  // of every plan: the same facts give the same plan
	maxPlans       = 64 // kept by a policy
	defaultReserve = 10
)

// A Policy follows a packing of everything, computed beforehand from the true number
// of items per app: an item is placed where the plan has a place for it. With a
// complete plan the number of machines is the plan's in every order of arrival. An
// item that is not in the plan is placed where it breaks no reservation, if
// necessary to a machine of its own; Best Fit decides among equals. The plan is made
// on the first call of a scorer, around the items placed by then, and again when the
// totals change. Best Fit decides alone when totals are unknown, when items take
// shares of devices, and once items leave.
//
// Its parameters are steps, slack and reserve.
type Policy struct {
	steps          int
	slack, reserve float64

	mu    sync.Mutex
	plans map[factsKey]*entry
	keys  []factsKey // oldest first
}

// factsKey is a digest of all inputs of a plan: instance, future items and placed
// ones. Equal facts share a plan across replays.
type factsKey [sha256.Size]byte

// entry is computed once, on first use.
type entry struct {
	once sync.Once
	plan *lookup
}

func build(spec learned.Spec) (binpack.Policy, error) {
	p := &Policy{
		steps: int(math.Round(spec.Parameters["steps"])), slack: spec.Parameters["slack"],
		reserve: defaultReserve, plans: map[factsKey]*entry{},
	}
	if v, ok := spec.Parameters["reserve"]; ok {
		p.reserve = v
	}
	return p, nil
}

// Knowledge implements [binpack.Policy].
func (p *Policy) Knowledge() binpack.Knowledge { return binpack.K2 }

// Scorer implements [binpack.Policy].
func (p *Policy) Scorer(s *binpack.State) binpack.Scorer { return newScorer(p, s) }

// planFor returns the plan of the placed and the future items of a state. Scorers
// on equal states get the same plan. It is nil if there can be no plan.
func (p *Policy) planFor(s *binpack.State) *lookup {
	inst := s.Instance()
	items := make([]int64, len(inst.Apps))
	for a, n := range s.Known.Total {
		items[a] = max(0, n-s.Alive()[a])
	}
	if takesShares(inst, items) {
		return nil // a place would have to reserve devices as well
	}
	standing := standingOf(s)
	key := factsOf(inst, items, standing)
	p.mu.Lock()
	e := p.plans[key]
	if e == nil {
		if len(p.keys) == maxPlans {
			delete(p.plans, p.keys[0])
			p.keys = slices.Delete(p.keys, 0, 1)
		}
		e = &entry{}
		p.plans[key] = e
		p.keys = append(p.keys, key)
	}
	p.mu.Unlock()
	e.once.Do(func() { e.plan = p.make(inst, items, standing) })
	return e.plan
}

func (p *Policy) make(inst *binpack.Instance, items []int64, standing []plan.Machine) *lookup {
	opt := plan.Options{Seed: planSeed, Steps: p.steps, Standing: standing}
	if p.slack > 0 {
		all := slices.Clone(items)
		for _, m := range standing {
			for _, e := range m.Items {
				all[e.App] += int64(e.Count)
			}
		}
		opt.Machines = int(math.Ceil((1+p.slack)*float64(bound.Volume(inst, all).Machines) - 1e-9))
	}
	return compilePlan(inst, plan.Pack(context.Background(), inst, items, opt), standing)
}

// takesShares reports whether some item takes a share of a device.
func takesShares(inst *binpack.Instance, items []int64) bool {
	for a, n := range items {
		for d, dim := range inst.Dimensions {
			if dim.Device && n > 0 && inst.Apps[a].Demand[d]%dim.One != 0 {
				return true
			}
		}
	}
	return false
}

// standingOf lists the machines that hold something, by position.
func standingOf(s *binpack.State) []plan.Machine {
	var out []plan.Machine
	for m := range int32(s.Size()) {
		if s.Items(m) == 0 {
			continue
		}
		line, index := s.Position(m)
		pm := plan.Machine{Kind: s.KindOf(m), Line: line, Index: index, Items: slices.Clone(s.Contents(m))}
		slices.SortFunc(pm.Items, func(a, b binpack.Entry) int { return int(a.App - b.App) })
		out = append(out, pm)
	}
	slices.SortFunc(out, func(a, b plan.Machine) int {
		if a.Line != b.Line {
			return int(a.Line - b.Line)
		}
		return int(a.Index - b.Index)
	})
	return out
}

func factsOf(inst *binpack.Instance, items []int64, standing []plan.Machine) factsKey {
	f := facts{sha256.New(), nil}
	f.add(int64(len(inst.Dimensions)), int64(len(inst.Machines)), int64(len(inst.Groups)), int64(len(inst.Apps)), int64(len(inst.Rules)), int64(len(inst.ZoneRules)))
	for _, d := range inst.Dimensions {
		if d.Device {
			f.add(d.One)
		} else {
			f.add(0)
		}
	}
	for _, m := range inst.Machines {
		f.add(int64(m.Type), int64(m.Count), int64(math.Float64bits(m.Cost)), int64(len(m.Zone)))
		f.Write([]byte(m.Zone))
		f.add(m.Capacity...)
	}
	for _, g := range inst.Groups {
		f.add(int64(g.Limit), int64(g.SpreadMin), int64(g.Zone.Limit), int64(g.Zone.SpreadMin), int64(g.Zone.Skew))
	}
	for a, app := range inst.Apps {
		f.add(int64(app.Group), items[a])
		f.add(app.Demand...)
		if app.Types == nil {
			f.add(-1)
			continue
		}
		f.add(int64(len(app.Types)))
		for _, typ := range app.Types {
			f.add(int64(typ))
		}
	}
	for _, r := range inst.Rules {
		f.add(int64(r.A), int64(r.B), int64(r.Max))
	}
	for _, r := range inst.ZoneRules {
		f.add(int64(r.A), int64(r.B), int64(r.Max))
	}
	for _, m := range standing {
		f.add(int64(m.Line), int64(m.Index), int64(len(m.Items)))
		for _, e := range m.Items {
			f.add(int64(e.App), int64(e.Count))
		}
	}
	return factsKey(f.Sum(nil))
}

// facts is a digest of numbers.
type facts struct {
	hash.Hash

	buf []byte
}

func (f *facts) add(values ...int64) {
	f.buf = f.buf[:0]
	for _, v := range values {
		f.buf = binary.LittleEndian.AppendUint64(f.buf, uint64(v))
	}
	f.Write(f.buf) // never fails
}

// A lookup is a packing in the form that scorers read; it does not change.
type lookup struct {
	machines []reservation
	words    int          // of a bitset of planned machines
	ofKind   [][]uint64   // per kind: its planned machines
	has      [][][]uint64 // [app][n−1]: the planned machines with at least n of it
}

// A reservation is the final content of one planned machine.
type reservation struct {
	kind  int32
	items []binpack.Entry
}

func compilePlan(inst *binpack.Instance, packing plan.Packing, standing []plan.Machine) *lookup {
	n := len(packing.Machines)
	p := &lookup{words: (n + 63) / 64, has: make([][][]uint64, len(inst.Apps))}
	for i, m := range packing.Machines {
		r := reservation{kind: m.Kind, items: slices.Clone(m.Items)}
		if i < len(standing) {
			for _, e := range standing[i].Items {
				r.items = addItems(r.items, e)
			}
		}
		p.machines = append(p.machines, r)
		for len(p.ofKind) <= int(m.Kind) {
			p.ofKind = append(p.ofKind, make([]uint64, p.words))
		}
		p.ofKind[m.Kind][i/64] |= 1 << (i % 64)
		for _, e := range r.items {
			for len(p.has[e.App]) < int(e.Count) {
				p.has[e.App] = append(p.has[e.App], make([]uint64, p.words))
			}
			for _, set := range p.has[e.App][:e.Count] {
				set[i/64] |= 1 << (i % 64)
			}
		}
	}
	return p
}

func addItems(list []binpack.Entry, e binpack.Entry) []binpack.Entry {
	for i := range list {
		if list[i].App == e.App {
			list[i].Count += e.Count
			return list
		}
	}
	return append(list, e)
}

// holds reports whether planned machine i holds at least n of an app.
func (p *lookup) holds(i, app, n int32) bool {
	return int(n) <= len(p.has[app]) && p.has[app][n-1][i>>6]>>(i&63)&1 != 0
}

package defrag

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// OpenStart is [ReadStart] with the prices of a file; "" = no prices.
func OpenStart(t *trace.Trace, placements, prices string) (*Start, error) {
	s, err := ReadStart(t, placements)
	if err != nil || prices == "" {
		return s, err
	}
	return s, s.readPrices(prices)
}

// readPrices sets the prices of moving items. A line of a request has precedence over that of its app.
func (s *Start) readPrices(path string) error {
	list, err := trace.ReadPrices(path)
	if err != nil {
		return fmt.Errorf("reading prices: %w", err)
	}
	apps, requests := map[string]*trace.Price{}, map[string]*trace.Price{}
	for i := range list {
		p := &list[i]
		byName, what, name := apps, "app", p.App
		known := slices.ContainsFunc(s.Trace.Instance.Apps, func(a binpack.App) bool { return a.Name == name })
		if p.Request != "" {
			byName, what, name = requests, "request", p.Request
			known = slices.ContainsFunc(s.Trace.Requests, func(q trace.Request) bool { return q.Name == name })
		}
		if !known {
			return fmt.Errorf("%s:%d: %s %q: the trace has none", filepath.Base(path), p.Line, what, name)
		}
		if other := byName[name]; other != nil {
			return fmt.Errorf("%s:%d: %s %q: line %d has it already", filepath.Base(path), p.Line, what, name, other.Line)
		}
		byName[name] = p
	}
	s.caps = make([]int32, len(s.Trace.Instance.Apps))
	for a, app := range s.Trace.Instance.Apps {
		s.caps[a] = math.MaxInt32
		if p := apps[app.Name]; p != nil && p.Cap >= 0 {
			s.caps[a] = p.Cap
		}
	}
	for k := range s.Items {
		it := &s.Items[k]
		p := requests[s.Trace.Requests[s.request[k]].Name]
		if p == nil {
			p = apps[s.Trace.Instance.Apps[it.App].Name]
		}
		if p != nil {
			it.Fixed, it.Price = it.Fixed || p.Fixed, p.Price
		}
		it.Fixed = it.Fixed || s.caps[it.App] == 0
	}
	return nil
}

// Cap lets at most a number of the placed items of each app move, less those of its group that were moved before.
func (s *Start) Cap(most func(items int) int, moved map[string]int) {
	s.caps = make([]int32, len(s.Trace.Instance.Apps))
	for _, it := range s.Items {
		if it.Line >= 0 {
			s.caps[it.App]++
		}
	}
	for a, n := range s.caps {
		inst := s.Trace.Instance
		s.caps[a] = int32(max(0, most(int(n))-moved[inst.Groups[inst.Apps[a].Group].Name]))
	}
}

// leastMoves are the items on machines that can be emptied, summed from the machine with the fewest
// on: so many moves free so many machines at least.
func (s *Start) leastMoves() (sums []int) {
	on, stays := map[defrag.Position]int{}, map[defrag.Position]bool{}
	for _, it := range s.Items {
		if p := (defrag.Position{Line: it.Line, Index: it.Index}); it.Line >= 0 {
			on[p]++
			stays[p] = stays[p] || it.Fixed
		}
	}
	for p, n := range on {
		if !stays[p] {
			sums = append(sums, n)
		}
	}
	slices.Sort(sums)
	for k := 1; k < len(sums); k++ {
		sums[k] += sums[k-1]
	}
	return sums
}

package whatif

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A site is a copy of a trace that can be changed.
type site struct {
	t       *trace.Trace
	arrived int // requests of ours, which are numbered
	again   int // items that must not move and wait for another machine
}

func newSite(t *trace.Trace) *site {
	own, inst := *t, *t.Instance
	inst.Machines, inst.Apps = slices.Clone(inst.Machines), slices.Clone(inst.Apps)
	inst.Groups, inst.Rules, inst.ZoneRules = slices.Clone(inst.Groups), slices.Clone(inst.Rules), slices.Clone(inst.ZoneRules)
	own.Instance, own.Requests = &inst, slices.Clone(t.Requests)
	own.Placed, own.Events = slices.Clone(t.Placed), slices.Clone(t.Events)
	return &site{t: &own}
}

// items are those of each app, standing ones included.
func (s *site) items() []int64 {
	n := make([]int64, len(s.t.Instance.Apps))
	for _, p := range s.t.Placed {
		n[s.t.Requests[p.Request].App] += int64(p.Count)
	}
	for _, e := range s.t.Events {
		n[s.t.Requests[e.Request].App] += int64(e.Count)
	}
	return n
}

func sum(list []int64) (total int64) {
	for _, n := range list {
		total += n
	}
	return total
}

// arrive requests n more items of an app.
func (s *site) arrive(app int32, n int64) {
	if n == 0 {
		return
	}
	at := 0.0
	if len(s.t.Events) > 0 {
		at = s.t.Events[len(s.t.Events)-1].Time
	}
	s.arrived++
	s.t.Requests = append(s.t.Requests, trace.Request{Name: fmt.Sprintf("whatif-%d", s.arrived), App: app, Count: int32(min(n, most))})
	s.t.Events = append(s.t.Events, trace.Event{Time: at, Request: int32(len(s.t.Requests) - 1), Count: int32(min(n, most))})
}

// leave removes n items of an app: waiting ones before placed ones, the last first.
func (s *site) leave(app, n int32) {
	for i := len(s.t.Events) - 1; i >= 0 && n > 0; i-- {
		e := &s.t.Events[i]
		if q := &s.t.Requests[e.Request]; q.App == app {
			k := min(n, e.Count)
			n, e.Count, q.Count = n-k, e.Count-k, q.Count-k
		}
	}
	s.t.Events = slices.DeleteFunc(s.t.Events, func(e trace.Event) bool { return e.Count == 0 })
	for i := len(s.t.Placed) - 1; i >= 0 && n > 0; i-- {
		p := &s.t.Placed[i]
		if q := &s.t.Requests[p.Request]; q.App == app {
			k := min(n, p.Count)
			n, p.Count, q.Count = n-k, p.Count-k, q.Count-k
		}
	}
	s.t.Placed = slices.DeleteFunc(s.t.Placed, func(p trace.Placed) bool { return p.Count == 0 })
}

// A position is a machine: a line and the index within it.
type position struct{ line, index int32 }

// clear makes the items of a machine wait for another.
func (s *site) clear(at position) {
	gone := make([]int64, len(s.t.Instance.Apps))
	fixed, _ := s.t.Fixed()
	s.t.Placed = slices.DeleteFunc(s.t.Placed, func(p trace.Placed) bool {
		if (position{p.Line, p.Index}) != at {
			return false
		}
		q := &s.t.Requests[p.Request]
		q.Count -= p.Count
		gone[q.App] += int64(p.Count)
		if fixed[q.Name] != nil {
			s.again += int(p.Count)
		}
		return true
	})
	for app, n := range gone {
		s.arrive(int32(app), n)
	}
}

// loseMachine takes a machine away; its items wait.
func (s *site) loseMachine(at position) {
	m := &s.t.Instance.Machines[at.line]
	if m.Count == 1 {
		s.dropLine(at.line)
		return
	}
	s.clear(at)
	for i := range s.t.Placed {
		if p := &s.t.Placed[i]; p.Line == at.line && p.Index > at.index {
			p.Index--
		}
	}
	if m.Count != binpack.Unlimited {
		m.Count--
	}
}

// dropLine takes all machines of a line away; their items wait.
func (s *site) dropLine(line int32) {
	for _, at := range s.positions() {
		if at.line == line {
			s.clear(at)
		}
	}
	s.t.Instance.Machines = slices.Delete(s.t.Instance.Machines, int(line), int(line)+1)
	for i := range s.t.Placed {
		if p := &s.t.Placed[i]; p.Line > line {
			p.Line--
		}
	}
}

// positions are the machines that hold something, in order.
func (s *site) positions() []position {
	var list []position
	for _, p := range s.t.Placed {
		list = append(list, position{p.Line, p.Index})
	}
	slices.SortFunc(list, func(a, b position) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.index, b.index)) })
	return slices.Compact(list)
}

// held are the items on each machine.
func (s *site) held() map[position]int32 {
	held := map[position]int32{}
	for _, p := range s.t.Placed {
		held[position{p.Line, p.Index}] += p.Count
	}
	return held
}

// emptiest is the machine of a type with the fewest items, the last of several.
func (s *site) emptiest(of int32) position {
	held, best, fewest := s.held(), position{line: -1}, int32(0)
	for line, m := range s.t.Instance.Machines {
		for i := 0; m.Type == of && i < m.Count; i++ {
			at := position{int32(line), int32(i)}
			if n := held[at]; best.line < 0 || n <= fewest {
				best, fewest = at, n
			}
		}
	}
	return best
}

// smallestZone is the first line of a type in the zone that has the fewest machines of it.
func (s *site) smallestZone(of int32) int {
	first, count := map[string]int{}, map[string]int{}
	best := ""
	for line, m := range s.t.Instance.Machines {
		if m.Type != of {
			continue
		}
		if _, ok := first[m.Zone]; !ok {
			first[m.Zone] = line
		}
		count[m.Zone] += m.Count
	}
	for line, m := range s.t.Instance.Machines { // in order of lines, since a map has none
		if m.Type == of && first[m.Zone] == line {
			if _, ok := first[best]; !ok || count[m.Zone] < count[best] {
				best = m.Zone
			}
		}
	}
	return first[best]
}

// limitType limits a type without limit to n machines, in the order of its lines: the first line
// without a limit has the rest.
func (s *site) limitType(of int32, n int) error {
	least, open := make([]int, len(s.t.Instance.Machines)), -1
	for line, m := range s.t.Instance.Machines {
		if m.Type != of {
			continue
		}
		for at := range s.held() {
			if int(at.line) == line {
				least[line] = max(least[line], int(at.index)+1)
			}
		}
		if m.Count == binpack.Unlimited && open < 0 {
			open = line
		}
		least[line] = max(least[line], m.Count)
	}
	rest := n
	for _, k := range least {
		rest -= k
	}
	if rest < 0 {
		return fmt.Errorf("type %q has %d machines that are in use or listed", s.t.Instance.Types[of], n-rest)
	}
	for line := len(least) - 1; line >= 0; line-- {
		m := &s.t.Instance.Machines[line]
		if m.Type != of || m.Count != binpack.Unlimited {
			continue
		}
		m.Count = least[line]
		if line == open {
			m.Count += rest
		}
		if m.Count == 0 {
			s.dropLine(int32(line))
		}
	}
	return nil
}

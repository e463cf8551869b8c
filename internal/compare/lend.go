package compare

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// An itemKey is an item of a trace, by the name of its request and its number within it.
type itemKey struct {
	request string
	number  int32
}

func eachItem(t *trace.Trace, each func(app int32, item itemKey)) {
	for _, q := range t.Requests {
		for number := range q.Count {
			each(q.App, itemKey{q.Name, number})
		}
	}
}

// Lend gives a trace that was changed the usage of the trace by use that it was made of. An item that has no samples of its
// own there, such as one that was added, has those of its app's items in turn, first of the ones that the changed trace
// lacks; of series that are less than half as long as the longest, as of pods that soon ended, none.
func Lend(to, from *trace.Trace) error {
	if to == from || !sized.BySize(from) {
		return nil
	}
	u, err := usageOf(from)
	if err != nil {
		return err
	}
	lent, shared := &trace.Usage{}, map[[2]int32]bool{} // by dimension and app
	own := map[int32]map[itemKey]*trace.Series{}        // by dimension
	var dims []int32
	u.Items(from, func(s *trace.Series, request, number int32) {
		if own[s.Dimension] == nil {
			own[s.Dimension], dims = map[itemKey]*trace.Series{}, append(dims, s.Dimension)
		}
		if number < 0 {
			lent.Series, shared[[2]int32{s.Dimension, s.App}] = append(lent.Series, *s), true
			return
		}
		own[s.Dimension][itemKey{from.Requests[request].Name, number}] = s
	})
	kept := map[itemKey]bool{}
	eachItem(to, func(_ int32, item itemKey) { kept[item] = true })
	for _, d := range dims {
		lenders, others := map[int32][]*trace.Series{}, map[int32][]*trace.Series{} // by app
		eachItem(from, func(app int32, item itemKey) {
			if s := own[d][item]; s != nil && !kept[item] {
				lenders[app] = append(lenders[app], s)
			} else if s != nil {
				others[app] = append(others[app], s)
			}
		})
		for app, list := range others {
			lenders[app] = append(lenders[app], list...)
		}
		for app, list := range lenders {
			lenders[app] = long(list)
		}
		next := map[int32]int{}
		eachItem(to, func(app int32, item itemKey) {
			s := own[d][item]
			if list := lenders[app]; s == nil && len(list) > 0 && !shared[[2]int32{d, app}] {
				s = list[next[app]%len(list)]
				next[app]++
			}
			if s != nil {
				one := *s
				one.Item = fmt.Sprintf("%s/%d", item.request, item.number)
				lent.Series = append(lent.Series, one)
			}
		})
	}
	to.SetUsage(lent)
	return nil
}

// long are the series with at least half of the sampled time of the longest.
func long(list []*trace.Series) (kept []*trace.Series) {
	seconds, most := make([]float64, len(list)), 0.
	for i, s := range list {
		for _, v := range s.Values {
			if v == v {
				seconds[i] += s.Step
			}
		}
		most = max(most, seconds[i])
	}
	for i, s := range list {
		if seconds[i] >= most/2 {
			kept = append(kept, s)
		}
	}
	return kept
}

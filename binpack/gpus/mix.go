package gpus

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// typicalShare is the part of the items that typical types make up.
const typicalShare = .95

// A Mix holds the typical types of items and their shares. FGD's fragment is the mean
// over them. They are taken from the forecast of each app, or without one from the
// items that have arrived so far.
type Mix struct {
	View
	typeOf []int32   // per app: index into types
	types  []Typical // by first app; without share and size
	typeAt map[Ask]int32
	alike  []int32 // per type: the first that differs in its group only
	askAt  map[Ask]int32

	order []int32   // types, most frequent first
	count []float64 // per type: items when they were ordered
	now   []float64 // per type: items
	item  []int32   // per type: one more than its place in Items

	Items []Typical // of the mix
	Sizes []int64   // the different demands of GPUs in the mix
	// The mix is made from this forecast, or after these requests.
	forecast []float64
	requests int64
	arrival  int32
}

// A Typical item.
type Typical struct {
	Ask

	Share    float64
	Size     int    // index into Sizes
	Machines []bool // per machine type: whether it may be used; nil = all may
}

// An Ask is the common demand of the items of a type.
type Ask struct {
	CPU, GPU int64
	models   string // names of the machine types; orders types that are alike otherwise
	group    int32  // the app's group where groups are counted apart, else 0
}

// MixOf prepares the mix of a state; Refresh fills it.
func MixOf(s *binpack.State) Mix {
	p := Mix{View: ViewOf(s), typeAt: map[Ask]int32{}, askAt: map[Ask]int32{}}
	p.Grow()
	return p
}

// Grow follows the apps that were added to the state. They are not part of the mix: no
// item of them is expected, and no item has arrived.
func (p *Mix) Grow() {
	p.Apps = p.State.Instance().Apps
	for app := len(p.typeOf); app < len(p.Apps); app++ {
		a := p.askOf(int32(app))
		key := a
		key.group = p.Apps[app].Group
		t, ok := p.typeAt[key]
		if !ok {
			t = int32(len(p.types))
			p.typeAt[key] = t
			p.types = append(p.types, Typical{Ask: a, Machines: p.MayUse(int32(app))})
			if _, ok := p.askAt[a]; !ok {
				p.askAt[a] = t
			}
			p.alike = append(p.alike, p.askAt[a])
		}
		p.typeOf = append(p.typeOf, t)
	}
}

// Refresh rebuilds the mix if the forecast or the arrivals have changed, and reports
// whether it did.
func (p *Mix) Refresh() bool {
	expected := p.State.Known.Expected
	if !slices.ContainsFunc(expected, isGiven) {
		requests, arrival := p.State.RequestCount(), p.State.LastArrival()
		if p.forecast != nil || requests != p.requests || arrival != p.arrival {
			p.forecast, p.requests, p.arrival = nil, requests, arrival
			p.setMix(func(app int) float64 { return float64(p.State.Seen()[app]) })
			return true
		}
		return false
	}
	if p.forecast != nil && &p.forecast[0] == &expected[0] {
		return false
	}
	known := len(p.forecast)
	grown := known > 0 && known <= len(expected) && slices.Equal(p.forecast, expected[:known]) && !slices.ContainsFunc(expected[known:], isGiven)
	p.forecast = expected
	if grown { // the state has moved it to more memory
		return false
	}
	p.setMix(func(app int) float64 { return max(expected[app], 0) })
	return true
}

func isGiven(expected float64) bool { return expected > 0 }

// setMix finds the typical types, most frequent first.
func (p *Mix) setMix(count func(app int) float64) {
	p.now = slices.Grow(p.now[:0], len(p.types))[:len(p.types)]
	clear(p.now)
	total := 0.0
	for app := range p.Apps {
		n := count(app)
		p.now[p.typeOf[app]] += n
		total += n
	}
	p.sort()
	p.Items, p.Sizes = p.Items[:0], p.Sizes[:0]
	p.item = slices.Grow(p.item[:0], len(p.types))[:len(p.types)]
	clear(p.item)
	sum, taken := 0.0, 0
	for ; taken < len(p.order) && sum < typicalShare*total; taken++ {
		t := p.order[taken]
		sum += p.count[t]
		p.add(t, p.count[t]/total)
	}
	if taken < len(p.order) && p.count[p.order[taken]] > 0 { // something is left out
		for i := range p.Items {
			p.Items[i].Share /= sum / total
		}
	}
}

// fewMoves is the number of types up to which each is moved to its place.
const fewMoves = 16

// sort orders the types by the counts in now, which become count. Mostly one has changed. Types of one rank differ
// in their group at most.
func (p *Mix) sort() {
	var moved []int32
	for t, n := range p.now {
		if t >= len(p.count) || n != p.count[t] {
			moved = append(moved, int32(t))
		}
	}
	if len(moved) > fewMoves {
		p.order, moved = p.order[:0], nil
		for t := range p.types {
			p.order = append(p.order, int32(t))
		}
		slices.SortFunc(p.order, p.compare)
	} else if len(moved) > 0 {
		p.order = slices.DeleteFunc(p.order, func(t int32) bool { return p.now[t] != p.count[t] })
	}
	for _, t := range moved {
		at, _ := slices.BinarySearchFunc(p.order, t, p.compare)
		p.order = slices.Insert(p.order, at, t)
	}
	p.count, p.now = p.now, p.count
}

// compare is negative where type i precedes type j.
func (p *Mix) compare(i, j int32) int {
	a, b := &p.types[i], &p.types[j]
	return -cmp.Or(cmp.Compare(p.now[i], p.now[j]), cmp.Compare(a.CPU, b.CPU), cmp.Compare(min(a.GPU, p.One), min(b.GPU, p.One)),
		cmp.Compare(a.GPU, b.GPU), strings.Compare(a.models, b.models))
}

// add puts a type into the mix. Types that differ only in their group are merged.
func (p *Mix) add(t int32, share float64) {
	at := &p.item[p.alike[t]]
	if *at > 0 {
		p.Items[*at-1].Share += share
		return
	}
	item := p.types[t]
	item.Share = share
	if item.Size = slices.Index(p.Sizes, item.GPU); item.Size < 0 {
		item.Size = len(p.Sizes)
		p.Sizes = append(p.Sizes, item.GPU)
	}
	p.Items = append(p.Items, item)
	*at = int32(len(p.Items))
}

// askOf is the demand of items of an app.
func (p *Mix) askOf(app int32) (a Ask) {
	a.CPU, a.GPU = p.Need(app)
	var names []string
	for _, i := range p.Apps[app].Types {
		names = append(names, p.State.Instance().Types[i])
	}
	slices.Sort(names)
	a.models = strings.Join(names, "|")
	return a
}

// MayUse marks the machine types that an app may use; nil = all.
func (p *Mix) MayUse(app int32) []bool {
	allowed := p.Apps[app].Types
	if allowed == nil {
		return nil
	}
	may := make([]bool, len(p.State.Instance().Types))
	for _, i := range allowed {
		may[i] = true
	}
	return may
}

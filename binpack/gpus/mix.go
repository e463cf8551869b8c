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
// over them. They come from the forecast of each app, or where there is none from what
// has arrived so far.
type Mix struct {
	View
	typeOf []int32   // per app: index into types
	types  []Typical // by first app; without share and size

	Items []Typical // of the mix
	Sizes []int64   // the different demands of GPUs in the mix
	// The mix is made from this forecast, or after these requests.
	forecast *float64
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

// An Ask is what items of a type have in common.
type Ask struct {
	CPU, GPU int64
	models   string // names of the machine types; orders types that are alike otherwise
	group    int32  // the app's group where groups are counted apart, else 0
}

// MixOf prepares the mix of a state; Refresh fills it.
func MixOf(s *binpack.State) Mix {
	p := Mix{View: ViewOf(s)}
	kinds := map[Ask]int32{}
	for app := range p.Apps {
		a := p.askOf(int32(app))
		key := a
		key.group = p.Apps[app].Group
		if _, ok := kinds[key]; !ok {
			kinds[key] = int32(len(kinds))
			p.types = append(p.types, Typical{Ask: a, Machines: p.mayUse(int32(app))})
		}
		p.typeOf = append(p.typeOf, kinds[key])
	}
	return p
}

// Refresh rebuilds the mix if the forecast or the arrivals have changed, and reports
// whether it did.
func (p *Mix) Refresh() bool {
	expected := p.State.Known.Expected
	if !slices.ContainsFunc(expected, func(v float64) bool { return v > 0 }) {
		requests, arrival := p.State.RequestCount(), p.State.LastArrival()
		if p.forecast != nil || requests != p.requests || arrival != p.arrival {
			p.forecast, p.requests, p.arrival = nil, requests, arrival
			p.setMix(func(app int) float64 { return float64(p.State.Seen()[app]) })
			return true
		}
		return false
	}
	if p.forecast == &expected[0] {
		return false
	}
	p.forecast = &expected[0]
	p.setMix(func(app int) float64 { return max(expected[app], 0) })
	return true
}

// setMix finds the typical types, most frequent first.
func (p *Mix) setMix(count func(app int) float64) {
	types := slices.Clone(p.types)
	total := 0.0
	for app := range p.Apps {
		n := count(app)
		types[p.typeOf[app]].Share += n
		total += n
	}
	slices.SortStableFunc(types, func(a, b Typical) int {
		return -cmp.Or(cmp.Compare(a.Share, b.Share), cmp.Compare(a.CPU, b.CPU), cmp.Compare(min(a.GPU, p.One), min(b.GPU, p.One)),
			cmp.Compare(a.GPU, b.GPU), strings.Compare(a.models, b.models))
	})
	p.Items, p.Sizes = p.Items[:0], p.Sizes[:0]
	sum, taken := 0.0, 0
	for ; taken < len(types) && sum < typicalShare*total; taken++ {
		t := types[taken]
		sum += t.Share
		t.Share /= total
		p.add(t)
	}
	if taken < len(types) && types[taken].Share > 0 { // something is left out
		for i := range p.Items {
			p.Items[i].Share /= sum / total
		}
	}
}

// add puts a type into the mix. Types that differ only in their group are merged.
func (p *Mix) add(t Typical) {
	if i := slices.IndexFunc(p.Items, func(o Typical) bool { return o.Ask == t.Ask }); i >= 0 {
		p.Items[i].Share += t.Share
		return
	}
	if t.Size = slices.Index(p.Sizes, t.GPU); t.Size < 0 {
		t.Size = len(p.Sizes)
		p.Sizes = append(p.Sizes, t.GPU)
	}
	p.Items = append(p.Items, t)
}

// askOf is what items of an app ask for.
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

// mayUse says which machine types an app may use; nil = all.
func (p *Mix) mayUse(app int32) []bool {
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

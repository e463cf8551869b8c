package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// typicalShare is the part of the items that typical types make up.
const typicalShare = .95

// typicalMix is what FGD's fragment is an expectation over: the typical types of
// items and their shares, from the forecast of each app, or where there is none
// from what has arrived so far.
type typicalMix struct {
	gpuView
	typeOf []int32   // per app: index into types
	types  []typical // by first app; without share and size

	mix   []typical
	sizes []int64 // the different demands of GPUs in the mix
	// The mix is made from this forecast, or after these requests.
	forecast *float64
	requests int64
	arrival  int32
}

// A typical item.
type typical struct {
	ask

	share    float64
	size     int    // index into sizes
	machines []bool // per machine type: whether it may be used; nil = all may
}

// An ask is what items of a type have in common.
type ask struct {
	cpu, gpu int64
	models   string // names of the machine types; orders types that are alike otherwise
	group    int32  // 0 but where it keeps types apart
}

func newTypicalMix(s *binpack.State) typicalMix {
	p := typicalMix{gpuView: gpuViewOf(s)}
	kinds := map[ask]int32{}
	for app := range p.apps {
		a := p.askOf(int32(app))
		key := a
		key.group = p.apps[app].Group
		if _, ok := kinds[key]; !ok {
			kinds[key] = int32(len(kinds))
			p.types = append(p.types, typical{ask: a, machines: p.mayUse(int32(app))})
		}
		p.typeOf = append(p.typeOf, kinds[key])
	}
	return p
}

// refresh makes the mix anew when what it comes from has changed, and reports
// whether it did.
func (p *typicalMix) refresh() bool {
	expected := p.state.Known.Expected
	if !slices.ContainsFunc(expected, func(v float64) bool { return v > 0 }) {
		requests, arrival := p.state.RequestCount(), p.state.LastArrival()
		if p.forecast != nil || requests != p.requests || arrival != p.arrival {
			p.forecast, p.requests, p.arrival = nil, requests, arrival
			p.setMix(func(app int) float64 { return float64(p.state.Seen()[app]) })
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
func (p *typicalMix) setMix(count func(app int) float64) {
	types := slices.Clone(p.types)
	total := 0.0
	for app := range p.apps {
		n := count(app)
		types[p.typeOf[app]].share += n
		total += n
	}
	slices.SortStableFunc(types, func(a, b typical) int {
		return -cmp.Or(cmp.Compare(a.share, b.share), cmp.Compare(a.cpu, b.cpu), cmp.Compare(min(a.gpu, p.one), min(b.gpu, p.one)),
			cmp.Compare(a.gpu, b.gpu), strings.Compare(a.models, b.models))
	})
	p.mix, p.sizes = p.mix[:0], p.sizes[:0]
	sum, taken := 0.0, 0
	for ; taken < len(types) && sum < typicalShare*total; taken++ {
		t := types[taken]
		sum += t.share
		t.share /= total
		p.add(t)
	}
	if taken < len(types) && types[taken].share > 0 { // something is left out
		for i := range p.mix {
			p.mix[i].share /= sum / total
		}
	}
}

// add takes a type up into the mix; types of several groups that ask for the same
// are one there.
func (p *typicalMix) add(t typical) {
	if i := slices.IndexFunc(p.mix, func(o typical) bool { return o.ask == t.ask }); i >= 0 {
		p.mix[i].share += t.share
		return
	}
	if t.size = slices.Index(p.sizes, t.gpu); t.size < 0 {
		t.size = len(p.sizes)
		p.sizes = append(p.sizes, t.gpu)
	}
	p.mix = append(p.mix, t)
}

// askOf is what items of an app ask for.
func (p *typicalMix) askOf(app int32) (a ask) {
	a.cpu, a.gpu = p.need(app)
	var names []string
	for _, i := range p.apps[app].Types {
		names = append(names, p.state.Instance().Types[i])
	}
	slices.Sort(names)
	a.models = strings.Join(names, "|")
	return a
}

// mayUse says which machine types an app may use; nil = all.
func (p *typicalMix) mayUse(app int32) []bool {
	allowed := p.apps[app].Types
	if allowed == nil {
		return nil
	}
	may := make([]bool, len(p.state.Instance().Types))
	for _, i := range allowed {
		may[i] = true
	}
	return may
}

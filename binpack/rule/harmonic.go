package rule

import "github.com/sigma-scheduler/sigma/binpack"

// Harmonic keeps items of different size apart (Lee and Lee 1985, "A simple
// on-line bin-packing algorithm"). An item's size is its dominant share,
// max demand_d ÷ capacity_d, which depends on the kind of machine. It is of
// class k when its size lies in (1/(k+1), 1/k], so that k of them fill a
// machine, and of the last class when it is smaller:
//
//	class = min(harmonicClasses, min ⌊capacity_d ÷ demand_d⌋)
//
// A machine's class is that of the largest item on it. The item is placed on a
// machine of its class, else to an empty one, else (a fixed fleet without empty
// machines) to any; score 2, 1, 0, lowest position first.
type Harmonic struct{ blind }

// harmonicClasses is the number M of classes: with 12 the worst case in one
// dimension is 1.692 times the optimum, with infinitely many 1.691.
const harmonicClasses = 12

// Scorer prepares the policy for a state.
func (Harmonic) Scorer(s *binpack.State) binpack.Scorer {
	return &harmonic{
		state: s,
		apps:  make([]uint8, len(s.Instance().Apps)*len(s.Kinds())),
	}
}

type harmonic struct {
	state    *binpack.State
	apps     []uint8 // [app · kinds + kind]: class of the app's items; 0 = not computed yet
	machines []machineClass
}

// machineClass is a machine's class at a version.
type machineClass struct {
	version uint32
	class   uint8 // 0 = empty
}

func (p *harmonic) Score(item binpack.Item, candidates []int32, out []float64) {
	for len(p.machines) < p.state.Size() {
		p.machines = append(p.machines, machineClass{})
	}
	for i, m := range candidates {
		switch p.machine(m) {
		case p.item(item.App, p.state.KindOf(m)):
			out[i] = 2
		case 0:
			out[i] = 1
		default:
			out[i] = 0
		}
	}
}

// item is the class of an app's items on a kind of machine.
func (p *harmonic) item(app, kind int32) uint8 {
	at := int(app)*len(p.state.Kinds()) + int(kind)
	if p.apps[at] == 0 {
		p.apps[at] = harmonicClass(p.state.Instance().Apps[app].Demand, p.state.Kinds()[kind].Capacity)
	}
	return p.apps[at]
}

func harmonicClass(demand, capacity []int64) uint8 {
	class := int64(harmonicClasses)
	for d, need := range demand {
		if need > 0 {
			class = min(class, max(capacity[d]/need, 1))
		}
	}
	return uint8(class)
}

// machine is the class of a machine: the smallest of its items' classes.
func (p *harmonic) machine(m int32) uint8 {
	known := &p.machines[m]
	if v := p.state.Version(m); known.version != v {
		*known = machineClass{version: v}
		for _, e := range p.state.Contents(m) {
			if class := p.item(e.App, p.state.KindOf(m)); known.class == 0 || class < known.class {
				known.class = class
			}
		}
	}
	return known.class
}

package devices

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

// A Policy places an item on the machine, and a share of a GPU on the GPU, with the
// highest Σ weight·feature. Items that request no GPU, a share of one and whole
// ones have weights of their own. It sees cpu and GPUs, the first dimension that is
// no device and the first that is one; the others decide only whether an item fits.
// In an open fleet an empty machine waits until no other takes the item.
type Policy struct {
	know    binpack.Knowledge
	weights [classCount]values
	mixed   bool // some weight belongs to a feature of the mix of items
}

// New builds the policy of a spec.
func New(spec learned.Spec) (*Policy, error) {
	p := &Policy{know: spec.Knowledge}
	for i, name := range spec.Features {
		feature, class := learned.FindFeature(features, classNames, name)
		if feature < 0 {
			return nil, fmt.Errorf("spec.features[%d] %q is unknown", i, name)
		}
		p.weights[slices.Index(classNames, class)][feature] = spec.Weights[i]
		p.mixed = p.mixed || spec.Weights[i] != 0 && (feature == dFragment || feature == dStranded)
	}
	return p, nil
}

// Knowledge implements [binpack.Policy].
func (p *Policy) Knowledge() binpack.Knowledge { return p.know }

// Scorer implements [binpack.Policy].
func (p *Policy) Scorer(s *binpack.State) binpack.Scorer {
	l := &scorer{fragments: newFragments(s), p: p, epoch: 1}
	l.columnAt = map[[2]int64]int32{}
	l.growApps()
	devices := 0
	for _, dim := range s.Instance().Dimensions {
		if dim.Device {
			devices++
		}
	}
	l.shortlists, l.room = devices < 2, learned.MaxCached
	if s.Instance().Fleet == binpack.Fixed {
		for _, line := range s.Instance().Machines {
			l.before = append(l.before, l.machines)
			l.machines += line.Count
		}
	}
	return l
}

// scorer caches the score of every machine for each demand of cpu and GPUs. A demand
// pays only for the machines that changed since its last use.
type scorer struct {
	fragments

	p        *Policy
	columnOf []int32            // per app
	columnAt map[[2]int64]int32 // by cpu and GPUs
	columns  []column
	epoch    uint32       // changes with the mix
	now      []machineNow // per machine
	changes  []binpack.Change

	room       int // entries of all columns together; beyond it nothing is cached
	shortlists bool
	before     []int // of a fixed fleet, per line of machines.csv: machines before it
	machines   int   // of a fixed fleet
}

// A column holds the scores of a demand on each machine.
type column struct {
	cpu, gpu int64
	class    int
	seq      uint64 // of the journal
	epoch    uint32
	version  []uint32
	score    []float64 // -Inf where cpu or GPUs do not suffice
	top      []float64 // the highest score of each 64 machines
	stale    []uint64  // bitset over top: entries to compute again
}

// A machineNow is a machine before a placement, at a version.
type machineNow struct {
	version, epoch     uint32
	fragment, stranded float64
}

// Grows is the mark of [binpack.Grower].
func (l *scorer) Grows() {}

// growApps follows the apps that were added to the state.
func (l *scorer) growApps() {
	l.Grow()
	for a := len(l.columnOf); a < len(l.Apps); a++ {
		cpu, gpu := l.Need(int32(a))
		at, ok := l.columnAt[[2]int64{cpu, gpu}]
		if !ok {
			at = int32(len(l.columns))
			l.columnAt[[2]int64{cpu, gpu}] = at
			l.columns = append(l.columns, column{cpu: cpu, gpu: gpu, class: classOf(gpu, l.One)})
		}
		l.columnOf = append(l.columnOf, at)
	}
}

// Score implements [binpack.Scorer]. A cluster may include a candidate without
// room, which is ranked last.
func (l *scorer) Score(item binpack.Item, candidates []int32, out []float64) {
	col, kept := l.column(item.App)
	for i, m := range candidates {
		if kept {
			out[i] = col.score[m]
		} else {
			out[i], _ = l.compute(col, m)
		}
		out[i] = max(out[i], -math.MaxFloat64)
	}
}

// ChooseDevices returns the GPU with the best score for a share; among equals the
// one with the least share left, then the lowest index.
func (l *scorer) ChooseDevices(item binpack.Item, m int32, dimension int, free []int64, devices []int32) []int32 {
	need, one := l.State.Instance().Apps[item.App].Demand[dimension], l.State.Instance().Dimensions[dimension].One
	if dimension != l.GPU || need >= one {
		return binpack.SmallestDevices(free, need, one, devices)
	}
	col, _ := l.column(item.App)
	_, device := l.compute(col, m)
	return append(devices, int32(device))
}

// Contenders implements [binpack.Shortlister]: the machines with the highest score.
func (l *scorer) Contenders(item binpack.Item, buf []int32) (contenders []int32, known bool) {
	app := &l.State.Instance().Apps[item.App]
	if !l.shortlists || l.State.Spread(app.Group) < l.State.Instance().Groups[app.Group].SpreadMin {
		return buf, false
	}
	col, kept := l.column(item.App)
	if !kept {
		return buf, false
	}
	blocked, start, most := l.State.Blocked(item.App), len(buf), -math.MaxFloat64
	for w, word := range l.State.Offered() {
		if word &^= blocked[w]; word == 0 || col.highest(w) < most {
			continue
		}
		for ; word != 0; word &= word - 1 {
			m := int32(w*64 + bits.TrailingZeros64(word))
			if col.score[m] < most || !l.hasRoom(app, m) {
				continue
			}
			if col.score[m] > most {
				buf, most = buf[:start], col.score[m]
			}
			buf = append(buf, m)
		}
	}
	return buf, true
}

// hasRoom looks at all dimensions, also those that scores do not see.
func (l *scorer) hasRoom(app *binpack.App, m int32) bool {
	for d, need := range app.Demand {
		if need > l.State.Free(d)[m] {
			return false
		}
	}
	return true
}

// highest is the highest score of 64 machines.
func (c *column) highest(w int) float64 {
	if c.stale[w/64]>>(w%64)&1 != 0 {
		c.stale[w/64] &^= 1 << (w % 64)
		c.top[w] = slices.Max(c.score[w*64 : min(w*64+64, len(c.score))])
	}
	return c.top[w]
}

// column updates the scores of an app's demand. kept is false where there are too
// many to cache.
func (l *scorer) column(app int32) (col *column, kept bool) {
	l.growApps()
	if l.p.mixed && l.Refresh() {
		l.compile()
		l.epoch++
	}
	n := l.State.Size()
	if len(l.now) < n {
		l.now = append(l.now, make([]machineNow, n-len(l.now))...)
	}
	col = &l.columns[l.columnOf[app]]
	if len(l.columns)*n > l.room {
		return col, false
	}
	col.grow(n)
	if col.epoch != l.epoch {
		col.epoch, col.seq = l.epoch, 0
		clear(col.version)
	}
	var all bool
	l.changes, col.seq, all = l.State.Changes(col.seq, l.changes[:0])
	if all {
		for m := range int32(n) {
			l.follow(col, m)
		}
	}
	for _, c := range l.changes {
		l.follow(col, c.Machine)
	}
	return col, true
}

// grow makes room for new machines.
func (c *column) grow(machines int) {
	if more := machines - len(c.score); more > 0 {
		c.score = append(c.score, make([]float64, more)...)
		c.version = append(c.version, make([]uint32, more)...)
		words := machines/64 + 1
		c.top = append(c.top, make([]float64, words-len(c.top))...)
		c.stale = append(c.stale, make([]uint64, words/64+1-len(c.stale))...)
	}
}

// follow computes the score of a machine that changed.
func (l *scorer) follow(col *column, m int32) {
	version := l.State.Version(m)
	if col.version[m] == version {
		return
	}
	col.version[m] = version
	col.score[m], _ = l.compute(col, m)
	w := m / 64
	col.stale[w/64] |= 1 << (w % 64)
}

// compute returns the score of a demand on a machine, -Inf where cpu or GPUs do not
// suffice, and the GPU that a share takes.
func (l *scorer) compute(col *column, m int32) (score float64, device int16) {
	_, score, device = l.best(col, m)
	if l.keptBack(m) && score > math.Inf(-1) {
		score = -learned.EmptyPenalty // all alike: the order of machines.csv decides
	}
	return score, device
}

func (l *scorer) keptBack(m int32) bool {
	return l.State.Instance().Fleet == binpack.Open && l.State.Items(m) == 0
}

// best returns the features of placing an item of a demand on a machine, the score,
// and the best GPU for a share. The score is -Inf where the item does not fit.
func (l *scorer) best(col *column, m int32) (v values, score float64, device int16) {
	cpu, gpu := l.Left(m)
	shares := l.Devices(m)
	free := int64(0) // GPUs, entirely
	for _, share := range shares {
		if share == l.One {
			free++
		}
	}
	taken := col.gpu / l.One
	if cpu < col.cpu || gpu < col.gpu || free < taken {
		return v, math.Inf(-1), -1
	}
	cpu, gpu = cpu-col.cpu, gpu-col.gpu
	v[dGPU] = float64(gpu) / float64(l.MaxGPU)
	v[dCPU] = float64(cpu) / float64(l.MaxCPU)
	if l.machines > 0 {
		line, index := l.State.Position(m)
		v[dRank] = float64(l.before[line]+int(index)) / float64(l.machines)
	}
	var row *fragmentRow
	growth := 0.0 // of F
	if l.p.mixed {
		was := l.machine(m)
		row = l.row(m, cpu)
		growth = l.partly(row, shares) + l.whole(row, free-taken) - was.fragment
		v[dStranded] = (l.stranded(cpu, gpu) - was.stranded) / float64(l.One)
	}
	v[dFragment] = growth / float64(l.One)
	weights := &l.p.weights[col.class]
	if col.class != classShared {
		return v, weights.score(&v), -1
	}
	best := v
	score, device = math.Inf(-1), -1
	for i, share := range shares {
		if share < col.gpu || slices.Contains(shares[:i], share) { // the first of equals
			continue
		}
		if l.p.mixed {
			f := growth + l.useless(row, share-col.gpu)
			if share == l.One {
				f += l.whole(row, free-1) - l.whole(row, free)
			} else {
				f -= l.useless(row, share)
			}
			v[dFragment] = f / float64(l.One)
		}
		if s := weights.score(&v); s > score || s == score && share < shares[device] {
			best, score, device = v, s, int16(i)
		}
	}
	return best, score, device
}

// score is Σ weight·feature, rounded to a multiple of 2⁻⁴⁰: machines and GPUs that
// are equal by definition differ in the rounding of their sums.
func (w *values) score(v *values) float64 {
	sum := 0.0
	for i, x := range v {
		sum += float64(w[i] * x)
	}
	const grain = 1 << 40
	return math.RoundToEven(sum*grain) / grain
}

// machine returns a machine before a placement, from the cache if it is valid.
func (l *scorer) machine(m int32) *machineNow {
	known := &l.now[m]
	if version := l.State.Version(m); known.version != version || known.epoch != l.epoch {
		cpu, gpu := l.Left(m)
		*known = machineNow{version, l.epoch, l.fragment(l.row(m, cpu), l.Devices(m)), l.stranded(cpu, gpu)}
	}
	return known
}

// Explain implements [binpack.Explainer].
func (l *scorer) Explain(item binpack.Item, m int32) []binpack.Term {
	col, _ := l.column(item.App)
	v, _, _ := l.best(col, m)
	kept := l.keptBack(m)
	var terms []binpack.Term
	for f, weight := range l.p.weights[col.class] {
		if weight == 0 {
			continue
		}
		t := binpack.Term{Name: features[f].Name + "@" + classNames[col.class], Weight: weight, Value: v[f]}
		if !kept {
			t.Contribution = weight * v[f]
		}
		terms = append(terms, t)
	}
	t := binpack.Term{Name: "kept back", Weight: -learned.EmptyPenalty}
	if kept {
		t.Value, t.Contribution = 1, -learned.EmptyPenalty
	}
	return append(terms, t)
}

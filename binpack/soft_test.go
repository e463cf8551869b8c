package binpack

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// noise scores machines at random, by what the test may compute too.
type noise struct{}

func (noise) Score(item Item, candidates []int32, out []float64) {
	for i, m := range candidates {
		out[i] = noiseOf(item, m)
	}
}

func noiseOf(item Item, m int32) float64 { return float64((uint64(m)*7919 + item.Serial*104729) % 13) }

// softModel is the definition of preferences in maps and loops: what stands where, by name.
type softModel struct {
	inst  *Instance
	care  Care
	stand map[int32][]int32 // apps by machine
	at    func(machine int32) (line, index int32)
}

func (w *softModel) line(m int32) *MachineLine {
	line, _ := w.at(m)
	return &w.inst.Machines[line]
}

// before reports whether a machine comes before another in machines.csv.
func (w *softModel) before(m, other int32) bool {
	line, index := w.at(m)
	otherLine, otherIndex := w.at(other)
	return line < otherLine || line == otherLine && index < otherIndex
}

// there reports whether no autoscaler has to add a machine first.
func (w *softModel) there(m int32) bool { return len(w.stand[m]) > 0 || w.line(m).Count != Unlimited }

// broken is what hard limit or rule by zone an item that has just come to a machine breaks, by the
// definition; "" = none.
func (w *softModel) broken(app, to int32) string {
	zone, group := w.line(to).Zone, w.inst.Apps[app].Group
	in := func(name string, g int32) int {
		return w.count(g, func(m int32) bool { return w.line(m).Zone == name })
	}
	limits, here := w.inst.Groups[group].Zone, in(zone, group)
	if zone == "" {
		if limits.Limit > 0 || limits.SpreadMin > 1 || limits.Skew > 0 {
			return "no zone"
		}
		return ""
	}
	zones := map[string]int{}
	for _, line := range w.inst.Machines {
		if line.Zone != "" {
			zones[line.Zone] = in(line.Zone, group)
		}
	}
	stands := 0
	for _, n := range zones {
		stands += min(n, 1)
		if limits.Skew > 0 && here-n > int(limits.Skew) {
			return "skew"
		}
	}
	switch {
	case limits.Limit > 0 && here > int(limits.Limit):
		return "limit"
	case here > 1 && stands < int(limits.SpreadMin):
		return "spread"
	}
	for _, r := range w.inst.ZoneRules {
		if (r.A == group || r.B == group) && in(zone, r.A) > 0 && in(zone, r.B) > int(r.Max) {
			return "rule"
		}
	}
	return ""
}

func (w *softModel) count(group int32, where func(machine int32) bool) (n int) {
	for m, apps := range w.stand {
		for _, a := range apps {
			if where(m) && w.inst.Apps[a].Group == group {
				n++
			}
		}
	}
	return n
}

func (w *softModel) near(t SoftTerm, m int32) int {
	zone := w.line(m).Zone
	return w.count(t.Group, func(o int32) bool { return o == m || t.Zone && w.line(o).Zone == zone })
}

func (w *softModel) score(app, m int32, all []int32) (sum float64) {
	for _, t := range w.inst.Apps[app].Soft {
		n := w.near(t, m)
		switch {
		case t.Kind == Apart && n == 0, t.Kind == Near && n > 0:
			sum += float64(t.Weight)
		case t.Kind == Even:
			least := math.MaxInt
			for _, o := range all {
				least = min(least, w.near(t, o))
			}
			sum -= float64(t.Weight) * float64(n-least)
		}
	}
	return sum
}

// choose is the machine that the definition names for an item, of those that take it.
func (w *softModel) choose(item Item, all []int32) int32 {
	group := w.inst.Apps[item.App].Group
	declared := 0.
	for _, a := range w.inst.Apps {
		if a.Group == group {
			declared += a.Expected
		}
	}
	if w.care.MaxShareOfApp > 0 && w.care.MaxShareOfApp < 1 && declared > 0 {
		most := max(1, int(math.Ceil(w.care.MaxShareOfApp*declared)))
		var below []int32
		for _, m := range all {
			if w.count(group, func(o int32) bool { return o == m }) < most {
				below = append(below, m)
			}
		}
		if len(below) > 0 {
			all = below
		}
	}
	best, any, scores := math.Inf(-1), math.Inf(-1), map[int32]float64{}
	for _, m := range all {
		scores[m] = w.score(item.App, m, all)
		if any = max(any, scores[m]); w.there(m) {
			best = max(best, scores[m])
		}
	}
	if math.IsInf(best, -1) {
		best = any
	}
	chosen, most := int32(-1), math.Inf(-1)
	for _, m := range all {
		soft, score := scores[m], noiseOf(item, m)
		switch w.care.Mode { //nolint:exhaustive // ignore has no terms
		case "", SoftKeep:
			if soft < best-w.care.Loss {
				continue
			}
		case SoftTrade:
			if !w.there(m) { // no machine is added for a preference
				soft = min(soft, best)
			}
			score += w.care.Price * soft
		}
		if score > most || score == most && w.before(m, chosen) {
			chosen, most = m, score
		}
	}
	return chosen
}

// The state chooses as the definition says, and its ranking begins with that choice, while random
// apps with and without preferences come and leave, in fleets with hard limits and rules by zone
// too, of which none is broken. SIGMA_PLACEMENTS sets the number of placements.
func TestPreferencesFollowTheirDefinition(t *testing.T) {
	want := 20_000
	if text := os.Getenv("SIGMA_PLACEMENTS"); text != "" {
		var err error
		if want, err = strconv.Atoi(text); err != nil || want < 1 {
			t.Fatalf("SIGMA_PLACEMENTS %q: want a number above 0", text)
		}
	}
	placed, open, hard, decided := 0, 0, 0, map[SoftMode]int{}
	for seed := uint64(0); placed < want; seed++ {
		rng := rand.New(rand.NewPCG(seed, 18))
		inst := &Instance{Dimensions: []Dimension{{Name: "cpu", One: 1}}, Types: []string{""}, Fleet: Fixed}
		zones := 1 + rng.IntN(4)
		for i := range 4 + rng.IntN(9) {
			line := MachineLine{Name: fmt.Sprint(i), Count: 1, Capacity: []int64{int64(4 + rng.IntN(20))}}
			if z := rng.IntN(zones); z > 0 {
				line.Zone = fmt.Sprint(z)
			}
			inst.Machines = append(inst.Machines, line)
		}
		if seed%3 == 0 { // an autoscaler adds machines of some lines
			inst.Fleet = Open
			for i := range inst.Machines {
				inst.Machines[i].Count = []int{1, 2, Unlimited}[rng.IntN(3)]
			}
		}
		groups := 2 + rng.IntN(3)
		for g := range groups {
			group := Group{Name: fmt.Sprint(g)}
			if seed%2 == 0 && rng.IntN(2) == 0 {
				group.Zone = ZoneLimits{Limit: int32(rng.IntN(5)), SpreadMin: int32(rng.IntN(3)), Skew: int32(rng.IntN(3))}
			}
			inst.Groups = append(inst.Groups, group)
		}
		if seed%4 == 0 {
			inst.ZoneRules = append(inst.ZoneRules, Rule{A: 0, B: 1, Max: int32(rng.IntN(3))})
		}
		for a := range groups + 2 {
			app := App{Name: fmt.Sprint(a), Group: int32(a % groups), Demand: []int64{int64(1 + rng.IntN(3))}, Expected: float64(rng.IntN(9))}
			for range rng.IntN(4) {
				app.Soft = append(app.Soft, SoftTerm{Kind: SoftKind(rng.IntN(3)), Zone: rng.IntN(2) > 0, Weight: int32(1 + rng.IntN(100)), Group: int32(rng.IntN(groups))})
			}
			inst.Apps = append(inst.Apps, app)
		}
		care := []Care{{}, {Loss: 30}, {Mode: SoftTrade, Price: .1}, {Mode: SoftIgnore}}[rng.IntN(4)]
		care.MaxShareOfApp = []float64{0, .25, .5, 1}[rng.IntN(4)]
		s := NewState(inst)
		w := &softModel{inst, care, map[int32][]int32{}, s.Position}
		s.Care = care
		for _, a := range inst.Apps {
			s.Declared = append(s.Declared, a.Expected)
		}
		for range 200 {
			item := Item{App: int32(rng.IntN(len(inst.Apps))), Serial: rng.Uint64N(1 << 20)}
			if all := s.Feasible(item.App, nil); len(all) > 0 && rng.IntN(3) > 0 {
				chosen := w.choose(item, all)
				again := slices.Clone(all)
				ranked, _ := s.Rank(noise{}, item, all, 3, nil)
				for i := range all { // the caller uses its list for something else
					all[i] = all[len(all)-1]
				}
				got, err := s.Choose(noise{}, item)
				if err != nil || got != chosen || ranked[0].Machine != chosen {
					t.Fatalf("seed %d, %+v: app %+v goes to machine %d, %v, and first in the ranking is %d; the definition says %d", seed, care, inst.Apps[item.App], got, err, ranked[0].Machine, chosen)
				}
				// Without a placement in between, some of the machines are another question.
				some := again[:1+rng.IntN(len(again))]
				if ranked, _ = s.Rank(noise{}, item, some, 1, nil); ranked[0].Machine != w.choose(item, some) {
					t.Fatalf("seed %d, %+v: of %v app %d goes to machine %d, not to %d", seed, care, some, item.App, ranked[0].Machine, w.choose(item, some))
				}
				s.Place(item, got, nil)
				w.stand[got] = append(w.stand[got], item.App)
				if what := w.broken(item.App, got); what != "" {
					t.Fatalf("seed %d: app %d on machine %d breaks a hard %s", seed, item.App, got, what)
				}
				placed++
				decided[cmp.Or(care.Mode, SoftKeep)]++
				if inst.Fleet == Open {
					open++
				}
				if s.ByZone(inst.Apps[item.App].Group) {
					hard++
				}
				continue
			}
			m := int32(rng.IntN(s.Size()))
			if apps := w.stand[m]; len(apps) > 0 {
				s.Remove(apps[0], m, nil)
				w.stand[m] = apps[1:]
			}
		}
	}
	t.Logf("%d placements: %d in open fleets, %d of groups that zones bind; keep %d, trade %d, ignore %d", placed, open, hard, decided[SoftKeep], decided[SoftTrade], decided[SoftIgnore])
	if open < placed/5 || hard < placed/10 || len(decided) != 3 {
		t.Error("some kind of placement is too rare")
	}
}

// What is given up is how far a machine is below the best of those that are there, of the weights
// of all terms: with 60 for an own machine and 40 for a zone that has some, beside an item on a.
func TestGivenUp(t *testing.T) {
	inst := &Instance{
		Dimensions: []Dimension{{Name: "cpu", One: 1}}, Types: []string{""}, Groups: []Group{{Name: "g"}, {Name: "h"}},
		Machines: []MachineLine{
			{Name: "a", Count: 1, Capacity: []int64{9}, Zone: "x"}, {Name: "b", Count: 1, Capacity: []int64{9}, Zone: "x"}, {Name: "c", Count: 1, Capacity: []int64{9}, Zone: "y"},
		},
		Apps: []App{{Name: "g", Demand: []int64{1}, Soft: []SoftTerm{{Kind: Apart, Weight: 60}, {Kind: Near, Zone: true, Weight: 40}}}, {Name: "h", Group: 1, Demand: []int64{1}}},
	}
	s := NewState(inst)
	s.Place(Item{}, 0, nil)
	for m, want := range []float64{.6, 0, .4} {
		if got, ok := s.GivenUp(0, int32(m)); !ok || math.Abs(got-want) > 1e-12 {
			t.Errorf("machine %d: %v, %v; want %v", m, got, ok, want)
		}
	}
	if _, ok := s.GivenUp(1, 0); ok {
		t.Error("an app without terms gives something up")
	}
}

// An app that comes later counts in its zones as one of the instance does.
func TestAddedAppsHaveZones(t *testing.T) {
	inst := &Instance{
		Dimensions: []Dimension{{Name: "cpu", One: 1}}, Types: []string{""},
		Machines: []MachineLine{
			{Name: "a", Count: 1, Capacity: []int64{9}, Zone: "x"},
			{Name: "b", Count: 1, Capacity: []int64{9}, Zone: "x"},
			{Name: "c", Count: 1, Capacity: []int64{9}, Zone: "y"},
		},
	}
	s := NewState(inst)
	a := s.AddApp(App{Name: "late", Demand: []int64{1}, Soft: []SoftTerm{{Kind: Apart, Zone: true, Weight: 1}}}, Group{Name: "late"}, 0)
	for _, want := range []int32{0, 2} {
		m, err := s.Choose(firstOnly{}, Item{App: a})
		if err != nil || m != want {
			t.Fatalf("machine %d, %v; want %d", m, err, want)
		}
		s.Place(Item{App: a}, m, nil)
	}
}

// Where preferences are traded a machine that is kept back is 1 below the worst other, so that
// they can outweigh it; not so one that would have to be added.
func TestKeptBackIsForSale(t *testing.T) {
	for _, c := range []struct {
		price float64
		count int
		want  int32
	}{{.005, 2, 0}, {.02, 2, 1}, {.02, Unlimited, 0}, {9, Unlimited, 0}} { // 100·price against 1
		s := NewState(&Instance{
			Dimensions: []Dimension{{Name: "cpu", One: 1}}, Types: []string{""}, Groups: []Group{{Name: "a"}},
			Machines: []MachineLine{{Name: "m", Count: c.count, Capacity: []int64{9}}}, Fleet: Open,
			Apps: []App{{Name: "a", Demand: []int64{1}, Soft: []SoftTerm{{Kind: Apart, Weight: 100}}}},
		})
		s.Care = Care{Mode: SoftTrade, Price: c.price}
		s.Place(Item{}, 0, nil)
		if m, err := s.Choose(keepsBack{s}, Item{}); err != nil || m != c.want {
			t.Errorf("%+v: machine %d, %v", c, m, err)
		}
	}
}

type keepsBack struct{ s *State }

func (k keepsBack) Score(_ Item, candidates []int32, out []float64) {
	for i, m := range candidates {
		out[i] = 0
		if k.s.Items(m) == 0 {
			out[i] = -EmptyPenalty
		}
	}
}

// No preference adds a machine to a line without limit while a machine that is there takes the
// item; an empty one of a line with a count is there.
func TestPreferencesAddNoMachine(t *testing.T) {
	for count, want := range map[int][]int32{Unlimited: {0, 0, 0}, 9: {0, 1, 2}} {
		s := NewState(&Instance{
			Dimensions: []Dimension{{Name: "cpu", One: 1}}, Types: []string{""}, Fleet: Open, Groups: []Group{{Name: "a"}},
			Machines: []MachineLine{{Name: "m", Count: count, Capacity: []int64{9}}},
			Apps:     []App{{Name: "a", Demand: []int64{1}, Expected: -1, Soft: []SoftTerm{{Kind: Apart, Weight: 100}}}},
		})
		for i := range want {
			m, err := s.Choose(firstOnly{}, Item{})
			if err != nil || m != want[i] {
				t.Fatalf("count %d: item %d goes to machine %d, %v; want %d", count, i, m, err, want[i])
			}
			s.Place(Item{}, m, nil)
		}
	}
}

type firstOnly struct{}

func (firstOnly) Score(_ Item, _ []int32, out []float64) { clear(out) }

func TestSoftTermsThatAreWrong(t *testing.T) {
	for _, text := range []string{"apart", "apart:machine", "apart:rack:1", "far:zone:1", "near:zone:0", "near:zone:101", "near:zone:x", "even:zone:1:"} {
		if _, _, err := ParseSoftTerm(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	term, group, err := ParseSoftTerm("near:zone:7:db:x")
	if err != nil || group != "db:x" || term != (SoftTerm{Kind: Near, Zone: true, Weight: 7}) || term.Text(group) != "near:zone:7:db:x" {
		t.Error(term, group, err)
	}
	for _, c := range []Care{{Mode: "Keep"}, {Loss: -1}, {Loss: math.NaN()}, {Mode: SoftIgnore, Loss: 1}, {Price: 1}, {Mode: SoftTrade}, {Mode: SoftTrade, Price: math.Inf(1)}, {MaxShareOfApp: 1.5}, {MaxShareOfApp: math.NaN()}} {
		if c.Validate() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

package savings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// messy is a cluster of a number of nodes in two pools, about half full: some pods stay, some keep apart from their
// likes, and a few wait.
func messy(nodes int, seed uint64) *trace.Trace {
	rng := rand.New(rand.NewPCG(seed, 0))
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}},
		Types:      []string{"general", "memory"}, Fleet: binpack.Open,
	}
	t := &trace.Trace{Name: "messy", Instance: inst, MeasureFrom: math.NaN(), Source: map[string]any{"origin": "Kubernetes cluster", "currency": "USD"}}
	const gib = 1 << 30
	for i := range nodes {
		m := binpack.MachineLine{Name: fmt.Sprintf("node-%03d", i), Count: 1, Cost: .192, Capacity: []int64{3900, 15 * gib}}
		switch rng.IntN(3) {
		case 0:
			m.Cost, m.Capacity = .384, []int64{7900, 30 * gib}
		case 1:
			m.Type, m.Cost, m.Capacity = 1, .252, []int64{3900, 30 * gib}
		}
		inst.Machines = append(inst.Machines, m)
	}
	for a := range max(4, nodes/2) {
		app := binpack.App{Group: int32(a), Expected: 4, Lifetime: -1, Demand: []int64{int64(100 + 200*rng.IntN(8)), int64(1+rng.IntN(4)) * gib / 2}}
		app.Name = fmt.Sprintf("team-%d/Deployment/app-%d@cpu=%dm,memory=%d", a%3, a, app.Demand[0], app.Demand[1])
		group := binpack.Group{Name: app.Name}
		if a%5 == 0 {
			group.Limit = 1
		}
		if a%7 == 0 {
			app.Types = []int32{1}
		}
		inst.Apps, inst.Groups = append(inst.Apps, app), append(inst.Groups, group)
	}
	state := binpack.NewState(inst)
	fixed, used, on := map[string]any{}, make([]int64, nodes), map[[2]int32]bool{}
	for i := range nodes * 6 {
		a, m := int32(rng.IntN(len(inst.Apps))), int32(rng.IntN(nodes))
		app, line := &inst.Apps[a], &inst.Machines[m]
		if used[m]+app.Demand[0] > line.Capacity[0]*2/3 || app.Types != nil && line.Type != 1 || inst.Groups[a].Limit > 0 && on[[2]int32{a, m}] {
			continue
		}
		if state.PlaceAs(a, state.MachineAt(m, 0), nil) != nil {
			continue
		}
		used[m] += app.Demand[0]
		on[[2]int32{a, m}] = true
		name := fmt.Sprintf("team-%d/app-%d-%d", a%3, a, i)
		t.Requests = append(t.Requests, trace.Request{Name: name, App: a, Count: 1})
		t.Placed = append(t.Placed, trace.Placed{Request: int32(len(t.Requests) - 1), Line: m, Count: 1})
		if rng.IntN(12) == 0 {
			fixed[name] = "it has local storage"
		}
	}
	t.Initial = len(t.Requests)
	t.Requests = append(t.Requests, trace.Request{Name: "team-0/waits", App: 0, Count: 1})
	t.Events = []trace.Event{{Kind: trace.Create, Request: int32(t.Initial), Count: 1}}
	t.Source["fixed"] = fixed
	t.Source[clusterKey] = map[string]any{
		"nodes": map[string]any{
			"dead": map[string]any{"why": "not well", "cost": .384, "stays": true}, "cordoned": map[string]any{"why": "cordoned", "cost": .192},
		},
		"waiting": map[string]any{"team-0/waits": "too little cpu is free"},
	}
	return t
}

func billOf(t *testing.T, tr *trace.Trace) *Bill {
	t.Helper()
	b, err := Of(t.Context(), tr, Options{Source: Source{Trace: "snap"}, Catalog: compare.Catalog{Shipped: policies.Files}, Workers: 2, Seed: 1})
	require.NoError(t, err)
	return b
}

// requireSums holds that the parts are the whole, to the cent, and that no step is above its bound.
func requireSums(t *testing.T, b *Bill) {
	t.Helper()
	sum := b.Rest + b.Cost.Floor
	for i := range b.Steps {
		if m := b.Steps[i].Money; m != nil {
			sum += m.Mean
			require.LessOrEqual(t, m.Mean, b.Steps[i].Bound, b.Steps[i].Cause)
			require.GreaterOrEqual(t, m.Mean, Cents(0), b.Steps[i].Cause)
			require.LessOrEqual(t, m.Low, m.Mean)
			require.LessOrEqual(t, m.Mean, m.High)
		}
	}
	require.Equal(t, b.Cost.Now, sum)
	require.GreaterOrEqual(t, b.Rest, Cents(0))
}

func TestPartsAreTheWhole(t *testing.T) {
	for seed := range uint64(6) {
		tr := messy(20+10*int(seed), seed)
		b := billOf(t, tr)
		requireSums(t, b)
		hourly := .384 + .192
		for _, m := range tr.Instance.Machines {
			hourly += m.Cost
		}
		require.Equal(t, aMonth(hourly), b.Cost.Now, "all nodes are in the bill")
		require.Positive(t, b.Steps[0].Money.Mean)
		require.Equal(t, []Pending{{heldText, 1, "team-0/waits"}}, b.Pending)
		require.Len(t, b.Excluded, 2)
	}
}

func TestScreenFits(t *testing.T) {
	tr := messy(30, 1)
	b := billOf(t, tr)
	b.source = Source{Snapshot: "sigma snapshot --out snap --kubeconfig " + strings.Repeat("long/", 20) + "config"}
	b.Currency = ""
	var screen bytes.Buffer
	require.NoError(t, b.Print(&screen, false))
	lines := strings.Split(strings.TrimSuffix(screen.String(), "\n"), "\n")
	require.LessOrEqual(t, len(lines), screenLines)
	for _, line := range lines {
		if !strings.Contains(line, "long/") { // a word is not broken
			require.LessOrEqual(t, utf8.RuneCountInString(line), screenWidth, line)
		}
	}
	require.NotContains(t, screen.String(), "\x1b")
	screen.Reset()
	require.NoError(t, b.Print(&screen, true))
	require.Contains(t, screen.String(), "\x1b[")
}

func TestSameSeedSameBytes(t *testing.T) {
	var texts []string
	for _, workers := range []int{1, 3} {
		b, err := Of(t.Context(), messy(20, 3), Options{Catalog: compare.Catalog{Shipped: policies.Files}, Workers: workers, Seed: 1})
		require.NoError(t, err)
		text, err := json.Marshal(b)
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	require.Equal(t, texts[0], texts[1])
}

func TestNoPlacement(t *testing.T) {
	tr := messy(20, 1)
	tr.Placed, tr.Source["origin"] = nil, "generated"
	_, err := Of(t.Context(), tr, Options{})
	require.ErrorIs(t, err, errNoPlacement)
}

// A longer past: items that left are not in the bill, and the machine of later ones is in the source.
func TestPresentOfAPast(t *testing.T) {
	tr := messy(20, 1)
	delete(tr.Source, clusterKey)
	tr.Requests = append(tr.Requests, trace.Request{Name: "later", App: 1, Count: 1})
	tr.Events = append(tr.Events,
		trace.Event{Time: 1, Kind: trace.Create, Request: int32(len(tr.Requests) - 1), Count: 1},
		trace.Event{Time: 2, Kind: trace.Delete, Request: 0, Count: 1})
	tr.Source["placements"] = map[string]any{"later": "node-003"}
	p, err := presentOf(tr)
	require.NoError(t, err)
	require.Len(t, p.t.Placed, len(tr.Placed))
	require.NotEqual(t, tr.Requests[0].Name, p.t.Requests[0].Name)
	last := p.t.Placed[len(p.t.Placed)-1]
	require.Equal(t, "later", p.t.Requests[last.Request].Name)
	require.Equal(t, "node-003", p.t.MachineName(last.Line, last.Index))
	require.Equal(t, []string{"team-0/waits"}, p.waiting)
	loose := p.loose(0)
	require.Len(t, loose.Placed, len(p.fixed))
	require.Equal(t, len(p.t.Placed), len(loose.Placed)+len(loose.Events))
	require.False(t, slices.ContainsFunc(loose.Events, func(e trace.Event) bool { return e.Kind == trace.Delete }))
}

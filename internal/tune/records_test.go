//go:build records

package tune

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// setting is a number of the environment, or its default.
func setting(name string, standard int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(standard)))
	if err != nil {
		panic(name + ": " + err.Error())
	}
	return n
}

// generated is an instance whose parameters are given as name=value.
func generated(t *testing.T, kind string, seed int, set ...string) *trace.Trace {
	values := map[string]string{}
	for _, s := range set {
		name, value, _ := strings.Cut(s, "=")
		values[name] = value
	}
	tr, err := generate.Generate(kind, uint64(seed), values)
	require.NoError(t, err)
	return tr
}

// tuned is the policy that a user of `sigma tune` has after the command's advice, and the result.
func tuned(t *testing.T, until float64, evaluations, seeds int, history ...*trace.Trace) (binpack.Policy, *Result) {
	result, err := Run(t.Context(), Config{
		Traces: history, Until: until, Target: Live, InForce: "learned",
		Evaluations: evaluations, Seeds: seeds, Seed: 1, Workers: 2, Name: "tuned",
	})
	require.NoError(t, err)
	var p binpack.Policy
	switch {
	case !result.Better:
		p, err = policy.Shipped().Policy()
	case result.Object != nil:
		p, err = result.Object.Policy()
	default:
		p, err = rule.ByName(result.Chosen, rule.Options{Seed: 1, TiesByPosition: true})
	}
	require.NoError(t, err)
	return p, result
}

// after is what a policy costs from a time on, and the items for which it then finds no place
// at once.
func after(t *testing.T, tr *trace.Trace, from float64, p binpack.Policy) (cost float64, unplaced int) {
	w := *tr
	w.MeasureFrom = from
	run, err := cerebro.NewReplayer(&w).Run(p, cerebro.Options{
		Retry: true, Brief: true, Fallback: rule.Fallback{},
		Record: func(d cerebro.Decision) {
			if d.Kind == cerebro.Unplaced && d.Time >= from {
				unplaced++
			}
		},
	})
	require.NoError(t, err)
	return run.CostSeconds, unplaced
}

// spread is a mean with its standard error, the worst, and how many are above a limit.
func spread(values []float64, limit float64) string {
	mean, square, above := 0., 0., 0
	for _, v := range values {
		mean += v / float64(len(values))
		if v > limit {
			above++
		}
	}
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	n := float64(len(values))
	return fmt.Sprintf("%+.2f ± %.2f %%, at worst %+.2f %%, by more than %v %% in %d of %d", mean, math.Sqrt(square/(n*max(1, n-1))), slices.Max(values), limit, above, len(values))
}

// chosenOf is the policy that was chosen.
func chosenOf(result *Result) string {
	return result.Test[slices.IndexFunc(result.Test, func(r Row) bool { return r.Chosen })].Policy
}

// sentence is the verdict with the policy that was judged.
func sentence(result *Result) string {
	if !result.Better {
		return result.Sentence()
	}
	return result.Sentence() + " (" + chosenOf(result) + ")"
}

// tight is the least that `sigma generate kubernetes` draws for f.
const tight = "f=1.01"

// TestRecordFixed: tight fixed clusters, tuned on day one, items without a place at once on
// day two.
func TestRecordFixed(t *testing.T) {
	first, n := setting("TUNE_SEED", 910000), setting("TUNE_FIXED", 6)
	own, base := 0, 0
	for i := range n {
		tr := generated(t, "kubernetes", first+i, "fleet=fixed", tight, "nodes="+cmp.Or(os.Getenv("TUNE_NODES"), "0"))
		p, result := tuned(t, day, DefaultEvaluations, DefaultSeeds, tr)
		from := tr.Events[0].Time + day
		_, a := after(t, tr, from, p)
		_, b := after(t, tr, from, rule.BestFit{})
		fmt.Printf("- fixed %d: %d, Best-Fit %d; %s\n", first+i, a, b, sentence(result))
		own, base = own+a, base+b
	}
	fmt.Printf("\nPods without a place at once, sum of %d: %d, Best-Fit %d: %.1f %%\n", n, own, base, 100*float64(own)/float64(max(1, base)))
}

// drifting is one cluster until an hour, and then another on its machines.
func drifting(t *testing.T, a, b *trace.Trace, at float64) *trace.Trace {
	start := a.Events[0].Time
	out := *a.Window(start, start+at, nil)
	inst := *out.Instance
	apps, groups := int32(len(inst.Apps)), int32(len(inst.Groups))
	inst.Apps, inst.Groups, inst.Rules = slices.Clone(inst.Apps), slices.Clone(inst.Groups), slices.Clone(inst.Rules)
	for _, g := range b.Instance.Groups {
		g.Name = "b-" + g.Name
		inst.Groups = append(inst.Groups, g)
	}
	for _, app := range b.Instance.Apps {
		app.Name, app.Group = "b-"+app.Name, app.Group+groups
		inst.Apps = append(inst.Apps, app)
	}
	for _, rule := range b.Instance.Rules {
		rule.A, rule.B = rule.A+groups, rule.B+groups
		inst.Rules = append(inst.Rules, rule)
	}
	out.Instance = &inst
	alive := make([]int32, len(out.Requests))
	for _, e := range out.Events {
		if e.Kind == trace.Create {
			alive[e.Request] += e.Count
		} else {
			alive[e.Request] -= e.Count
		}
	}
	next := *b.Window(b.Events[0].Time+at, math.Inf(1), nil)
	shift := start - b.Events[0].Time
	first := int32(len(out.Requests))
	for _, q := range next.Requests {
		q.Name, q.App = "b-"+q.Name, q.App+apps
		out.Requests = append(out.Requests, q)
	}
	for i, n := range alive { // the old leave within two hours
		if n > 0 {
			out.Events = append(out.Events, trace.Event{Time: start + at + 2*hour*float64(i)/float64(len(alive)), Kind: trace.Delete, Request: int32(i), Count: n})
		}
	}
	for _, e := range next.Events {
		e.Time, e.Request = e.Time+shift, e.Request+first
		out.Events = append(out.Events, e)
	}
	slices.SortStableFunc(out.Events, func(x, y trace.Event) int { return cmp.Compare(x.Time, y.Time) })
	return &out
}

// fitsAll reports whether each app of b fits on the nodes of a.
func fitsAll(a, b *trace.Trace) bool {
	return !slices.ContainsFunc(b.Instance.Apps, func(app binpack.App) bool {
		for d, need := range app.Demand {
			if need > a.Instance.Machines[0].Capacity[d] {
				return true
			}
		}
		return false
	})
}

// TestRecordDrift: the mix of apps changes at the end of day two of six, tune runs each night and
// its policy has the next day.
func TestRecordDrift(t *testing.T) {
	first, n := setting("TUNE_SEED", 910000)+100, setting("TUNE_DRIFTS", 1)
	var against []float64
	for i := range n {
		a := generated(t, "kubernetes", first+20*i, "fleet=one", "nodes=20", "days=6")
		b := generated(t, "kubernetes", first+20*i+1, "fleet=one", "nodes=20", "days=6")
		for seed := first + 20*i + 2; !fitsAll(a, b); seed++ {
			b = generated(t, "kubernetes", seed, "fleet=one", "nodes=20", "days=6")
		}
		tr := drifting(t, a, b, 2*day)
		start := tr.Events[0].Time
		for night := 1.; night <= 5; night++ {
			p, result := tuned(t, night*day, 100, 2, tr)
			w := tr.Window(start+(night-1)*day, start+(night+1)*day, nil)
			own, _ := after(t, w, start+night*day, p)
			base, _ := after(t, w, start+night*day, rule.BestFit{})
			against = append(against, 100*(own/base-1))
			fmt.Printf("- drift %d, day %v: %+.2f %%; %s\n", first+20*i, night+1, against[len(against)-1], sentence(result))
		}
	}
	fmt.Printf("\nCost-seconds of the day after against Best-Fit %s\n", spread(against, 1))
}

// TestRecordCPU: CPU seconds of tune on 48 h of 200 nodes.
func TestRecordCPU(t *testing.T) {
	tr := generated(t, "kubernetes", setting("TUNE_SEED", 910000), "fleet=one", "nodes=200")
	before := cputime.Process()
	_, result := tuned(t, 0, DefaultEvaluations, DefaultSeeds, tr)
	fmt.Printf("%.0f CPU-seconds for 48 h of 200 nodes; %s\n", (cputime.Process() - before), result.Sentence())
}

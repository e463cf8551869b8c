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
	"github.com/sigma-scheduler/sigma/binpack/bound"
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
	if result.Object == nil {
		p, err := rule.ByName(result.Chosen, rule.Options{Seed: 1, TiesByPosition: true})
		require.NoError(t, err)
		return p, result
	}
	p, err := result.Object.Policy()
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

// TestRecordDays: tune on day one of generated clusters, its file judged on day two.
func TestRecordDays(t *testing.T) {
	first := setting("TUNE_SEED", 910000)
	for i, fleet := range []string{"one", "open"} {
		t.Run(fleet, func(t *testing.T) {
			n := setting("TUNE_CLUSTERS", []int{6, 3}[i])
			var against []float64
			said := map[string]int{}
			for seed := first; seed < first+n; seed++ {
				tr := generated(t, "kubernetes", seed, "fleet="+fleet, "nodes="+cmp.Or(os.Getenv("TUNE_NODES"), "0"))
				p, result := tuned(t, day, 200, 2, tr)
				from := tr.Events[0].Time + day
				own, _ := after(t, tr, from, p)
				base, _ := after(t, tr, from, rule.BestFit{})
				against = append(against, 100*(own/base-1))
				said[result.verdict()]++
				fmt.Printf("- %s %d: day two %+.2f %%; %s\n", fleet, seed, against[len(against)-1], sentence(result))
			}
			fmt.Printf("\n%s: cost-seconds of day two against Best-Fit %s; verdicts: %d better, %d no better\n\n",
				fleet, spread(against, 1), said["better"], said["no better"])
		})
	}
}

// TestRecordUnproven: the shipped file for clusters whose pods leave, taken where day one says so: always,
// where it saved anything on the judging part, and only where it is better. Seeds are for validation.
func TestRecordUnproven(t *testing.T) {
	against := map[string][]float64{}
	for seed := 301; seed < 301+setting("TUNE_UNPROVEN", 30); seed++ {
		tr := generated(t, "kubernetes", seed, "fleet=one")
		own, err := forLeaving()[0].Policy()
		require.NoError(t, err)
		r := &run{cfg: Config{Until: day}, traces: []*trace.Trace{tr}}
		require.NoError(t, r.begin())
		found, err := judge(t.Context(), r.traces, r.split.test, []*candidate{{policy: own}, {policy: rule.BestFit{}}}, 1, 2)
		require.NoError(t, err)
		s := byCost.saving(found[0], found[1], 1)
		from := tr.Events[0].Time + day
		cost, _ := after(t, tr, from, own)
		base, _ := after(t, tr, from, rule.BestFit{})
		for name, taken := range map[string]bool{"always": true, "where it saved anything": s.Mean > 0, "better": s.Low > 0} {
			v := 0.
			if taken {
				v = 100 * (cost/base - 1)
			}
			against[name] = append(against[name], v)
		}
	}
	for _, name := range []string{"always", "where it saved anything", "better"} {
		fmt.Printf("- %s: %s\n", name, spread(against[name], 1))
	}
}

// judged is the policy that was chosen.
func judged(result *Result) string {
	return result.Test[slices.IndexFunc(result.Test, func(r Row) bool { return r.Chosen })].Policy
}

// sentence is the verdict with the policy that was judged.
func sentence(result *Result) string {
	if !result.Better {
		return result.Sentence()
	}
	return result.Sentence() + " (" + judged(result) + ")"
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
		p, result := tuned(t, day, 200, 2, tr)
		from := tr.Events[0].Time + day
		_, a := after(t, tr, from, p)
		_, b := after(t, tr, from, rule.BestFit{})
		fmt.Printf("- fixed %d: %d, Best-Fit %d; %s\n", first+i, a, b, sentence(result))
		own, base = own+a, base+b
	}
	fmt.Printf("\nPods without a place at once, sum of %d: %d, Best-Fit %d: %.1f %%\n", n, own, base, 100*float64(own)/float64(max(1, base)))
}

// The rules of the settings, as notes on choosing by replay have them.
var baselines = []string{"bestfit", "worstfit", "dotproduct", "firstfit", "movetofront", "bestfit-l2"}

// TestRecordSettings: tune on six fill-ups or three times two days of a kind, judged on others of it.
func TestRecordSettings(t *testing.T) {
	const history, tests = 6, 3
	unseen := setting("TUNE_UNSEEN", 981000)
	only := os.Getenv("TUNE_KIND")
	sum, worse, count := 0., 0, 0
	for _, s := range []struct {
		kind, know string
		set        []string
	}{
		{"small", "K1", nil}, {"large", "K0", nil}, {"large", "K1", nil}, {"large", "K1", []string{"forecast=1.3"}},
		{"large", "K1", []string{"noise=.7"}}, {"large2d", "K0", nil}, {"large3d", "K0", nil}, {"fixed", "K0", []string{"f=1.02"}},
		{"churn", "K0", []string{"burst=8", "days=2"}}, {"churn", "K1", []string{"burst=40", "days=2"}}, {"orlib", "K0", nil}, {"weibull", "K0", []string{"n=1000"}},
	} {
		if only != "" && only != s.kind {
			continue
		}
		draw := func(seed int) *trace.Trace {
			tr := generated(t, s.kind, seed, s.set...)
			if s.know == "K0" {
				inst := *tr.Instance
				inst.Apps = slices.Clone(inst.Apps)
				for a := range inst.Apps {
					inst.Apps[a].Expected, inst.Apps[a].Lifetime = -1, -1
				}
				tr.Instance = &inst
			}
			return tr
		}
		many := history
		if s.kind == "churn" {
			many = 3
		}
		var past []*trace.Trace
		for i := range many {
			past = append(past, draw(600201+i))
		}
		p, result := tuned(t, 0, 40, 1, past...)
		policies := []binpack.Policy{p}
		for _, name := range baselines {
			b, err := rule.ByName(name, rule.Options{Seed: 1})
			require.NoError(t, err)
			policies = append(policies, b)
		}
		gaps := make([]float64, len(policies))
		for i := range tests {
			r := cerebro.NewReplayer(draw(unseen + i))
			shuffles := []int{1, 2, 3}
			if r.Deletes() {
				shuffles = []int{0} // shuffling would change the load
			}
			for k, p := range policies {
				for _, order := range shuffles {
					run, err := r.Run(p, cerebro.Options{Order: order, Seed: 1, Brief: true, Fallback: rule.Fallback{}})
					require.NoError(t, err)
					gaps[k] += gap(r, &run) / float64(tests*len(shuffles))
				}
			}
		}
		best := 1 + slices.Index(gaps[1:], slices.Min(gaps[1:]))
		chosen := cmp.Or(result.Chosen, "file")
		if len(result.Test) > 1 && result.Better {
			chosen = judged(result)
		}
		fmt.Printf("| %s %s %s | %s | %.2f | %s | %.2f |\n", s.kind, s.know, strings.Join(s.set, " "), chosen, gaps[0], baselines[best-1], gaps[best])
		sum, count = sum+gaps[0], count+1
		if gaps[0] > gaps[best]+.6 {
			worse++
		}
	}
	fmt.Printf("\nMean gap %.2f %%; worse than the best rule in hindsight by > .6 points in %d of %d\n", sum/float64(count), worse, count)
}

// gap is what a run needs beyond the volume bound, or on a fixed fleet what it rejects, %.
func gap(r *cerebro.Replayer, run *cerebro.Run) float64 {
	tr := r.Trace()
	if tr.Instance.Fleet == binpack.Fixed {
		return 100 * slices.Max(run.Rejected)
	}
	items := make([]int64, len(tr.Instance.Apps))
	var changes []bound.Change
	for _, e := range tr.Events {
		c := bound.Change{Time: e.Time, App: tr.Requests[e.Request].App, Count: e.Count}
		if e.Kind == trace.Delete {
			c.Count = -c.Count
		} else {
			items[c.App] += int64(c.Count)
		}
		changes = append(changes, c)
	}
	if r.Deletes() {
		return 100 * (run.CostSeconds/bound.VolumeOverTime(tr.Instance, changes, tr.MeasureFrom).CostSeconds - 1)
	}
	return 100 * (run.Cost/bound.Volume(tr.Instance, items).Cost - 1)
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
	_, result := tuned(t, 0, 200, 2, tr)
	fmt.Printf("%.0f CPU-seconds for 48 h of 200 nodes; %s\n", (cputime.Process() - before), result.Sentence())
}

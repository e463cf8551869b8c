//go:build records

package tune

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	product "github.com/sigma-scheduler/sigma/internal/tune"
	_ "github.com/sigma-scheduler/sigma/lab/instances"
	_ "github.com/sigma-scheduler/sigma/lab/policies"
	_ "github.com/sigma-scheduler/sigma/lab/population"
)

// draw is an instance whose parameters are given as name=value; without a forecast at K0.
func draw(t *testing.T, kind, know string, seed uint64, set []string) *trace.Trace {
	parameters := map[string]string{}
	for _, s := range set {
		at := strings.Index(s, "=")
		parameters[s[:at]] = s[at+1:]
	}
	tr, err := generate.Generate(kind, seed, parameters)
	require.NoError(t, err)
	for a := range tr.Instance.Apps {
		if app := &tr.Instance.Apps[a]; know == "K0" {
			app.Expected, app.Lifetime = -1, -1
		}
	}
	return tr
}

// advised is the policy of a user who does what `sigma tune` prints.
func advised(t *testing.T, result *product.Result) (p binpack.Policy) {
	var err error
	switch {
	case !result.Better:
		p, err = policy.Shipped().Policy()
	case result.Object != nil:
		p, err = result.Object.Policy()
	default:
		p, err = rule.ByName(result.Chosen, rule.Options{Seed: 1, TiesByPosition: true})
	}
	require.NoError(t, err)
	return p
}

// The rules of the settings, as notes on choosing by replay have them.
var baselines = []string{"bestfit", "worstfit", "dotproduct", "firstfit", "movetofront", "bestfit-l2"}

// TestRecordSettings: tune on six fill-ups or three times two days of a kind, judged on others of it.
func TestRecordSettings(t *testing.T) {
	const history, tests = 6, 3
	const unseen = 981000
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
		many := history
		if s.kind == "churn" {
			many = 3
		}
		var past []*trace.Trace
		for i := range many {
			past = append(past, draw(t, s.kind, s.know, uint64(600201+i), s.set))
		}
		result, err := product.Run(t.Context(), product.Config{Traces: past, Target: product.Live, InForce: "learned", Evaluations: 40, Seeds: 1, Seed: 1, Workers: 2, Name: "tuned"})
		require.NoError(t, err)
		policies := []binpack.Policy{advised(t, result)}
		for _, name := range baselines {
			b, err := rule.ByName(name, rule.Options{Seed: 1})
			require.NoError(t, err)
			policies = append(policies, b)
		}
		gaps := make([]float64, len(policies))
		for i := range tests {
			r := cerebro.NewReplayer(draw(t, s.kind, s.know, uint64(unseen+i), s.set))
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
		chosen := installed
		if result.Better {
			chosen = result.Test[slices.IndexFunc(result.Test, func(r product.Row) bool { return r.Chosen })].Policy
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

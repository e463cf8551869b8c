package generate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A history is what the pods of a trace do.
type history struct {
	created, deleted []float64 // per request; deleted is +Inf for a pod that stays
	changes          []bound.Change
	most             []int // alive at the same time, per app
}

func follow(t testing.TB, tr *trace.Trace) history {
	t.Helper()
	h := history{most: make([]int, len(tr.Instance.Apps))}
	living := make([]int, len(tr.Instance.Apps))
	last := trace.Event{Kind: trace.Delete}
	for _, e := range tr.Events {
		require.True(t, last.Time < e.Time || last.Time == e.Time && last.Kind >= e.Kind, "deletes first")
		last = e
		app := tr.Requests[e.Request].App
		if e.Kind == trace.Create {
			require.Len(t, h.created, int(e.Request))
			h.created = append(h.created, e.Time)
			h.deleted = append(h.deleted, math.Inf(1))
			h.changes = append(h.changes, bound.Change{Time: e.Time, App: app, Count: e.Count})
			living[app]++
			h.most[app] = max(h.most[app], living[app])
			continue
		}
		require.Less(t, h.created[e.Request], e.Time)
		require.True(t, math.IsInf(h.deleted[e.Request], 1))
		h.deleted[e.Request] = e.Time
		living[app]--
		h.changes = append(h.changes, bound.Change{Time: e.Time, App: app, Count: -e.Count})
	}
	return h
}

func isJob(a binpack.App) bool { return strings.HasPrefix(a.Name, "cron") }

func TestKubernetes(t *testing.T) {
	const seeds = 40
	var apps, jobs, one, two, spread, rules, scaling, pods, turnover, steady float64
	least, most := math.MaxInt, 0
	for seed := range uint64(seeds) {
		tr := generate(t, "kubernetes", seed, nil)
		inst := tr.Instance
		require.InDelta(t, day, tr.MeasureFrom, 0)
		require.Len(t, inst.Machines, 1)
		require.Equal(t, binpack.Open, inst.Fleet)
		h := follow(t, tr)
		require.True(t, len(tr.Requests) > 1000 && len(tr.Requests) < 30000, len(tr.Requests))
		least, most = min(least, len(tr.Requests)), max(most, len(tr.Requests))
		pods += float64(len(tr.Requests)) / seeds
		first := make([]int, len(inst.Apps))
		for r, at := range h.created {
			app := tr.Requests[r].App
			require.Equal(t, int32(1), tr.Requests[r].Count)
			if at <= startUp {
				first[app]++
			}
			if isJob(inst.Apps[app]) && h.deleted[r] < math.Inf(1) {
				lived := h.deleted[r] - at
				require.True(t, lived > 10 && lived < 4*3600, lived)
			}
		}
		deployments := 0
		for i, a := range inst.Apps {
			require.InDelta(t, -1, a.Lifetime, 0)
			if isJob(a) {
				jobs++
				continue
			}
			deployments++
			apps++
			g := inst.Groups[i]
			switch {
			case g.Limit == 1:
				one++
			case g.Limit == 2:
				two++
			case g.SpreadMin >= 2:
				spread++
			}
			require.GreaterOrEqual(t, float64(first[i]), a.Expected)
			if first[i] > int(a.Expected) || h.most[i] > int(math.Ceil(1.25*a.Expected))+1 {
				scaling++
			}
			steady += a.Expected
			turnover -= a.Expected
		}
		require.True(t, deployments >= 30 && deployments <= 300, deployments)
		turnover += float64(len(tr.Requests))
		rules += float64(len(inst.Rules)) / 2
	}
	t.Logf("%d seeds: %.0f Deployments, %.2f jobs to one, shares of limit 1 %.3f, 2 %.3f, spread %.3f, scaling %.2f; %.1f apps to a rule; %.0f pods (%d…%d), %.2f new ones to one declared",
		seeds, apps/seeds, jobs/apps, one/apps, two/apps, spread/apps, scaling/apps, apps/rules, pods, least, most, turnover/steady)
	assert.InDelta(t, .175, jobs/apps, .03)
	assert.InDelta(t, .15, one/apps, .02)
	assert.InDelta(t, .07, two/apps, .02)
	assert.InDelta(t, .13, spread/apps, .02)
	assert.InDelta(t, 25, apps/rules, 2)
}

// The declared replicas fill the nodes asked for; the three fleets differ in sizes.
func TestKubernetesNodes(t *testing.T) {
	for _, tt := range []struct {
		fleet string
		want  binpack.Fleet
	}{{"one", binpack.Open}, {"open", binpack.Open}, {"fixed", binpack.Fixed}} {
		for seed := range uint64(10) {
			tr := generate(t, "kubernetes", seed, map[string]string{"fleet": tt.fleet, "nodes": "60", "days": ".5"})
			inst := tr.Instance
			require.Equal(t, tt.want, inst.Fleet)
			require.Equal(t, tt.fleet != "one", len(inst.Machines) > 1)
			for i := range inst.Machines {
				require.InDelta(t, inst.Machines[i].Cost, math.Ceil(float64(inst.Machines[i].Capacity[0])/940), 1, "cores")
			}
			if tt.fleet == "one" {
				n := make([]int64, len(inst.Apps))
				for i, a := range inst.Apps {
					if !isJob(a) {
						n[i] = int64(a.Expected)
					}
				}
				require.InDelta(t, 60, bound.Volume(inst, n).Machines, 3, "seed %d", seed)
			}
		}
	}
}

// A fixed fleet holds f times the peak volume, is hardly larger, and leaves room for
// every limit and exclusion.
func TestKubernetesFixed(t *testing.T) {
	for seed := range uint64(20) {
		tr := generate(t, "kubernetes", seed, map[string]string{"fleet": "fixed", "f": "1.2"})
		inst := tr.Instance
		h := follow(t, tr)
		peak, now, all := [2]int64{}, [2]int64{}, [2]int64{}
		for _, c := range h.changes {
			for d := range now {
				now[d] += int64(c.Count) * inst.Apps[c.App].Demand[d]
				peak[d] = max(peak[d], now[d])
			}
		}
		nodes := 0
		smallest := inst.Machines[0].Capacity
		for _, m := range inst.Machines {
			require.Positive(t, m.Count)
			nodes += m.Count
			for d := range all {
				all[d] += int64(m.Count) * m.Capacity[d]
			}
			if slices.Compare(m.Capacity, smallest) < 0 {
				smallest = m.Capacity
			}
		}
		ratio := [2]float64{float64(all[0]) / float64(peak[0]), float64(all[1]) / float64(peak[1])}
		require.GreaterOrEqual(t, min(ratio[0], ratio[1]), 1.2)
		over := 1.2 + max(float64(smallest[0])/float64(peak[0]), float64(smallest[1])/float64(peak[1]))
		require.LessOrEqual(t, min(ratio[0], ratio[1]), over+.05, "seed %d", seed)
		for i := range inst.Apps {
			if limit := int(inst.Groups[i].Limit); limit > 0 {
				require.LessOrEqual(t, h.most[i], limit*nodes, inst.Apps[i].Name)
			}
		}
	}
}

// With a third more than the peak volume, Best-Fit leaves hardly a pod out.
func TestKubernetesReplay(t *testing.T) {
	unplaced, pods := 0, 0
	for seed := range uint64(6) {
		tr := generate(t, "kubernetes", seed, map[string]string{"fleet": "fixed", "f": "1.3", "nodes": "40"})
		run, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Check: true})
		require.NoError(t, err)
		require.Zero(t, run.Violations)
		unplaced += run.Unplaced
		pods += len(tr.Requests)
	}
	t.Logf("%d of %d unplaced", unplaced, pods)
	assert.LessOrEqual(t, float64(unplaced), .001*float64(pods))
}

// GPUs are a dimension of nodes of their own, and only when asked for.
func TestKubernetesGPUs(t *testing.T) {
	require.Len(t, generate(t, "kubernetes", 3, tiny("kubernetes")).Instance.Dimensions, 2)
	ask, apps := 0., 0.
	for seed := range uint64(10) {
		tr := generate(t, "kubernetes", seed, map[string]string{"gpus": ".2", "fleet": "fixed", "f": "1.3", "days": ".5"})
		inst := tr.Instance
		require.Equal(t, gpuDimension, inst.Dimensions[2].Name)
		last := int32(len(inst.Machines) - 1)
		require.EqualValues(t, 4, inst.Machines[last].Capacity[2])
		h := follow(t, tr)
		gpus := int64(0)
		for i, a := range inst.Apps {
			if !isJob(a) {
				apps++
			}
			if a.Demand[2] == 0 {
				require.NotContains(t, a.Types, last)
				continue
			}
			ask++
			require.Equal(t, []int32{last}, a.Types)
			require.Zero(t, inst.Groups[i].Limit)
			gpus = max(gpus, int64(h.most[i])*a.Demand[2])
		}
		require.GreaterOrEqual(t, 4*int64(inst.Machines[last].Count), gpus)
	}
	assert.InDelta(t, .2, ask/apps, .03)
}

func TestKubernetesPods(t *testing.T) {
	tr := generate(t, "kubernetes", 7, map[string]string{"nodes": "20", "pods": "30"})
	require.Equal(t, "pods", tr.Instance.Dimensions[2].Name)
	r := cerebro.NewReplayer(tr)
	run, err := r.Run(rule.BestFit{}, cerebro.Options{})
	require.NoError(t, err)
	require.Zero(t, run.Violations)
	without, err := cerebro.NewReplayer(generate(t, "kubernetes", 7, map[string]string{"nodes": "20"})).Run(rule.BestFit{}, cerebro.Options{})
	require.NoError(t, err)
	require.Greater(t, run.CostSeconds, without.CostSeconds, "pods bind")
}

// With a share of limited Deployments, limits and not the volume set the number of nodes of some clusters.
func TestKubernetesLimited(t *testing.T) {
	const seeds = 20
	for _, share := range []float64{.5, .9} {
		apps, limited, bind := 0., 0., 0
		for seed := range uint64(seeds) {
			tr := generate(t, "kubernetes", seed, map[string]string{"fleet": "one", "limited": fmt.Sprint(share)})
			h := follow(t, tr)
			most, volume := 0, 0.
			for a, app := range tr.Instance.Apps {
				volume += float64(h.most[a]) * float64(app.Demand[0]) / float64(tr.Instance.Machines[0].Capacity[0])
				if isJob(app) {
					continue
				}
				apps++
				if tr.Instance.Groups[app.Group].Limit == 1 {
					limited++
					most = max(most, h.most[a])
				}
			}
			if float64(most) > volume {
				bind++
			}
		}
		assert.InDelta(t, share, limited/apps, .1)
		assert.Positive(t, bind)
		assert.Less(t, bind, seeds)
	}
}

//go:build e2e

package e2e_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/internal/export"
	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// TestExported: kube-scheduler with an exported configuration chooses, for each pod, a node among those
// that the rule scores best in the state of that moment. Among equal ones it draws.
func TestExported(t *testing.T) {
	c := e2e.Shared(t)
	defer c.Wipe(t)
	choice := rule.Choice{
		Name: "requestedtocapacityratio", Resources: map[string]int64{"cpu": 3, "memory": 1},
		Shape: [][]int64{{0, 0}, {25, 6}, {50, 4}, {75, 9}, {100, 2}},
	}
	text, err := export.Text(choice, export.KubeScheduler, "")
	require.NoError(t, err)
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}}, Types: []string{""},
	}
	rng := rand.New(rand.NewPCG(7, 1))
	var nodes []*v1.Node
	index := map[string]int32{}
	for i := range 12 {
		cpu, memory := 8+8*int64(i%3), 16+16*int64(i%2)
		name := fmt.Sprintf("node-%02d", i)
		index[name] = int32(i)
		nodes = append(nodes, e2e.Node(name, fmt.Sprint(cpu), fmt.Sprintf("%dGi", memory)))
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: name, Count: 1, Cost: 1, Capacity: []int64{1000 * cpu, memory << 30}})
	}
	const pods = 40
	for range pods {
		inst.Groups = append(inst.Groups, binpack.Group{})
		inst.Apps = append(inst.Apps, binpack.App{
			Group: int32(len(inst.Apps)), Demand: []int64{250 * (1 + rng.Int64N(10)), (1 + rng.Int64N(5)) << 30}, Expected: -1, Lifetime: -1,
		})
	}
	c.CreateNodes(t, nodes...)
	c.StartScheduler(t, "kube-scheduler", text)
	ns := c.Namespace(t)
	pol, err := (&rule.Settings{Choice: choice}).Policy("rule")
	require.NoError(t, err)
	state := binpack.NewState(inst)
	drawn, shortlists := 0, 0
	for a, app := range inst.Apps {
		name := fmt.Sprintf("pod-%02d", a)
		c.CreatePods(t, e2e.Pod(ns, name, fmt.Sprintf("%dm", app.Demand[0]), fmt.Sprint(app.Demand[1])))
		c.WaitBound(t, ns, a+1)
		var fits []int32
		for m := range nodes {
			if state.Free(0)[m] >= app.Demand[0] && state.Free(1)[m] >= app.Demand[1] {
				fits = append(fits, int32(m))
			}
		}
		scores := make([]float64, len(fits))
		pol.Scorer(state).Score(binpack.Item{App: int32(a)}, fits, scores)
		best, chosen, of := math.Inf(-1), math.NaN(), 0
		for i, m := range fits {
			if scores[i] > best {
				best, of = scores[i], 0
			}
			if scores[i] == best {
				of++
			}
			if m == index[c.Placements(ns)[name]] {
				chosen = scores[i]
			}
		}
		require.Equal(t, best, chosen, "pod %d: the live choice %s", a, c.Placements(ns)[name])
		if of > 1 {
			drawn++
		}
		if of < len(fits) {
			shortlists++
		}
		require.NoError(t, state.PlaceAs(int32(a), index[c.Placements(ns)[name]], nil))
	}
	require.Greater(t, shortlists, pods/2, "the rule decides")
	t.Logf("%d of %d choices were among the best, %d of them by a draw", pods, pods, drawn)
}

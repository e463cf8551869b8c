package stack

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// pods is a trace of pods on nodes of some cores: arrivals of count pods with a demand of thousandths of a core at a
// time, and the time at which they leave, 0 = never.
type pods struct {
	count, cpu int
	at, leaves float64
	limit      int32
}

func onNodes(t *testing.T, cores []int64, list ...pods) *trace.Trace {
	t.Helper()
	inst := &binpack.Instance{Fleet: binpack.Open, Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}}}
	for i, c := range cores {
		inst.Types = append(inst.Types, string(rune('a'+i)))
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: inst.Types[i], Type: int32(i), Count: binpack.Unlimited, Cost: float64(c), Capacity: []int64{1000 * c}})
	}
	tr := &trace.Trace{Name: "t", Instance: inst, MeasureFrom: math.NaN()}
	var deletes []trace.Event
	for i, p := range list {
		name := string(rune('A' + i))
		inst.Groups = append(inst.Groups, binpack.Group{Name: name, Limit: p.limit})
		inst.Apps = append(inst.Apps, binpack.App{Name: name, Group: int32(i), Demand: []int64{int64(p.cpu)}, Expected: -1, Lifetime: -1})
		tr.Requests = append(tr.Requests, trace.Request{Name: name, App: int32(i), Count: int32(p.count)})
		tr.Events = append(tr.Events, trace.Event{Time: p.at, Kind: trace.Create, Request: int32(i), Count: int32(p.count)})
		if p.leaves > 0 {
			deletes = append(deletes, trace.Event{Time: p.leaves, Kind: trace.Delete, Request: int32(i), Count: int32(p.count)})
		}
	}
	tr.Events = append(tr.Events, deletes...)
	slices.SortStableFunc(tr.Events, func(a, b trace.Event) int { return cmp.Compare(a.Time, b.Time) })
	return tr
}

func packs(p Provisioner, movers ...Mover) Config {
	return Config{Policy: rule.MostAllocated{}, Provisioner: p, Movers: movers, Boot: 100, Begin: 0, From: 0, Until: 4 * hour}
}

func run(t *testing.T, tr *trace.Trace, cfg Config) Result {
	t.Helper()
	r, err := Run(tr, cfg)
	require.NoError(t, err)
	again, err := Run(tr, cfg)
	require.NoError(t, err)
	require.Equal(t, r, again, "the same arguments give the same result")
	return r
}

func TestNodesCostFromLaunchToRemoval(t *testing.T) {
	// Four pods of a core fill a node of 4; it is launched after the second in which pods are collected, and goes with them.
	r := run(t, onNodes(t, []int64{4}, pods{count: 4, cpu: 1000, at: 10, leaves: 3610}), packs(DefaultKarpenter()))
	assert.Equal(t, 1, r.Launched)
	assert.InDelta(t, 3600+karpenterRetry/2, r.NodeHours*hour, karpenterRetry/2+2, "removed at the next look after the last pod")
	assert.InDelta(t, 4*r.NodeHours, r.Cost, 1e-9)
	assert.InDelta(t, 4*101./minute, r.WaitMinutes, 1e-9, "a second and the time to boot")
	assert.Zero(t, r.Moved())
}

func TestKarpenterBuysTheCheapestThatHolds(t *testing.T) {
	// Six cores: on a node of 8, not on two of 4 that cost as much; five: on one of 8, as its claim holds all.
	r := run(t, onNodes(t, []int64{4, 8, 16}, pods{count: 6, cpu: 1000, at: 10}), packs(DefaultKarpenter()))
	assert.Equal(t, 1, r.Launched)
	assert.InDelta(t, 8, r.Cost/r.NodeHours, 1e-9)
	// One pod a node: as many nodes as pods, each of the cheapest type.
	r = run(t, onNodes(t, []int64{4, 8}, pods{count: 3, cpu: 1000, at: 10, limit: 1}), packs(DefaultKarpenter()))
	assert.Equal(t, 3, r.Launched)
	assert.InDelta(t, 4, r.Cost/r.NodeHours, 1e-9)
	// Larger than any node: no node is launched, and the pod waits.
	r = run(t, onNodes(t, []int64{4, 8}, pods{count: 1, cpu: 9000, at: 10}), packs(DefaultKarpenter()))
	assert.Zero(t, r.Launched)
	assert.Equal(t, 1, r.Unplaced)
}

func TestKarpenterConsolidates(t *testing.T) {
	// After the first pods leave, four nodes have one pod of a core each: three go, in one round or several.
	list := []pods{{count: 4, cpu: 3000, at: 10, leaves: hour}, {count: 4, cpu: 1000, at: 200}}
	r := run(t, onNodes(t, []int64{4}, list...), packs(DefaultKarpenter()))
	assert.Equal(t, 3, r.Evicted[Consolidation])
	assert.Less(t, r.NodeHours, 4+3+.5, "four nodes for an hour, then one")
	// WhenEmpty moves nothing.
	empty := DefaultKarpenter()
	empty.Underutilized = false
	r = run(t, onNodes(t, []int64{4}, list...), packs(empty))
	assert.Zero(t, r.Moved())
	assert.InDelta(t, 16, r.NodeHours, .5)
	// A node is replaced by a cheaper one that holds its pods.
	r = run(t, onNodes(t, []int64{2, 16}, pods{count: 1, cpu: 14000, at: 10, leaves: hour}, pods{count: 1, cpu: 1000, at: 10}), packs(DefaultKarpenter()))
	assert.Equal(t, 2, r.Launched)
	assert.Equal(t, 1, r.Evicted[Consolidation])
	assert.Less(t, r.Cost, 16*1.2+3*2.)
}

func TestAutoscalerRemovesUnneededNodes(t *testing.T) {
	// Each of two nodes of 4 cores has 1 core requested after the first pods leave: below one half. One goes after ten minutes.
	list := []pods{{count: 2, cpu: 3000, at: 10, leaves: hour}, {count: 2, cpu: 1000, at: 200}}
	r := run(t, onNodes(t, []int64{4}, list...), packs(DefaultAutoscaler()))
	assert.Equal(t, 1, r.Evicted[Consolidation])
	assert.InDelta(t, 4+1+1./6, r.NodeHours, .1)
	// With 2 of 4 cores, one half, both stay.
	list = []pods{{count: 2, cpu: 2000, at: 10, leaves: hour, limit: 1}, {count: 1, cpu: 2000, at: 200}, {count: 1, cpu: 2000, at: 300}}
	r = run(t, onNodes(t, []int64{4}, list...), packs(DefaultAutoscaler()))
	assert.Zero(t, r.Moved())
	assert.InDelta(t, 8, r.NodeHours, .1)
}

func TestAutoscalerWastesLeast(t *testing.T) {
	// Four pods of 3 cores fill a node of 12, and three quarters of four nodes of 4.
	r := run(t, onNodes(t, []int64{4, 12}, pods{count: 4, cpu: 3000, at: 10}), packs(DefaultAutoscaler()))
	assert.Equal(t, 1, r.Launched)
	assert.InDelta(t, 12, r.Cost/r.NodeHours, 1e-9)
}

func TestDeschedulerEmptiesNodesBelowTheThreshold(t *testing.T) {
	list := []pods{{count: 2, cpu: 9000, at: 10, leaves: hour}, {count: 2, cpu: 1000, at: 200}, {count: 1, cpu: 6000, at: 300}}
	none := DefaultKarpenter()
	none.Underutilized = false
	before := run(t, onNodes(t, []int64{10}, list...), packs(none))
	r := run(t, onNodes(t, []int64{10}, list...), packs(none, DefaultHighNodeUtilization()))
	assert.Positive(t, r.Evicted[Descheduling])
	assert.Less(t, r.NodeHours, before.NodeHours)
}

// onlyEmpty has a provisioner that removes empty nodes alone.
func onlyEmpty(movers ...Mover) Config {
	k := DefaultKarpenter()
	k.Underutilized = false
	return packs(k, movers...)
}

func TestEmptyNodesMovesAFewPods(t *testing.T) {
	list := []pods{{count: 4, cpu: 3000, at: 10, leaves: hour}, {count: 4, cpu: 1000, at: 200}}
	e := DefaultEmptyNodes()
	e.Moves, e.OfWorkload = 1, 1
	r := run(t, onNodes(t, []int64{4}, list...), onlyEmpty(e))
	assert.Equal(t, 3, r.Evicted[Rebalancing])
	assert.InDelta(t, 4+3, r.NodeHours, .3, "one node after the first hour")
	assert.InDelta(t, 4*101./minute, r.WaitMinutes, 1e-9, "the pods that arrive first wait, those that move do not")
	e.OfWorkload = .25
	r = run(t, onNodes(t, []int64{4}, list...), onlyEmpty(e))
	assert.InDelta(t, 4+3+2+1, r.NodeHours, .3, "one pod of a workload an hour")
}

// Four nodes with two pods each, of eight workloads, become two: each is cordoned just before its first move.
func TestEmptyNodesOneByOne(t *testing.T) {
	var list []pods
	for range 4 {
		list = append(list, pods{count: 2, cpu: 1500, at: 10, limit: 1}, pods{count: 2, cpu: 500, at: 200, limit: 1})
	}
	list = append(list, pods{count: 4, cpu: 2000, at: 10, leaves: hour / 2, limit: 1})
	tr := onNodes(t, []int64{8}, list...)
	for waits, minutes := range map[bool]int{false: 6, true: 2} {
		t.Run(fmt.Sprint("a pod waits after a minute: ", waits), func(t *testing.T) {
			e := DefaultEmptyNodes()
			e.Every, e.Moves, e.PerHour, e.Takes = hour, 1, 1, minute
			cfg := onlyEmpty(e)
			own := *tr
			if waits {
				own = *onNodes(t, []int64{8}, append(slices.Clone(list), pods{count: 1, cpu: 8000, at: hour + 70})...)
			}
			c, err := newCluster(&own, &cfg)
			require.NoError(t, err)
			most, moving := 0, 0
			c.every(hour-30, 10, func() {
				now := 0
				for _, n := range c.nodes {
					if n.cordoned && len(n.pods) > 0 {
						now++
					}
				}
				most = max(most, now)
				if now > 0 && c.now < 2*hour {
					moving++
				}
			})
			c.run()
			require.NoError(t, c.err)
			checkCluster(t, c)
			assert.Equal(t, 1, most, "cordoned at a time")
			assert.Positive(t, c.out.Evicted[Rebalancing])
			assert.Equal(t, minutes, moving/6, "minutes of moves before the next plan")
		})
	}
}

func TestLostNodesAreReplaced(t *testing.T) {
	cfg := packs(DefaultKarpenter())
	cfg.Losses = []Loss{{At: hour, Lost: func(node, _ int) bool { return node == 0 }}}
	r := run(t, onNodes(t, []int64{4}, pods{count: 8, cpu: 1000, at: 10}), cfg)
	assert.Equal(t, 3, r.Launched)
	assert.Equal(t, 4, r.Evicted[Lost])
	assert.InDelta(t, (8+4)*101./minute, r.WaitMinutes, 1e-9)
}

// Six pods that may differ by one between three zones land on a node of each.
func TestZones(t *testing.T) {
	for _, p := range []Provisioner{DefaultKarpenter(), DefaultAutoscaler()} {
		tr := onNodes(t, []int64{8}, pods{count: 6, cpu: 1000, at: 10})
		one := tr.Instance.Machines[0]
		tr.Instance.Machines = nil
		for _, zone := range []string{"a", "b", "c"} {
			one.Name, one.Zone = "a-"+zone, zone
			tr.Instance.Machines = append(tr.Instance.Machines, one)
		}
		tr.Instance.Groups[0].Zone.Skew = 1
		r := run(t, tr, packs(p))
		assert.Equal(t, 3, r.Launched)
		assert.Zero(t, r.Unplaced)
	}
}

// A lost zone has no node until it is back: its pods start in the others.
func TestLostZone(t *testing.T) {
	for _, p := range []Provisioner{DefaultKarpenter(), DefaultAutoscaler()} {
		tr := onNodes(t, []int64{8}, pods{count: 6, cpu: 1000, at: 10, limit: 1}, pods{count: 8, cpu: 8000, at: 2 * hour})
		one := tr.Instance.Machines[0]
		tr.Instance.Machines = nil
		for _, zone := range []string{"a", "b"} {
			one.Name, one.Zone = "a-"+zone, zone
			tr.Instance.Machines = append(tr.Instance.Machines, one)
		}
		cfg := packs(p)
		cfg.Losses = []Loss{{At: hour, Zone: "a", Until: 3 * hour}}
		c, err := newCluster(tr, &cfg)
		require.NoError(t, err)
		in := func() (n int) {
			for _, n2 := range c.nodes {
				if c.zoneOf[n2.kind] == int32(slices.Index(c.zoneNames, "a")) {
					n++
				}
			}
			return n
		}
		before := 0
		c.at(hour-1, func() { before = in() })
		c.at(3*hour-1, func() { assert.Zero(t, in()) })
		c.run()
		require.NoError(t, c.err)
		assert.Positive(t, before)
		assert.Equal(t, before, c.out.Evicted[Lost])
		assert.Zero(t, c.out.Unplaced)
	}
}

// A generated cluster under each stack: no pod is lost, and nodes cost at least the volume.
func TestGeneratedCluster(t *testing.T) {
	for _, sets := range []map[string]string{{}, {"zones": "3", "hard": ".3"}} {
		maps.Copy(sets, map[string]string{"nodes": "12", "fleet": "open", "usage": "1", "days": "3"})
		tr, err := generate.Generate("kubernetes", 3, sets)
		require.NoError(t, err)
		use, err := tr.Usage()
		require.NoError(t, err)
		p, err := policy.ShippedAt(binpack.K0).Policy()
		require.NoError(t, err)
		sizes, err := NewByUse(tr, use)
		require.NoError(t, err)
		for _, cfg := range []Config{
			{Policy: rule.LeastAllocated{}, Provisioner: DefaultAutoscaler()},
			{Policy: rule.MostAllocated{}, Provisioner: DefaultKarpenter(), Movers: []Mover{DefaultHighNodeUtilization()}},
			{Policy: p, Provisioner: DefaultKarpenter(), Sizer: sizes, Movers: []Mover{DefaultEmptyNodes(), DefaultFit(), DefaultRelief()}},
		} {
			cfg.Usage, cfg.Boot, cfg.Begin, cfg.From, cfg.Until = use, 90, 0, day, 3*day
			c, err := newCluster(tr, &cfg)
			require.NoError(t, err)
			c.run()
			require.NoError(t, c.err)
			checkCluster(t, c)
			assert.GreaterOrEqual(t, c.out.PodHours, 1.)
		}
	}
}

// checkCluster compares the two states and the lists of pods, item by item.
func checkCluster(t *testing.T, c *cluster) {
	t.Helper()
	placed := 0
	for _, n := range c.nodes {
		require.Equal(t, len(n.pods) > 0, n.machine >= 0)
		if n.machine < 0 {
			continue
		}
		require.Equal(t, int32(len(n.pods)), c.state.Items(n.machine))
		for d := range c.trace.Instance.Dimensions {
			sum := int64(0)
			for _, item := range n.pods {
				sum += c.demand(item)[d]
			}
			require.Equal(t, c.state.Capacity(n.machine)[d]-sum, c.state.Free(d)[n.machine])
			require.Equal(t, c.state.Free(d)[n.machine], c.plans.Free(d)[n.twin], "simulated removals leave no trace")
		}
		for _, item := range n.pods {
			require.Same(t, n, c.on[item])
		}
		placed += len(n.pods)
	}
	living := int32(0)
	for q, left := range c.left {
		created := q < c.trace.Initial
		for _, e := range c.trace.Events {
			created = created || int(e.Request) == q && e.Kind == trace.Create && e.Time < c.cfg.Until
		}
		if created {
			living += left
		}
	}
	require.Equal(t, int(living), placed+len(c.waiting), "each pod has a node or waits")
}

func TestRefusals(t *testing.T) {
	good := onNodes(t, []int64{4}, pods{count: 1, cpu: 1000, at: 10})
	for name, change := range map[string]func(*binpack.Instance, *Config){
		"open fleet":    func(i *binpack.Instance, _ *Config) { i.Fleet = binpack.Fixed },
		"policy":        func(_ *binpack.Instance, c *Config) { c.Policy = nil },
		"in this order": func(_ *binpack.Instance, c *Config) { c.Until = c.From },
		"devices":       func(i *binpack.Instance, _ *Config) { i.Dimensions[0].Device = true },
		"number":        func(i *binpack.Instance, _ *Config) { i.Machines[0].Count = 3 },
	} {
		inst, tr, cfg := *good.Instance, *good, packs(DefaultKarpenter())
		inst.Dimensions = append([]binpack.Dimension(nil), inst.Dimensions...)
		inst.Machines = append([]binpack.MachineLine(nil), inst.Machines...)
		tr.Instance = &inst
		change(&inst, &cfg)
		_, err := Run(&tr, cfg)
		require.ErrorContains(t, err, name)
	}
}

// Pods that the policy places otherwise than the provisioner planned get nodes of their own.
func TestNoPodWaitsForEver(t *testing.T) {
	for _, p := range []Provisioner{DefaultKarpenter(), DefaultAutoscaler()} {
		r := run(t, onNodes(t, []int64{10}, pods{count: 2, cpu: 4000, at: 10}, pods{count: 2, cpu: 6000, at: 10}), packs(p))
		assert.Zero(t, r.Unplaced)
		assert.Less(t, r.WaitMinutes, 4*2*111./minute)
	}
}

func TestNodesLostAtOnce(t *testing.T) {
	cfg := packs(DefaultKarpenter())
	cfg.Losses = []Loss{{At: hour, Lost: func(int, int) bool { return true }}}
	r := run(t, onNodes(t, []int64{4}, pods{count: 2, cpu: 4000, at: 10}), cfg)
	assert.Equal(t, 2, r.Evicted[Lost])
	assert.Equal(t, 4, r.Launched)
}

// withUse gives a trace memory, of which each pod requests 1 byte and uses so much, and cpu use in cores.
func withUse(tr *trace.Trace, memory, cpu []float32) *trace.Usage {
	inst := tr.Instance
	inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: "memory", One: 1})
	for i := range inst.Machines {
		inst.Machines[i].Capacity = append(inst.Machines[i].Capacity, 1000)
	}
	u := &trace.Usage{}
	for a := range inst.Apps {
		inst.Apps[a].Demand = append(inst.Apps[a].Demand, 700)
		for d, v := range [][]float32{cpu, memory} {
			u.Series = append(u.Series, trace.Series{App: int32(a), Dimension: int32(d), Step: 300, Values: slices.Repeat(v[a:a+1], 48)})
		}
	}
	return u
}

// Two pods use more memory than their node has: the kubelet evicts one, which starts on the other node and stays there.
func TestFullMemory(t *testing.T) {
	tr := onNodes(t, []int64{4}, pods{count: 1, cpu: 2000, at: 10}, pods{count: 1, cpu: 2000, at: 10}, pods{count: 1, cpu: 100, at: 400})
	cfg := packs(DefaultKarpenter())
	cfg.Usage = withUse(tr, []float32{570, 570, 10}, []float32{1, 1, .1})
	tr.Instance.Apps[0].Demand[1], tr.Instance.Apps[1].Demand[1] = 500, 500
	cfg.Provisioner.(*Karpenter).Underutilized = false
	c, err := newCluster(tr, &cfg)
	require.NoError(t, err)
	for a := range c.use.limit {
		c.use.limit[a] = 1000
	}
	c.run()
	require.NoError(t, c.err)
	checkCluster(t, c)
	assert.Equal(t, 1, c.out.Killed)
	assert.Equal(t, 1, c.out.Evicted[OutOfMemory])
	// A node that is drained when its new one is ready may lose its last pod before.
	n := c.nodes[0]
	n.cordoned, n.removing = true, true
	for range 2 {
		c.use.kill(n, 1)
	}
	c.use.look()
	checkCluster(t, c)
}

// A node that uses more cpu than it has gives a pod to another node, and keeps its last ones where there is none.
func TestRelief(t *testing.T) {
	list := []pods{{count: 3, cpu: 1000, at: 10}, {count: 3, cpu: 1000, at: 10, limit: 1}}
	cfg := packs(DefaultKarpenter(), DefaultRelief())
	tr := onNodes(t, []int64{10}, list[0])
	cfg.Usage = withUse(tr, []float32{1}, []float32{4})
	tr.Instance.Apps[0].Demand[1] = 1
	r := run(t, tr, cfg)
	assert.Zero(t, r.Evicted[Relieving], "there is no other node")
	assert.InDelta(t, 1, r.Over, .01)
	assert.Positive(t, r.Broken)
	tr = onNodes(t, []int64{10}, list...)
	cfg.Usage = withUse(tr, []float32{1, 1}, []float32{4, .1})
	tr.Instance.Apps[0].Demand[1], tr.Instance.Apps[1].Demand[1] = 1, 1
	r = run(t, tr, cfg)
	assert.Positive(t, r.Evicted[Relieving])
	assert.Less(t, r.Over, .1)
	for others, moves := range map[float32]bool{5.4: true, 5.6: false} {
		tr = onNodes(t, []int64{10}, list...)
		cfg.Usage = withUse(tr, []float32{1, 1}, []float32{4, others})
		tr.Instance.Apps[0].Demand[1], tr.Instance.Apps[1].Demand[1] = 1, 1
		assert.Equal(t, moves, run(t, tr, cfg).Evicted[Relieving] > 0, "another node would have %v + 4 of 10 cores in use, and takes a pod up to 95 %%", others)
	}
}

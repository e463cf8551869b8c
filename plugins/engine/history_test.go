package engine

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A day is a random cluster with what stood where at each moment, by the cluster
// itself and not by the log.
type day struct {
	*lab
	*rand.Rand
	began time.Time
	pods  int
	waits []*v1.Pod // they will be tried again
	seen  []occupancy
	did   map[string]int
}

// An occupancy is where the pods stand at a moment.
type occupancy struct {
	at    time.Duration // since the log began
	where map[string]string
}

func newDay(t *testing.T, seed uint64) *day {
	d := &day{Rand: rand.New(rand.NewPCG(seed, 12)), did: map[string]int{}}
	d.lab = newLab(t, func(o *Options) { o.Fleet = []string{"open", "fixed"}[d.IntN(2)] })
	d.began = d.now
	for range 3 + d.IntN(6) {
		d.addNode()
	}
	d.SetRules([]*kube.Rule{
		rule(t, "web", v1alpha1.PlacementRuleSpec{
			PodSet: picks("web"), MaxPerNode: new(int32(2)), SpreadMin: new(int32(2)), Excludes: []v1alpha1.Exclusion{{PodSet: picks("db"), Max: 1}},
		}),
	})
	if d.IntN(4) > 0 {
		d.SetPolicy(ledger.Primary, spreading(mode([]policy.Mode{"live", "shadow"}[d.IntN(2)])))
	}
	for range d.IntN(4) { // they stand before the log begins
		d.find()
	}
	d.look()
	return d
}

func (d *day) addNode() {
	d.pods++
	name := fmt.Sprint("n", d.pods)
	d.node(name, 4+4*d.IntN(3))
	if d.IntN(3) == 0 {
		d.nodes[name].Labels = map[string]string{v1.LabelInstanceTypeStable: "gpu"}
		d.nodes[name].Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}}
		d.nodes[name].Status.Allocatable["example.com/gpu"] = resource.MustParse("4")
	}
}

// pick returns a pod that waits, or a new one, and the nodes that take it.
func (d *day) pick() (*v1.Pod, []string) {
	if n := len(d.waits); n > 0 && d.IntN(2) == 0 {
		i := d.IntN(n)
		p := d.waits[i]
		d.waits = slices.Delete(d.waits, i, i+1)
		return p, d.fitting(p)
	}
	d.pods++
	app := []string{"web", "db", "batch", "train"}[d.IntN(4)]
	p := pod(fmt.Sprint(app, "-", d.pods), app, asks("cpu", []string{"500m", "1", "3"}[d.IntN(3)]))
	if app == "train" {
		p = pod(p.Name, app, asks("example.com/gpu", "1"), func(p *v1.Pod) {
			p.Spec.Tolerations = []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}}
		})
	}
	return p, d.fitting(p)
}

func (d *day) fitting(p *v1.Pod) []string {
	d.sync()
	var names []string
	a := d.state.cluster.EnsureApp(p)
	for _, m := range d.state.ledger.Fits(d.state.ledger.AppIndex(a.Name()), nil) {
		if d.IntN(8) > 0 { // the others are refused by other filters
			names = append(names, d.state.ledger.NodeName(m))
		}
	}
	return names
}

// standing are all pods on nodes, by name.
func (d *day) standing() []*v1.Pod {
	var list []*v1.Pod
	for _, name := range slices.Sorted(maps.Keys(d.on)) {
		list = append(list, d.on[name]...)
	}
	return list
}

func (d *day) some() *v1.Pod {
	if list := d.standing(); len(list) > 0 {
		return list[d.IntN(len(list))]
	}
	return nil
}

// decide schedules a pod, if there is room for it.
func (d *day) decide() *v1.Pod {
	p, names := d.pick()
	if len(names) == 0 {
		d.Rank(d.Context(), p, names)
		d.waits = append(d.waits, p)
		return nil
	}
	var v *Verdict
	node := names[0]
	if len(names) > 1 || d.IntN(2) == 0 {
		v = d.Rank(d.Context(), p, names)
		if v.Decides && len(v.Ranked) > 0 {
			node = v.Ranked[0].Node
		}
	}
	d.Reserve(d.stand(p, node), node, v)
	return p
}

// find lets another scheduler place a pod.
func (d *day) find() {
	p, names := d.pick()
	if len(names) == 0 {
		d.waits = append(d.waits, p)
		return
	}
	d.stand(p, names[d.IntN(len(names))])
}

func (d *day) step() {
	d.now = d.now.Add(time.Duration(1+d.IntN(90_000)) * time.Millisecond)
	names := slices.Sorted(maps.Keys(d.nodes))
	name := names[d.IntN(len(names))]
	switch n := d.IntN(100); {
	case n < 45:
		d.decide()
	case n < 65:
		if p := d.some(); p != nil {
			d.did["left"]++
			d.leave(p)
		}
	case n < 73:
		if p := d.decide(); p != nil { // its binding is rejected
			d.did["rejected"]++
			d.BindFailed(p)
			d.unbind(p)
			d.waits = append(d.waits, p)
		}
	case n < 80:
		d.did["found"]++
		d.find()
	case n < 86:
		d.did["cordoned"]++
		d.nodes[name] = d.nodes[name].DeepCopy()
		d.nodes[name].Spec.Unschedulable = !d.nodes[name].Spec.Unschedulable
		d.dirty[name] = true
	case n < 89 && len(names) > 2:
		d.did["removed"]++
		for _, p := range d.on[name] {
			d.Deleted(p)
		}
		delete(d.nodes, name)
		delete(d.on, name)
		d.dirty[name] = true
	case n < 92:
		d.addNode()
	case n < 94:
		if p := d.some(); p != nil { // resized in place
			d.did["resized"]++
			on := p.Spec.NodeName
			d.unbind(p)
			p = p.DeepCopy()
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("250m")
			d.stand(p, on)
		}
	case n < 97:
		d.did["restarted"]++
		if p := d.some(); p != nil && d.IntN(2) == 0 { // gone while nothing looked
			d.unbind(p)
		}
		d.restart()
	default:
		d.decide()
	}
	d.look()
}

// unbind takes a pod off its node without a word.
func (d *day) unbind(p *v1.Pod) {
	for name := range d.on {
		d.on[name] = slices.DeleteFunc(d.on[name], func(q *v1.Pod) bool { return q.UID == p.UID })
		d.dirty[name] = true
	}
}

// look notes what stands where.
func (d *day) look() {
	d.sync()
	o := occupancy{d.now.Sub(d.began), map[string]string{}}
	for _, p := range d.standing() {
		o.where[p.Name] = p.Spec.NodeName
	}
	d.seen = append(d.seen, o)
}

// replayed is what stands where at each of some moments when a trace is replayed
// with the policy current. It is written and read before.
func replayed(t *testing.T, tr *trace.Trace, at []time.Duration) []map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, tr.Write(dir))
	tr, err := trace.Load(dir)
	require.NoError(t, err)
	catalog := compare.Catalog{}
	found, err := catalog.Find(compare.Current, tr)
	if err != nil { // nothing stood anywhere
		require.ErrorContains(t, err, "nothing says where items stood")
		return make([]map[string]string, len(at))
	}
	where := map[string]string{}
	name := func(request int32) string {
		base, _, _ := strings.Cut(strings.TrimPrefix(tr.Requests[request].Name, "default/"), "#")
		return base
	}
	for _, p := range tr.Placed {
		where[name(p.Request)] = tr.MachineName(p.Line, p.Index)
	}
	var list []map[string]string
	until := func(seconds float64) {
		for len(list) < len(at) && float64(at[len(list)].Milliseconds()) < math.Round(seconds*1e3) {
			list = append(list, maps.Clone(where))
		}
	}
	r := cerebro.NewReplayer(tr)
	_, err = r.Run(found.Policy, cerebro.Options{Check: true, Record: func(d cerebro.Decision) {
		until(d.Time)
		switch d.Kind {
		case cerebro.Place:
			require.NotContains(t, where, name(d.Request), "it stands twice")
			where[name(d.Request)] = tr.MachineName(r.State().Position(d.Machine))
		case cerebro.Remove:
			delete(where, name(d.Request))
		case cerebro.Unplaced, cerebro.Move:
		}
	}})
	require.NoError(t, err)
	until(1e18)
	return list
}

// TestTraceOfALog: the trace of a decision log, replayed with current, has the same
// pods on the same nodes at every moment as the cluster had; so has the trace of any
// window of it.
func TestTraceOfALog(t *testing.T) {
	did, moments := map[string]int{}, 0
	for seed := range uint64(10) {
		d := newDay(t, seed)
		for range 120 {
			d.step()
		}
		d.verify()
		check := func(from, until time.Duration) {
			t.Helper()
			begin, err := history.ParseTime(from.String())
			require.NoError(t, err)
			end, err := history.ParseTime(until.String())
			require.NoError(t, err)
			h, err := history.Read([]string{d.path}, begin, end)
			require.NoError(t, err)
			var at []time.Duration
			var want []map[string]string
			items := 0
			for i, o := range d.seen {
				next := until
				if i+1 < len(d.seen) {
					next = d.seen[i+1].at
				}
				if next > from && o.at < until {
					at, want = append(at, max(0, o.at-from)), append(want, o.where)
					items += len(o.where)
				}
			}
			tr, _, err := h.Trace(history.Options{Name: "x", Method: "test"})
			if items == 0 || err != nil && strings.Contains(err.Error(), "the window is empty: the log ends at") {
				return
			}
			require.NoError(t, err)
			moments += len(at)
			got := replayed(t, tr, at)
			for i := range at {
				require.Equal(t, want[i], got[i], "seed %d, from %v until %v, after %v", seed, from, until, at[i])
			}
		}
		length := d.seen[len(d.seen)-1].at
		check(0, length+time.Second)
		for range 4 {
			from := time.Duration(d.Int64N(int64(length))).Truncate(time.Millisecond)
			check(from, from+time.Second+time.Duration(d.Int64N(int64(length-from)+1)).Truncate(time.Millisecond))
		}
		for what, n := range d.did {
			did[what] += n
		}
	}
	require.Greater(t, moments, 2000)
	for _, what := range []string{"left", "rejected", "found", "cordoned", "removed", "resized", "restarted"} {
		require.Greater(t, did[what], 10, what)
	}
}

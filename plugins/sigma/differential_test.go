package sigma

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/extender"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// An outside is an extender for the cluster that a stage has.
type outside struct {
	testing.TB
	engine *engine.Engine
	server *extender.Server
	log    string
}

func newOutside(t *testing.T, fleet string, objects ...runtime.Object) *outside {
	t.Helper()
	o := &outside{TB: t, log: filepath.Join(t.TempDir(), "extender.jsonl")}
	var err error
	o.engine, err = engine.New(engine.Options{
		Profile: t.Name() + "/extender", PolicyName: "general", AppLabel: "app", Fleet: fleet, DecisionLog: o.log,
		ForecastAge: time.Hour, Top: extender.Levels,
	})
	require.NoError(t, err)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	o.server, err = extender.New(extender.Options{Engine: o.engine, AssumeTTL: time.Hour, MaxRequestBytes: 1 << 24}, factory)
	require.NoError(t, err)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	factory.Start(stop)
	require.Eventually(t, func() bool { return o.server.Ready() == nil }, 10*time.Second, time.Millisecond)
	return o
}

func (o *outside) call(verb string, args *extenderv1.ExtenderArgs, answer any) {
	o.Helper()
	body, err := json.Marshal(args)
	require.NoError(o, err)
	w := httptest.NewRecorder()
	o.server.Handler().ServeHTTP(w, httptest.NewRequestWithContext(o.Context(), http.MethodPost, "/"+verb, bytes.NewReader(body)))
	require.Equal(o, http.StatusOK, w.Code, "%s", w.Body)
	require.NoError(o, json.Unmarshal(w.Body.Bytes(), answer))
}

// first is the node that it would put a pod on; "" when it refuses all of them.
func (o *outside) first(p *v1.Pod, names []string) string {
	o.Helper()
	var filtered extenderv1.ExtenderFilterResult
	o.call("filter", &extenderv1.ExtenderArgs{Pod: p, NodeNames: &names}, &filtered)
	switch passed := *filtered.NodeNames; len(passed) {
	case 0:
		return ""
	case 1: // it is not asked further
		return passed[0]
	default:
		var list extenderv1.HostPriorityList
		o.call("prioritize", &extenderv1.ExtenderArgs{Pod: p, NodeNames: &passed}, &list)
		best := list[0]
		for _, h := range list {
			if h.Score > best.Score {
				best = h
			}
		}
		require.Equal(o, extenderv1.MaxExtenderPriority, best.Score)
		return best.Host
	}
}

// For the same cluster and the same pods, plugin and extender put each pod on the same
// node, and so does Verify on their decision logs.
func TestPluginAndExtenderAgree(t *testing.T) {
	clusters := uint64(24)
	if testing.Short() {
		clusters = 8
	}
	decided := 0
	for seed := range clusters {
		d := rand.New(rand.NewPCG(seed, 11))
		fleet := []string{config.FleetOpen, config.FleetFixed}[seed%2]
		s := newStage(t, func(a *config.SigmaArgs) { a.Fleet = fleet })
		var objects []runtime.Object
		for i := range 4 + d.IntN(30) {
			n := node(fmt.Sprintf("n%02d", i), 2<<d.IntN(4))
			if d.IntN(3) == 0 {
				n.Label("disk", "fast")
			}
			if d.IntN(10) == 0 {
				n.Unschedulable(true)
			}
			s.addNodes(n)
			objects = append(objects, n.Obj())
		}
		draw := func(name string) *v1.Pod {
			p := pod(name, fmt.Sprint("app", d.IntN(6)))
			p.Req(map[v1.ResourceName]string{v1.ResourceCPU: fmt.Sprint(d.IntN(3)*500, "m"), v1.ResourceMemory: fmt.Sprint(d.IntN(4), "Gi")})
			if d.IntN(6) == 0 {
				p.NodeSelector(map[string]string{"disk": "fast"})
			}
			return p.Obj()
		}
		nodes := len(objects)
		for i := range d.IntN(40) {
			p := draw(fmt.Sprint("old", i))
			p.Spec.NodeName = objects[d.IntN(nodes)].(*v1.Node).Name
			s.addPods(p)
			objects = append(objects, p)
		}
		o := newOutside(t, fleet, objects...)
		rules := []*kube.Rule{
			rule(t, "few", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "app1"), MaxPerNode: new(int32(1 + d.IntN(2)))}),
			rule(t, "wide", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "app2"), SpreadMin: new(int32(3))}),
			rule(t, "apart", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "app3"), Excludes: []v1alpha1.Exclusion{{PodSet: picks("app", "app4"), Max: int32(d.IntN(2))}}}),
		}
		object := shipped(t, []string{"general-k1", "kubernetes-k0", "hand-k1", "large-k1"}[d.IntN(4)])
		for _, e := range []*engine.Engine{s.engine, o.engine} {
			e.SetPolicy(ledger.Primary, object)
			e.SetDeclared(&kube.Declarations{})
			e.SetRules(rules)
		}
		for i := range 12 {
			p := draw(fmt.Sprint("new", i))
			c := s.filter(p)
			var names []string // that pass the filters of the scheduler itself
			for _, info := range c.feasible {
				names = append(names, info.Node().Name)
			}
			for name := range c.refusals() {
				names = append(names, name)
			}
			d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			if len(names) == 0 {
				continue
			}
			s.score(c, p)
			theirs := o.first(p, names)
			if len(c.feasible) == 0 {
				require.Empty(t, theirs)
				continue
			}
			require.Equal(t, c.best(), theirs, "cluster %d, pod %d", seed, i)
			s.assume(c, p, theirs)
			decided++
		}
		ours := s.verify()
		require.NoError(t, o.engine.Close())
		v := ledgertest.Verify(t, o.log)
		require.Equal(t, ours.Causes, v.Causes)
		require.Equal(t, ours.Agreed, v.Agreed)
	}
	require.Greater(t, decided, int(clusters)*6)
}

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// two is a lab of three nodes, of which Best-Fit takes a for a pod, then b.
func two(t *testing.T, changes ...func(*Options)) *lab {
	l := newLab(t, changes...)
	l.node("a", 4)
	l.node("b", 8)
	l.node("c", 16)
	l.stand(pod("old", "old", asks("cpu", "2")), "a")
	return l
}

func names(v *Verdict) []string {
	var list []string
	for _, r := range v.Ranked {
		list = append(list, r.Node)
	}
	return list
}

// After an event that the ledger refuses the state is rebuilt, with everything in
// force, and the log can be computed from end to end.
func TestRestart(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, shipped(t, "hand-k1"))
	l.SetRules([]*kube.Rule{atMost(t, 1, "web")})
	l.SetDeclared(&kube.Declarations{})
	l.SetServed([]string{"example.com/gpu"})
	l.place(pod("p1", "web"))

	nameless := l.stand(pod("nameless", "old", func(p *v1.Pod) { p.UID = "" }), "b")
	l.place(pod("p2", "other")) // meets it
	require.Error(t, l.state.broken)
	require.Zero(t, l.counter(l.metrics.restarts))
	for range 5 { // it stays: not in every cycle
		l.place(pod("p"+fmt.Sprint(l.now), "other"))
		l.now = l.now.Add(time.Second)
	}
	require.Equal(t, 1, l.counter(l.metrics.restarts))
	l.leave(nameless)
	l.now = l.now.Add(restartEvery)
	l.place(pod("p3", "other"))
	require.Equal(t, 2, l.counter(l.metrics.restarts))
	require.NoError(t, l.state.broken)
	l.now = l.now.Add(restartEvery)
	check := l.Check(pod("p4", "web"))
	require.NotNil(t, check, "the rules are in force")
	require.NotEmpty(t, check.Refusal(l.holds("p1")))
	require.Equal(t, []string{"example.com/gpu"}, l.state.cluster.Served())
	l.place(pod("p4", "web"))
	require.Equal(t, 2, l.counter(l.metrics.restarts))
	v := l.verify()
	require.Equal(t, 3, v.Starts)
	require.Equal(t, map[string]int{"policy": v.Decisions}, v.Causes, "policy and forecast are in force")
}

// holds is the node that a pod stands on.
func (l *lab) holds(name string) string {
	for node, pods := range l.on {
		for _, p := range pods {
			if p.Name == name {
				return node
			}
		}
	}
	return ""
}

func TestGaugesAndCounters(t *testing.T) {
	l := newLab(t, func(o *Options) { o.Fleet = "open" })
	l.node("a", 8)
	l.node("b", 8)
	l.node("c", 16)
	l.nodes["c"].Spec.Unschedulable = true
	l.stand(pod("old", "old", asks("cpu", "2"), asks("memory", "8Gi")), "a")
	l.sync()
	require.EqualValues(t, 2, l.gauge(l.metrics.nodes), "cordoned nodes take nothing")
	require.EqualValues(t, 1, l.gauge(l.metrics.active))
	require.Equal(t, .25, l.gauge(l.metrics.allocation.WithLabelValues("cpu")), "2 of 8 on the node in use")
	require.Equal(t, .25, l.gauge(l.metrics.allocation.WithLabelValues("memory")), "8 of 32 GiB")
	require.NotContains(t, l.exposed(), "gpu")
	require.Zero(t, l.gauge(l.metrics.fragment), "a pod of 2 cores can use what is left")

	gpu := l.stand(pod("gpu", "gpu", asks("example.com/gpu", "1"), asks("cpu", "5")), "a")
	l.nodes["a"].Status.Allocatable["example.com/gpu"] = resource.MustParse("2")
	l.nodes["a"] = l.nodes["a"].DeepCopy()
	l.sync()
	require.Equal(t, .5, l.gauge(l.metrics.allocation.WithLabelValues("example.com/gpu")))
	require.EqualValues(t, 1, l.gauge(l.metrics.fragment), "neither app can use one core")
	l.leave(gpu)
	for range 4 { // its app is forgotten when it was not seen for days, and there are many like it
		for i := range 40 {
			l.state.cluster.EnsureApp(pod("x", fmt.Sprint("x", i, l.now)))
		}
		l.SetDeclared(&kube.Declarations{})
		l.sync()
		l.now = l.now.Add(24 * time.Hour)
	}
	require.NotContains(t, l.exposed(), `resource="example.com/gpu"`, "nobody asks for it any more")

	require.Contains(t, l.exposed(), "sigma_disagreements_total", "a dashboard shows 0 before the first one")
	l.SetPolicy(ledger.Primary, spreading())
	l.place(pod("p1", "web"))
	require.Equal(t, 0, l.counter(l.metrics.opened.WithLabelValues("bestfit")))
	require.Equal(t, 0, l.counter(l.metrics.disagreements.WithLabelValues("primary")), "an open fleet starts no node as long as one takes the pod")
	l.SetPolicy(ledger.Primary, spreading(func(s *policy.Spec) { s.Features, s.Weights = []string{"mean", "empty"}, []float64{-1, 1} }))
	l.place(pod("p2", "web"))
	require.Equal(t, 1, l.counter(l.metrics.opened.WithLabelValues("policy")))
	require.Equal(t, 0, l.counter(l.metrics.opened.WithLabelValues("bestfit")))
	require.Equal(t, 1, l.counter(l.metrics.disagreements.WithLabelValues("primary")))
	require.Equal(t, 2, l.counter(l.metrics.decisions.WithLabelValues("live", "policy")))
	require.Empty(t, l.told(), "a policy that decides does not tell where it differs")
}

// exposed is which metrics the profile has.
func (l *lab) exposed() string {
	l.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(l, err)
	var text strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line, ours := f.GetName(), false
			for _, label := range m.GetLabel() {
				line += fmt.Sprintf(" %s=%q", label.GetName(), label.GetValue())
				ours = ours || label.GetName() == "profile" && label.GetValue() == l.opt.Profile
			}
			if ours {
				text.WriteString(line + "\n")
			}
		}
	}
	return text.String()
}

// A burst of events at first, then one each two seconds.
func TestEventsAreRateLimited(t *testing.T) {
	l := two(t)
	for i := range 100 {
		l.place(pod(fmt.Sprint("p", i), "web", asks("cpu", "1m"), asks("memory", "1")))
	}
	require.Len(t, l.told(), 20)
	require.Equal(t, 100, l.fallbacks("no-policy"), "the counter has them all")
	l.now = l.now.Add(5 * time.Second)
	for i := range 10 {
		l.place(pod(fmt.Sprint("q", i), "web", asks("cpu", "1m"), asks("memory", "1")))
	}
	require.Len(t, l.told(), 2)
}

func TestDecisionLogErrors(t *testing.T) {
	_, err := New(Options{Profile: t.Name(), Fleet: "open", DecisionLog: filepath.Join(t.TempDir(), "missing", "log")})
	require.ErrorContains(t, err, "decisionLog: open ")
	_, err = New(Options{Profile: t.Name(), Fleet: "round"})
	require.ErrorContains(t, err, `fleet "round"`)

	l := two(t)
	l.SetPolicy(ledger.Primary, spreading())
	l.place(pod("p1", "web"))
	require.NoError(t, l.state.log.file.Close()) // it is opened again
	require.Len(t, l.place(pod("p2", "web")).Ranked, 3)
	l.place(pod("p3", "web"))
	require.Equal(t, 2, l.verify().Starts)
}

// Nothing is decided after Close, but a binding may still fail.
func TestClosed(t *testing.T) {
	l := two(t)
	l.place(pod("p1", "web"))
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	l.BindFailed(pod("p1", "web"))
	l.place(pod("p2", "web"))
	l.Measure()
	require.Zero(t, l.counter(l.metrics.logErrors))
	require.Len(t, l.logged(ledger.KindDecide), 1)
}

// Without a decision log the nodes that filters refused are not listed.
func TestNoDecisionLog(t *testing.T) {
	l := two(t, func(o *Options) { o.DecisionLog = "" })
	l.SetPolicy(ledger.Primary, spreading())
	l.sync()
	v := l.Rank(t.Context(), pod("new", "web"), []string{"a", "b"})
	require.Equal(t, []string{"b", "a"}, names(v))
	require.Empty(t, v.decision.Infeasible)
	require.Empty(t, l.state.log.lines)
}

// Deleted pods that waited are forgotten; the deletion of others is ignored.
func TestDeleted(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, spreading())
	for i := range 50 { // a standby sees many
		l.Deleted(pod(fmt.Sprint("foreign", i), "web"))
	}
	require.Empty(t, l.deleted)

	waits := pod("waits", "web")
	l.rank(waits)
	l.Deleted(waits)
	l.sync()
	require.Len(t, l.logged(ledger.KindArrive), 1)
	require.Len(t, l.logged(ledger.KindRemove), 1)

	// It is deleted while its binding is under way, which then fails: until then the
	// scheduler has it on the node.
	hasty := pod("hasty", "web")
	l.place(hasty)
	l.Deleted(hasty)
	l.sync()
	require.Empty(t, l.logged(ledger.KindFailed))
	l.BindFailed(hasty)
	l.leave(hasty)
	l.sync()
	require.Len(t, l.logged(ledger.KindFailed), 1)
	require.Len(t, l.logged(ledger.KindRemove), 2)
	require.Empty(t, l.tracked)
	l.verify()
}

// Pods of DaemonSets are part of their nodes.
func TestDaemonPods(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, spreading())
	l.SetRules([]*kube.Rule{rule(t, "r", ruleFor("agent"))})
	agent := pod("agent-1", "agent", ofDaemonSet, asks("cpu", "3"))
	v := l.place(agent)
	require.False(t, v.Decides)
	require.Empty(t, v.Ranked)
	require.Nil(t, l.Check(agent))
	l.place(pod("p1", "web"))
	require.Len(t, l.decisions(), 1)
	require.EqualValues(t, 1, l.logged(ledger.KindNode)[3].Machine.Capacity["cpu"]/1000, "a has 4 cores, of which the agent takes 3")
}

// The log is at its configured path, and a restarted engine appends to it.
func TestLogGoesOn(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, spreading())
	l.place(pod("p1", "web"))
	require.NoError(t, l.Close())
	again := two(t, func(o *Options) { o.DecisionLog = l.path })
	again.path = l.path
	again.SetPolicy(ledger.Primary, spreading())
	again.place(pod("p2", "web"))
	v := again.verify()
	require.Equal(t, 2, v.Starts)
	require.Equal(t, 2, v.Agreed)
	info, err := os.Stat(l.path)
	require.NoError(t, err)
	require.NotZero(t, info.Size())
}

// Nodes that filters pass although our own model allows none, as with a resource that
// a driver serves on some nodes and a device plugin on others: every policy ranks
// them, and the pod is placed.
func TestModelAllowsNoNode(t *testing.T) {
	for _, name := range []string{"", "hand-k1", "kubernetes-k0", "general-k1", "kubernetes-k0-fixed"} {
		t.Run(name, func(t *testing.T) {
			l := two(t)
			l.node("plugin", 4)
			l.nodes["plugin"].Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
			l.stand(pod("full", "train", asks("example.com/gpu", "1")), "plugin")
			cause := "fallback:no-policy"
			if name != "" {
				l.SetPolicy(ledger.Primary, shipped(t, name))
				cause = "policy"
			}
			l.SetDeclared(&kube.Declarations{})
			l.SetServed([]string{"example.com/gpu"})
			l.sync()
			p := pod("train", "train", asks("example.com/gpu", "1"))
			a := l.state.cluster.EnsureApp(p)
			require.Empty(t, l.state.ledger.Fits(l.state.ledger.AppIndex(a.Name()), nil))
			v := l.Rank(t.Context(), p, []string{"a", "b"})
			require.True(t, v.Decides)
			require.Equal(t, cause, v.decision.Cause)
			require.ElementsMatch(t, []string{"a", "b"}, names(v))
			l.Reserve(l.stand(p, v.Ranked[0].Node), v.Ranked[0].Node, v)
			l.verify()
		})
	}
}

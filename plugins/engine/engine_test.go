package engine

import (
	"errors"
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

	"github.com/sigma-scheduler/sigma/binpack"
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

func TestModes(t *testing.T) {
	none, all := mode("canary", 0), mode("canary", 100)
	tests := []struct {
		name            string
		primary, canary *policy.Object
		decides         bool
		mode, cause     string
		by              string // whose digest the decision has
		first           string
	}{
		{"live", spreading(mode("live")), nil, true, "live", "policy", "primary", "c"},
		{"no mode is live", spreading(mode("")), nil, true, "live", "policy", "primary", "c"},
		{"shadow", spreading(mode("shadow")), nil, false, "shadow", "policy", "primary", "c"},
		{"canary for all", spreading(all), nil, true, "canary", "policy", "primary", "c"},
		{"canary for none", spreading(none), nil, false, "canary", "neutral", "", ""},
		{"canary policy for all", shipped(t, "hand-k0"), spreading(all), true, "canary", "policy", "canary", "c"},
		{"canary policy for none", spreading(), shipped(t, "hand-k0", none), true, "live", "policy", "primary", "c"},
		{"canary policy in shadow", spreading(), shipped(t, "hand-k0", mode("shadow", 100)), true, "live", "policy", "primary", "c"},
		{"canary policy beside one in shadow", shipped(t, "hand-k0", mode("shadow")), spreading(mode("live", 100)), true, "canary", "policy", "canary", "c"},
		{"canary policy alone, for none", nil, spreading(none), true, "live", "fallback:no-policy", "", "a"},
		{"canary policy alone, for all", nil, spreading(all), true, "canary", "policy", "canary", "c"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := two(t)
			l.SetPolicy(ledger.Primary, tt.primary)
			l.SetPolicy(ledger.Canary, tt.canary)
			v := l.place(pod("new", "web"))
			require.Equal(t, tt.decides, v.Decides)
			if tt.first != "" {
				require.Equal(t, tt.first, v.Ranked[0].Node)
			} else {
				require.Empty(t, v.Ranked)
			}
			d := l.decisions()[0]
			require.Equal(t, tt.mode, d.Mode)
			require.Equal(t, tt.cause, d.Cause)
			switch tt.by {
			case "primary":
				require.Equal(t, tt.primary.Digest(), d.PolicyDigest)
			case "canary":
				require.Equal(t, tt.canary.Digest(), d.PolicyDigest)
			}
			require.Equal(t, 1, l.counter(l.metrics.decisions.WithLabelValues(tt.mode, tt.cause)))
		})
	}
}

// A workload is a canary's or not, whatever the name and size of its pods; and it
// stays one when the share grows.
func TestCanaryShareStays(t *testing.T) {
	l := two(t)
	chosen := func(percent int) map[string]bool {
		l.SetPolicy(ledger.Canary, spreading(mode("canary", percent)))
		set := map[string]bool{}
		for i := range 300 {
			app := fmt.Sprint("app", i)
			l.sync()
			_, m, _ := l.decider(l.state.cluster.EnsureApp(pod("one", app)).Group().Name())
			_, again, _ := l.decider(l.state.cluster.EnsureApp(pod("two", app, asks("cpu", "3"))).Group().Name())
			require.Equal(t, m, again)
			if m == policy.Canary {
				set[app] = true
			}
		}
		return set
	}
	ten, half := chosen(10), chosen(50)
	require.InDelta(t, 30, len(ten), 15)
	require.InDelta(t, 150, len(half), 30)
	for app := range ten {
		require.True(t, half[app], app)
	}
	require.Len(t, chosen(100), 300)
	require.Empty(t, chosen(0))

	l.SetPolicy(ledger.Canary, spreading(func(s *policy.Spec) { s.Mode = "canary" }))
	l.sync()
	canary, _ := l.state.ledger.Policy(ledger.Canary)
	require.Equal(t, defaultCanaryPercent, percentOf(canary))
}

// Whatever keeps a policy from deciding, Best-Fit does; and the log says so and can
// be computed again, as can the decision after it.
func TestGuard(t *testing.T) {
	fails := func(err error) func(*lab) {
		return func(l *lab) {
			l.spoil(func() error { return err })
		}
	}
	tests := []struct {
		reason, text string
		options      func(*Options)
		policy       *policy.Object
		spoil        func(*lab)
	}{
		{reason: "no-policy", text: "there is none."},
		{reason: "panic", text: "it failed (panic: index out of range).", policy: spreading(), spoil: func(l *lab) {
			l.spoil(func() error { panic("index out of range") })
		}},
		{reason: "not-finite", text: "a score is no number (", policy: spreading(), spoil: fails(fmt.Errorf("node a: %w", binpack.ErrNotFinite))},
		{reason: "error", text: "it failed (what?).", policy: spreading(), spoil: fails(errors.New("what?"))},
		{reason: "stale-forecast", text: "the forecast of expected pods is missing or too old.", policy: shipped(t, "hand-k1")},
		{
			reason: "stale-forecast", text: "the forecast of expected pods is missing or too old.", policy: shipped(t, "hand-k1"),
			spoil: func(l *lab) {
				l.SetDeclared(&kube.Declared{}) // nobody asked for it until it was old
				l.now = l.now.Add(6 * time.Minute)
			},
		},
		{
			reason: "deadline", text: "it took longer than the deadline.", policy: spreading(), options: func(o *Options) { o.Deadline = time.Second },
			spoil: func(l *lab) {
				l.spoil(func() error { l.now = l.now.Add(2 * time.Second); return nil })
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if tt.options == nil {
				tt.options = func(*Options) {}
			}
			l := two(t, tt.options)
			l.SetPolicy(ledger.Primary, tt.policy)
			if tt.spoil != nil {
				tt.spoil(l)
			}
			l.sync()
			l.state.cluster.EnsureApp(pod("new", "web"))
			columns := l.state.ledger.Columns()
			v := l.rank(pod("new", "web"))
			require.True(t, v.Decides)
			require.Equal(t, []string{"a", "b", "c"}, names(v), "Best-Fit's order")
			if tt.reason == "panic" {
				require.NotSame(t, columns, l.state.ledger.Columns(), "what a scorer left half-way is not used again")
			}
			l.Reserve(l.stand(pod("new", "web"), "a"), "a", v)
			require.Equal(t, 1, l.fallbacks(tt.reason))
			require.Equal(t, 0, l.counter(l.metrics.disagreements.WithLabelValues("primary")), "nothing was compared")
			told := l.told()
			require.Len(t, told, 1)
			require.True(t, strings.HasPrefix(told[0], "Warning PolicyFallback Best-Fit decided instead of the placement policy: "+tt.text), told[0])

			// It passes.
			l.ranking.rankBy = l.state.ledger.Rank
			l.SetPolicy(ledger.Primary, spreading())
			require.Equal(t, "c", l.place(pod("next", "web")).Ranked[0].Node)
			d := l.decisions()
			require.Equal(t, ledger.CauseFallback+tt.reason, d[0].Cause)
			require.Equal(t, ledger.CausePolicy, d[1].Cause)
			require.Equal(t, 1, l.fallbacks(tt.reason))
			require.Zero(t, l.counter(l.metrics.restarts))
		})
	}
}

// spoil has something happen when the policy ranks.
func (l *lab) spoil(f func() error) {
	l.ranking.rankBy = func(role ledger.Role, app int32, allowed []int32, top int, buf []binpack.Ranked) ([]binpack.Ranked, error) {
		ranked, err := l.state.ledger.Rank(role, app, allowed, top, buf)
		if role != ledger.BestFit {
			if failed := f(); failed != nil {
				return ranked[:0], failed
			}
		}
		return ranked, err
	}
}

// A policy in shadow that fails is counted, but nobody decided instead of it.
func TestGuardInShadow(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, spreading(mode("shadow")))
	l.spoil(func() error { panic("x") })
	v := l.place(pod("new", "web"))
	require.False(t, v.Decides)
	require.Equal(t, 1, l.fallbacks("panic"))
	require.Empty(t, l.told())
	require.Equal(t, "fallback:panic", l.decisions()[0].Cause)
}

// When Best-Fit cannot rank either, the pod is scheduled all the same.
func TestNothingRanks(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, spreading())
	l.ranking.rankBy = func(ledger.Role, int32, []int32, int, []binpack.Ranked) ([]binpack.Ranked, error) { panic("x") }
	v := l.place(pod("new", "web"))
	require.Empty(t, v.Ranked)
	l.ranking.rankBy = l.state.ledger.Rank
	require.Equal(t, "c", l.place(pod("next", "web")).Ranked[0].Node)
	require.Equal(t, map[string]int{"fallback:panic": 1, "policy": 1}, l.verify().Causes)
}

// A forecast is as old as what it was made of.
func TestForecastAges(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, shipped(t, "hand-k1"))
	l.SetDeclared(&kube.Declared{})
	for _, step := range []struct {
		after time.Duration
		cause string
	}{{5 * time.Minute, "policy"}, {time.Nanosecond, "fallback:stale-forecast"}} {
		l.now = l.now.Add(step.after)
		l.place(pod(fmt.Sprint("p", step.after), "web"))
		d := l.decisions()
		require.Equal(t, step.cause, d[len(d)-1].Cause)
	}
	l.SetDeclared(&kube.Declared{})
	l.place(pod("last", "web"))
	require.Equal(t, "policy", l.decisions()[2].Cause)
}

// An event that cannot be booked: the state is built anew, with all that is in
// force, and the log can be computed from end to end.
func TestRestart(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, shipped(t, "hand-k1"))
	l.SetRules([]*kube.Rule{atMost(t, 1, "web")})
	l.SetDeclared(&kube.Declared{})
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
	require.NotEmpty(t, check.Refuses(l.holds("p1")))
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
		l.SetDeclared(&kube.Declared{})
		l.sync()
		l.now = l.now.Add(24 * time.Hour)
	}
	require.NotContains(t, l.exposed(), `resource="example.com/gpu"`, "nobody asks for it any more")

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

// A policy in shadow is compared and tells where it differs, be it the one that is
// to decide or the canary.
func TestShadowIsCompared(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, spreading(mode("shadow")))
	l.place(pod("p1", "web"))
	require.Equal(t, []string{"Normal ShadowDisagreement The placement policy in shadow would take node c, Best-Fit a."}, l.told())
	require.Equal(t, 1, l.counter(l.metrics.disagreements.WithLabelValues("primary")))
	require.Equal(t, 1, l.counter(l.metrics.opened.WithLabelValues("policy")))
	d := l.decisions()[0]
	require.Equal(t, "a", d.Node)
	require.Equal(t, "c", d.Choice)

	l.SetPolicy(ledger.Primary, shipped(t, "hand-k0"))
	l.SetPolicy(ledger.Canary, spreading(mode("shadow")))
	l.place(pod("p2", "web"))
	require.Equal(t, 1, l.counter(l.metrics.opened.WithLabelValues("canary")))
	require.Len(t, l.told(), 1)
	require.Equal(t, 1, l.counter(l.metrics.disagreements.WithLabelValues("primary")), "a decision is counted once")

	l.SetPolicy(ledger.Primary, nil) // Best-Fit is not what it would be compared with
	l.place(pod("p3", "web"))
	require.Equal(t, 1, l.counter(l.metrics.opened.WithLabelValues("canary")))
	l.verify()
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
	require.NoError(t, l.state.log.file.Close()) // the disk is gone
	require.Len(t, l.place(pod("p2", "web")).Ranked, 3)
	require.NotZero(t, l.counter(l.metrics.logErrors))
	l.state.log.file = nil
}

// Nobody decides after the end, but a binding may still fail.
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

// Without a decision log nobody lists what filters refused.
func TestNoDecisionLog(t *testing.T) {
	l := two(t, func(o *Options) { o.DecisionLog = "" })
	l.SetPolicy(ledger.Primary, spreading())
	l.sync()
	v := l.Rank(t.Context(), pod("new", "web"), []string{"a", "b"})
	require.Equal(t, []string{"b", "a"}, names(v))
	require.Empty(t, v.decision.Infeasible)
	require.Empty(t, l.state.log.lines)
}

// Pods that waited and are gone are forgotten; of others nobody takes note.
func TestGone(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, spreading())
	for i := range 50 { // a standby hears of many
		l.Deleted(pod(fmt.Sprint("foreign", i), "web"))
	}
	require.Empty(t, l.inbox.deleted)

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
	require.Empty(t, l.inbox.tracked)
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

// The log is at the place it was told of, and goes on after a start.
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

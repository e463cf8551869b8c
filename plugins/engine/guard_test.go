package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

func TestModes(t *testing.T) {
	none, all := mode("canary", 0), mode("canary", 100)
	tests := []struct {
		name            string
		primary, canary *policy.Object
		decides         bool
		mode, cause     string
		by              string // role whose digest the decision has
		first           string
	}{
		{"live", spreading(mode("live")), nil, true, "live", "policy", "primary", "c"},
		{"no mode is shadow", spreading(mode("")), nil, false, "shadow", "policy", "primary", "c"},
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

// Whatever prevents a policy from deciding, Best-Fit decides instead. The log has the
// cause and can be computed again, with the decision after it.
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
		{reason: "not-finite", text: "a score is not a number (", policy: spreading(), spoil: fails(fmt.Errorf("node a: %w", binpack.ErrNotFinite))},
		{reason: "error", text: "it failed (what?).", policy: spreading(), spoil: fails(errors.New("what?"))},
		{reason: "stale-forecast", text: "the forecast of expected pods is missing or too old.", policy: shipped(t, "hand-k1")},
		{
			reason: "stale-forecast", text: "the forecast of expected pods is missing or too old.", policy: shipped(t, "hand-k1"),
			spoil: func(l *lab) {
				l.SetDeclared(&kube.Declarations{}) // it was old when a decision read it
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

// A policy in shadow that fails is counted, but nothing decides instead of it.
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

// When Best-Fit cannot rank either, the pod is still scheduled.
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
	l.SetDeclared(&kube.Declarations{})
	for _, step := range []struct {
		after time.Duration
		cause string
	}{{5 * time.Minute, "policy"}, {time.Nanosecond, "fallback:stale-forecast"}} {
		l.now = l.now.Add(step.after)
		l.place(pod(fmt.Sprint("p", step.after), "web"))
		d := l.decisions()
		require.Equal(t, step.cause, d[len(d)-1].Cause)
	}
	l.SetDeclared(&kube.Declarations{})
	l.place(pod("last", "web"))
	require.Equal(t, "policy", l.decisions()[2].Cause)
}

// A policy in shadow, primary or canary, is compared and its disagreements are
// reported.
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

package engine

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	builtin "github.com/sigma-scheduler/sigma/binpack/rule"
)

func TestWatchPolicy(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		first := func() string {
			v := l.rank(pod("new", "web"))
			return v.decision.Cause + " " + v.Ranked[0].Node
		}
		s.apply(policies, "general", specOf(t, spreading()))
		s.apply(policies, "unused", specOf(t, spreading()))
		require.True(t, watch(l))
		require.Equal(t, "policy c", first())
		require.EqualValues(t, 1, l.gauge(l.metrics.generation.WithLabelValues("primary")))
		settle()
		require.Equal(t, map[string]string{"Accepted": "True Valid 1", "Active": "True Live 1", "observedGeneration": "1"}, s.status(policies, "general"))
		require.Equal(t, "In force in profile "+l.opt.Profile+" as primary.", s.message(policies, "general", "Active"))
		require.Equal(t, map[string]string{"Accepted": "True Valid 1", "Active": "False NotReferenced 1", "observedGeneration": "1"}, s.status(policies, "unused"))
		o, err := s.Tracker().Get(policies, "", "general")
		require.NoError(t, err)
		require.Equal(t, spreading().Digest(), o.(*unstructured.Unstructured).Object["status"].(map[string]any)["digest"])

		// Swapped while pods come.
		s.apply(policies, "general", specOf(t, shipped(t, "hand-k0")))
		synctest.Wait()
		require.Equal(t, "policy a", first())
		require.EqualValues(t, 2, l.gauge(l.metrics.generation.WithLabelValues("primary")))

		// Malformed: what is in force stays.
		for _, wrong := range []struct {
			spec func(map[string]any)
			text string
		}{
			{func(s map[string]any) { s["features"] = []any{"mean", "luck"} }, `spec.weights has 1 numbers for 2 features`},
			{func(s map[string]any) { s["features"] = []any{"luck"} }, `spec.features[0] "luck": known are`},
			{func(s map[string]any) { s["weights"] = []any{"many"} }, "cannot unmarshal !!str `many` into float64"},
			{func(s map[string]any) { s["knowledge"] = "K2" }, "spec.knowledge K2: a live cluster has no known totals"},
			{func(s map[string]any) { s["weights"] = []any{1e9} }, "spec.weights[0] 1e+09"},
			{func(s map[string]any) { clear(s) }, "spec.featureVersion 0"},
			{func(s map[string]any) {
				clear(s)
				s["featureVersion"], s["model"], s["knowledge"], s["rule"] = int64(1), "rule", "K0", map[string]any{"name": "random"}
			}, `spec.rule.name "random": a rule that draws at random is no policy file`},
			{func(s map[string]any) {
				many := 100_000
				if testing.Short() {
					many = 1000
				}
				s["features"], s["weights"] = make([]any, many), make([]any, many)
				for i := range many {
					s["features"].([]any)[i], s["weights"].([]any)[i] = fmt.Sprint("f", i), 1.5
				}
			}, `spec.features[0] "f0"`},
		} {
			spec := specOf(t, spreading())
			wrong.spec(spec)
			generation := s.apply(policies, "general", spec).GetGeneration()
			settle()
			require.Equal(t, "policy a", first())
			require.Equal(t, map[string]string{
				"Accepted": fmt.Sprintf("False Invalid %d", generation), "Active": fmt.Sprintf("False NotAccepted %d", generation),
				"observedGeneration": fmt.Sprint(generation),
			}, s.status(policies, "general"))
			require.Contains(t, s.message(policies, "general", "Accepted"), wrong.text)
			require.Equal(t, "Generation 2, the last that was accepted, stays in force.", s.message(policies, "general", "Active"))
			require.EqualValues(t, generation-2, l.counter(l.metrics.loadErrors.WithLabelValues("placementpolicies")))
			require.EqualValues(t, 2, l.gauge(l.metrics.generation.WithLabelValues("primary")))
		}

		// Mended, in another mode.
		s.apply(policies, "general", specOf(t, spreading(mode("shadow"))))
		settle()
		require.False(t, l.rank(pod("new", "web")).Decides)
		require.Equal(t, "True Shadow 11", s.status(policies, "general")["Active"])
		require.Contains(t, s.message(policies, "general", "Active"), "It decides nothing until spec.mode, shadow unless set, is canary or live.")

		// Deleted, and made again with the wrong version first.
		s.remove(policies, "general")
		synctest.Wait()
		require.Equal(t, "fallback:no-policy a", first())
		require.Zero(t, l.gauge(l.metrics.generation.WithLabelValues("primary")))
		s.apply(policies, "general", map[string]any{})
		settle()
		require.Equal(t, "fallback:no-policy a", first())
		require.Equal(t, "No version was accepted; Best-Fit decides.", s.message(policies, "general", "Active"))
		s.apply(policies, "general", specOf(t, spreading()))
		synctest.Wait()
		require.Equal(t, "policy c", first())

		// The canary is another object.
		s.apply(policies, "canary", specOf(t, shipped(t, "hand-k0", mode("canary", 100))))
		settle()
		require.Equal(t, "policy a", first())
		require.Equal(t, "True Canary 1", s.status(policies, "canary")["Active"])
		require.Equal(t, "In force in profile "+l.opt.Profile+" as canary.", s.message(policies, "canary", "Active"))
		require.EqualValues(t, 1, l.gauge(l.metrics.generation.WithLabelValues("canary")))
		s.remove(policies, "canary")
		synctest.Wait()
		require.Equal(t, "policy c", first())

		// A built-in rule decides as any other policy.
		for name, want := range map[string]string{"mostallocated": "policy a", "leastallocated": "policy c"} {
			s.apply(policies, "general", specOf(t, spreading(func(s *policy.Spec) {
				s.Model, s.Features, s.Weights = policy.RuleModel, nil, nil
				s.Rule = &builtin.Settings{Choice: builtin.Choice{Name: name, Resources: map[string]int64{"cpu": 1}}}
			})))
			settle()
			require.Equal(t, want, first())
			require.Regexp(t, "^True Valid", s.status(policies, "general")["Accepted"])
		}
		l.verify()
	})
}

func TestWatchRules(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		refused := func(app string) bool {
			l.sync()
			check := l.Check(pod("new", app))
			return check != nil && check.Refusal("a") != ""
		}
		s.apply(rules, "one", ruleSpec("old", 1))
		require.True(t, watch(l))
		require.NoError(t, l.Ready())
		settle()
		require.Equal(t, map[string]string{"Accepted": "True Valid 1", "observedGeneration": "1"}, s.status(rules, "one"),
			"of conflicts a standby knows nothing")
		require.True(t, refused("old"))
		require.False(t, refused("web"))
		settle()
		require.Equal(t, map[string]string{
			"Accepted": "True Valid 1", "Conflicting": "False None 1", "conflicts": "0", "observedGeneration": "1",
		}, s.status(rules, "one"))

		// Conflicts come and go without an event of the rule.
		foreign := l.stand(pod("old-2", "old"), "a")
		l.Bound(foreign)
		settle()
		require.Equal(t, "True PodsAgainstRule 1", s.status(rules, "one")["Conflicting"])
		require.Equal(t, "1", s.status(rules, "one")["conflicts"])
		l.sync()
		l.leave(foreign)
		l.sync()
		settle()
		require.Equal(t, "0", s.status(rules, "one")["conflicts"])

		// Changed, malformed, mended, deleted.
		s.apply(rules, "one", ruleSpec("old", 2))
		synctest.Wait()
		require.False(t, refused("old"))
		s.apply(rules, "one", ruleSpec("old", 1))
		synctest.Wait()
		for _, spec := range []map[string]any{
			{"selector": "all"}, {"selector": map[string]any{"matchExpressions": []any{map[string]any{"key": "app", "operator": "Is"}}}}, ruleSpec("old", 0),
		} {
			generation := s.apply(rules, "one", spec).GetGeneration()
			settle()
			require.True(t, refused("old"), "the last good one is in force")
			require.Equal(t, fmt.Sprint("False Invalid ", generation), s.status(rules, "one")["Accepted"])
			require.True(t, strings.HasSuffix(s.message(rules, "one", "Accepted"), "; the last version that was accepted stays in force"))
		}
		require.Equal(t, 3, l.counter(l.metrics.loadErrors.WithLabelValues("placementrules")))
		s.apply(rules, "two", ruleSpec("web", 0))
		settle()
		require.Equal(t, "spec.maxPerNode 0: want at least 1", s.message(rules, "two", "Accepted"))
		require.NotContains(t, s.status(rules, "two"), "Conflicting")
		s.apply(rules, "two", ruleSpec("old", 1))
		synctest.Wait()
		s.remove(rules, "one")
		synctest.Wait()
		require.True(t, refused("old"), "by the second one")
		s.remove(rules, "two")
		synctest.Wait()
		require.False(t, refused("old"))
	})
}

// The scheduler wakes pods by an informer of its own, which may be ahead of ours.
func TestRuleChanged(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		refused := func() bool {
			l.sync()
			check := l.Check(pod("new", "old"))
			return check != nil && check.Refusal("a") != ""
		}
		l.RuleChanged(nil, nil) // there is no watcher
		was := s.apply(rules, "one", ruleSpec("old", 1))
		watch(l)
		require.True(t, refused())

		later := was.DeepCopy()
		later.SetGeneration(2)
		later.Object["spec"] = ruleSpec("old", 2)
		l.RuleChanged(was, later)
		require.False(t, refused())
		l.RuleChanged(nil, was) // ours, coming late
		require.False(t, refused())
		require.Equal(t, later, l.watcher.Load().known[key{rules, "one"}].object)
		l.RuleChanged(later, nil)
		require.False(t, refused())
		require.Empty(t, l.watcher.Load().rules)
		l.RuleChanged(later, nil) // ours

		again := was.DeepCopy()
		again.SetUID("another")
		l.RuleChanged(nil, again)
		require.True(t, refused())
		l.RuleChanged(later, nil) // the deletion of the one before
		require.True(t, refused())
		settle()
	})
}

// Replicas of the scheduler that disagree, with several profiles, do not overwrite each
// other for ever; nor does a standby undo what the active one writes.
func TestStatusWithSeveralWatchers(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		s.apply(policies, "general", specOf(t, spreading()))
		s.apply(policies, "other", specOf(t, spreading()))
		s.apply(rules, "one", ruleSpec("old", 1))
		watch(l)
		l.stand(pod("old-2", "old"), "a")
		l.sync()
		settle()
		before := len(s.Actions())
		again := newLab(t, func(o *Options) { o.Now, o.Profile = nil, l.opt.Profile })
		watch(again) // the same program after a restart writes nothing new
		settle()
		for _, action := range s.Actions()[before:] {
			require.NotEqual(t, "patch", action.GetVerb())
		}
		standby := newLab(t, func(o *Options) { o.Now = nil })
		watch(standby)
		other := newLab(t, func(o *Options) { o.Now, o.PolicyName = nil, "other" })
		watch(other)
		both := newLab(t, func(o *Options) { o.Now, o.CanaryName = nil, "other" })
		watch(both)
		settle()
		require.Equal(t, "1", s.status(rules, "one")["conflicts"])
		require.Equal(t, "True Live 1", s.status(policies, "other")["Active"])
		for range 3 {
			written := func() []int { return []int{s.written("general"), s.written("other"), s.written("one")} }
			writes := written()
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, writes, written(), "nobody has anything new to say")
			s.apply(policies, "general", specOf(t, spreading(mode("canary", writes[0]))))
			s.apply(policies, "other", map[string]any{})
			s.apply(rules, "one", ruleSpec("old", 1))
			settle()
		}
		require.LessOrEqual(t, s.written("general"), 5*4, "once each for a generation")
		require.Equal(t, "True Canary 4", s.status(policies, "general")["Active"])
		require.Equal(t, "False NotAccepted 4", s.status(policies, "other")["Active"])

		// They see conflicts differently.
		l.leave(pod("old-2", "old"))
		l.sync()
		standby.node("x", 8)
		standby.stand(pod("old-1", "old"), "x")
		standby.stand(pod("old-2", "old"), "x")
		standby.sync() // it believes to lead
		settle()
		writes := s.written("one")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, writes, s.written("one"))
	})
}

// A status that cannot be written does not keep anything from coming into force,
// and is written when that is possible.
func TestStatusCannotBeWritten(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		s.refuse(apierrors.NewServiceUnavailable("away"))
		s.apply(policies, "general", specOf(t, spreading()))
		watch(l)
		settle()
		require.Equal(t, "c", l.rank(pod("new", "web")).Ranked[0].Node)
		require.Empty(t, s.status(policies, "general"))
		s.refuse(nil)
		settle()
		require.Equal(t, "True Live 1", s.status(policies, "general")["Active"])

		s.refuse(apierrors.NewForbidden(policies.GroupResource(), "general", nil))
		before := len(s.Actions())
		s.apply(policies, "general", specOf(t, shipped(t, "hand-k0")))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, s.Actions(), before+4, "it is asked for once, beside the history's list, revision and event")
		require.Equal(t, "a", l.rank(pod("new", "web")).Ranked[0].Node)
	})
}

// A cluster without the objects, or one that does not let us read them.
func TestNotServed(t *testing.T) {
	for _, refusal := range []error{
		apierrors.NewNotFound(rules.GroupResource(), ""), apierrors.NewForbidden(rules.GroupResource(), "", nil), apierrors.NewUnauthorized("who?"),
	} {
		inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
			s.PrependReactor("list", "placementrules", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
			s.apply(policies, "general", specOf(t, spreading()))
			before := l.counter(l.metrics.loadErrors.WithLabelValues("placementrules"))
			require.False(t, watch(l))
			require.Equal(t, before+1, l.counter(l.metrics.loadErrors.WithLabelValues("placementrules")))
			require.NoError(t, l.Ready(), "there are no rules to keep")
			require.Equal(t, "c", l.rank(pod("new", "web")).Ranked[0].Node, "policies are in force")
		})
	}
}

// Rules that there are and that cannot be read yet: nothing is decided before.
func TestRulesThatCannotBeReadYet(t *testing.T) {
	handlers := utilruntime.ErrorHandlers // one of them sleeps, by the real clock
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		var away atomic.Bool
		away.Store(true)
		s.PrependReactor("list", "placementrules", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, apierrors.NewServiceUnavailable("away")
		})
		s.apply(rules, "one", ruleSpec("old", 1))
		begin := time.Now()
		require.True(t, watch(l))
		require.InDelta(t, syncPatience.Seconds(), time.Since(begin).Seconds(), 1)
		require.EqualError(t, l.Ready(), "placement rules are not read yet")
		away.Store(false)
		time.Sleep(time.Minute) // the informer tries again by and by
		synctest.Wait()
		require.NoError(t, l.Ready())
		l.sync()
		require.NotEmpty(t, l.Check(pod("new", "old")).Refusal("a"))
	})
}

package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// planSpec is a plan for pods of 1 cpu and 1 GiB of an app, by node, until an hour from now.
func planSpec(mode, app string, nodes map[string]int64) map[string]any {
	var list []any
	for _, name := range []string{"a", "b", "c", "d"} {
		if n := nodes[name]; n > 0 {
			list = append(list, map[string]any{"node": name, "pods": n})
		}
	}
	spec := map[string]any{
		"deadline":  time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		"workloads": []any{map[string]any{"namespace": "default", "name": app, "requests": map[string]any{"cpu": "1", "memory": "1Gi"}, "nodes": list}},
	}
	if mode != "" {
		spec["mode"] = mode
	}
	return spec
}

// Pods land as planned, whatever the policy would do and its mode is; others do not take the
// room. The log gives the same decisions, also after it began again.
func TestPodsLandAsPlanned(t *testing.T) {
	for _, mode := range []policy.Mode{policy.Live, policy.Shadow, policy.Canary} {
		t.Run(string(mode), func(t *testing.T) {
			inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
				general := spreading()
				general.Spec.Mode, general.Spec.CanaryPercent = mode, new(0)
				s.apply(policies, "general", specOf(t, general))
				s.apply(plans, "site", planSpec("Enabled", "web", map[string]int64{"b": 2, "d": 1}))
				for _, name := range []string{"a", "b", "c", "d"} {
					l.node(name, 4)
				}
				require.True(t, watch(l))
				l.sync()
				settle()
				require.Equal(t, map[string]string{
					"Accepted": "True Valid 1", "Active": "True Reserving 1", "observedGeneration": "1", "pods": "3", "landed": "0", "reserved": "3", "elsewhere": "0", "replanned": "0",
				}, s.status(plans, "site"))
				require.True(t, l.Holds("b"))
				require.False(t, l.Holds("a"))

				// Three cores of b's four are asked for by another app: two are reserved.
				large := pod("large", "other", asks("cpu", "3"))
				require.Equal(t, "PlacementPlan/site: cpu is reserved for other pods", l.Check(large).Refusal("b"))
				require.Empty(t, l.Check(large).Refusal("a"))

				for i, want := range []string{"b", "b", "d"} {
					v := l.place(pod(fmt.Sprint("web-", i), "web"))
					require.True(t, v.Decides)
					require.Equal(t, want, v.Ranked[0].Node)
					if i == 0 {
						l.mu.Lock()
						l.state.log.broken = true // it begins again, with what is reserved
						l.mu.Unlock()
						l.flush()
					}
				}
				settle()
				require.Equal(t, "True Complete 1", s.status(plans, "site")["Active"])
				require.Equal(t, "All pods stand where the plan has them.", s.message(plans, "site", "Active"))
				after := l.place(pod("web-3", "web"))
				require.NotEqual(t, ledger.CausePlanned, after.decision.Cause, "the plan says nothing of a fourth")
				verdict := l.verify()
				require.Equal(t, 3, verdict.Causes[ledger.CausePlanned])
				require.Equal(t, 2, verdict.Starts)
			})
		})
	}
}

// Where a pod does not pass the filters on its node, or that goes, the policy decides, and the
// status says so.
func TestPlanIsLeft(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		s.apply(policies, "general", specOf(t, spreading()))
		s.apply(plans, "site", planSpec("Enabled", "web", map[string]int64{"b": 1, "c": 1}))
		for _, name := range []string{"a", "b", "c"} {
			l.node(name, 4)
		}
		require.True(t, watch(l))
		l.sync()
		web := pod("web-0", "web")
		v := l.Rank(t.Context(), web, []string{"a"}) // other filters refuse b and c
		require.Equal(t, "policy a", v.decision.Cause+" "+v.Ranked[0].Node)
		l.Reserve(l.stand(web, "a"), "a", v)

		delete(l.nodes, "b")
		l.dirty["b"] = true
		l.sync()
		settle()
		require.Equal(t, "1 1 0", fmt.Sprint(s.status(plans, "site")["elsewhere"], " ", s.status(plans, "site")["reserved"], " ", s.status(plans, "site")["landed"]))
		require.Equal(t, "0 of 2 pods landed as planned, 1 stand elsewhere.", s.message(plans, "site", "Active"))
		require.Equal(t, "c", l.place(pod("web-1", "web")).Ranked[0].Node)
		l.verify()
	})
}

// A plan has no effect until it is enabled, and none after its deadline, without a decision
// in between.
func TestPlanBegins(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		s.apply(policies, "general", specOf(t, spreading()))
		s.apply(plans, "site", planSpec("", "web", map[string]int64{"b": 1}))
		l.node("a", 4)
		l.node("b", 4)
		require.True(t, watch(l))
		settle()
		require.Equal(t, map[string]string{"Accepted": "True Valid 1", "observedGeneration": "1"}, s.status(plans, "site"), "nothing is known before the nodes are read")
		l.sync()
		settle()
		require.Equal(t, "False DryRun 1", s.status(plans, "site")["Active"])
		require.Equal(t, "Nothing is reserved until spec.mode is Enabled; there is room for 1 of the pods to come. 0 of 1 pods landed as planned.", s.message(plans, "site", "Active"))
		require.False(t, l.Holds("b"))

		s.apply(plans, "site", planSpec("Enabled", "web", map[string]int64{"b": 1}))
		synctest.Wait()
		l.sync()
		require.True(t, l.Holds("b"))
		time.Sleep(time.Hour)
		settle()
		require.False(t, l.Holds("b"))
		require.Equal(t, "False Deadline 2", s.status(plans, "site")["Active"])

		s.apply(plans, "site", planSpec("Enabled", "web", map[string]int64{"b": 1}))
		synctest.Wait()
		l.sync()
		require.True(t, l.Holds("b"))
		l.mu.Lock()
		l.state.broken = fmt.Errorf("a test")
		l.mu.Unlock()
		l.sync()
		require.True(t, l.Holds("b"), "built again")
		s.remove(plans, "site")
		synctest.Wait()
		l.sync()
		require.False(t, l.Holds("b"))

		// No pod comes: the plan begins by itself.
		s.apply(plans, "late", planSpec("Enabled", "web", map[string]int64{"b": 1}))
		time.Sleep(2 * idle)
		settle()
		require.True(t, l.Holds("b"))
		require.Equal(t, "True Reserving 1", s.status(plans, "late")["Active"])
		l.verify()
	})
}

// What is not accepted has no effect: a plan that cannot be read, and one with a workload of
// an older one, until that goes.
func TestPlanIsNotAccepted(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		s.apply(plans, "first", planSpec("Enabled", "web", map[string]int64{"a": 1}))
		s.apply(plans, "second", planSpec("Enabled", "web", map[string]int64{"b": 1}))
		bad := planSpec("Enabled", "db", map[string]int64{"a": 1})
		bad["workloads"].([]any)[0].(map[string]any)["nodes"].([]any)[0].(map[string]any)["pods"] = int64(0)
		s.apply(plans, "third", bad)
		l.node("a", 4)
		l.node("b", 4)
		require.True(t, watch(l))
		l.sync()
		settle()
		require.Equal(t, "False Invalid 1", s.status(plans, "second")["Accepted"])
		require.Equal(t, "spec.workloads: the older plan first has default/web too", s.message(plans, "second", "Accepted"))
		require.Equal(t, "spec.workloads[0].nodes[0].pods 0: want 1 to 10000", s.message(plans, "third", "Accepted"))
		require.True(t, l.Holds("a"))
		require.False(t, l.Holds("b"))
		bad["workloads"].([]any)[0].(map[string]any)["name"] = "web"
		s.apply(plans, "first", bad)
		synctest.Wait()
		l.sync()
		settle()
		require.Equal(t, "False Invalid 2", s.status(plans, "first")["Accepted"])
		require.Equal(t, "The version before stays in force.", s.message(plans, "first", "Active"))
		require.True(t, l.Holds("a"))
		s.remove(plans, "first")
		synctest.Wait()
		l.sync()
		settle()
		require.Equal(t, "True Valid 1", s.status(plans, "second")["Accepted"])
		require.False(t, l.Holds("a"))
		require.True(t, l.Holds("b"))
	})
}

//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// A planFault is what happens at a moment to a Rebalance in mode Auto that empties the first node of a site. Its conditions
// and events then say what came of it.
type planFault struct {
	name   string
	at     []moment
	strike func(*testing.T, *moveLab, *moveSite, func())
	says   string
}

var planFaults = []planFault{
	{"a replacement never comes", []moment{evictingFirst, evictingSecond}, func(t *testing.T, _ *moveLab, s *moveSite, goOn func()) {
		s.forbid(t)
		goOn()
		e2e.Wait(t, "the end", func() (string, bool) { is := s.outcome(t); return is, strings.Contains(is, "GivenUp") })
		s.allow(t)
	}, "GivenUp.*there has been no replacement of"},
	{schedulerKilled, []moment{cordoning, recordingFirst, evictingFirst, endingFirst, bindingFirst, recordingSecond, evictingSecond, endingSecond, bindingSecond, marking, uncordoning},
		func(t *testing.T, l *moveLab, s *moveSite, goOn func()) {
			l.sigma.Kill(t)
			goOn()
			l.sigma.Restart(t)
			l.sigma.WaitReady(t)
			s.wake(t) // it leads once it has decided something
		}, "Interrupted|Suspended"},
	{"the API server is killed", []moment{evictingFirst, bindingFirst, cordoning, evictingSecond, marking}, func(t *testing.T, l *moveLab, s *moveSite, goOn func()) {
		s.watch.blinded(s.ns)
		l.c.Signal(t, "kube-apiserver", syscall.SIGKILL)
		goOn()
		l.c.WaitReady(t)
	}, "Done"},
	{"a target dies", []moment{evictingFirst, evictingSecond}, func(t *testing.T, l *moveLab, s *moveSite, goOn func()) {
		s.lose(t, l.placeOf(t, s))
		goOn()
	}, "GivenUp.* is gone, cordoned or not ready"},
	{"the node dies", []moment{bindingFirst, evictingSecond}, func(t *testing.T, _ *moveLab, s *moveSite, goOn func()) {
		s.lose(t, s.from)
		goOn()
	}, "GivenUp.*(the node is gone|is not evicted)"},
	{"a foreign pod takes the place", []moment{evictingFirst, evictingSecond}, func(t *testing.T, l *moveLab, s *moveSite, goOn func()) {
		s.bare(t, "foreign", l.placeOf(t, s), "1500m")
		goOn()
	}, "GivenUp.*has fit on no node for"},
	{"a budget tightened", []moment{evictingSecond, evictingFirst}, func(t *testing.T, l *moveLab, s *moveSite, goOn func()) {
		app := l.gate.held()
		s.c.Kubectl(t, "", "patch", "poddisruptionbudget", app, "-n", s.ns, "-p", `{"spec":{"maxUnavailable":0}}`)
		s.waitBudget(t, app, "0")
		s.watch.shut(s.ns, app)
		goOn()
	}, "GivenUp.*is not evicted: .*budget"},
	{"another policy decides", []moment{bindingFirst, evictingFirst}, func(t *testing.T, l *moveLab, _ *moveSite, goOn func()) {
		file := "hand-k0"
		if l.c.Kubectl(t, "", "get", "placementpolicy", "general", "-o", "jsonpath={.metadata.labels.is}") == file {
			file = "kubernetes-k0"
		}
		applyPolicy(t, l.c, file, "general")
		l.c.Kubectl(t, "", "label", "placementpolicy", "general", "--overwrite", "is="+file)
		l.waitPolicy(t)
		goOn()
	}, "Done.*1 were emptied"},
	{"the spec is changed", []moment{bindingFirst, evictingFirst}, func(t *testing.T, _ *moveLab, s *moveSite, goOn func()) {
		s.patch(t, `{"movesPerHour":30}`)
		goOn()
	}, "Done"},
	{"it is suspended", []moment{evictingFirst, bindingFirst, recordingFirst, evictingSecond}, func(t *testing.T, _ *moveLab, s *moveSite, goOn func()) {
		begun := s.watch.evictions(s.ns) + 1
		s.patch(t, `{"suspend":true}`)
		goOn()
		s.waitOutcome(t, "Suspended")
		require.LessOrEqual(t, s.watch.evictions(s.ns), begun)
	}, "Suspended"},
	{"nothing fails", []moment{evictingFirst}, func(_ *testing.T, _ *moveLab, _ *moveSite, goOn func()) { goOn() }, "Done.*1 were emptied and 0"},
}

// rebalance makes the object that empties the site's first node.
func (s *moveSite) rebalance(t *testing.T) {
	t.Helper()
	s.c.Kubectl(t, fmt.Sprintf("{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: %s}, spec: {mode: Auto, every: 168h, inFlight: 1, moves: 100%%, nodeSelector: {site: %[1]s}}}", s.ns), "apply", "-f", "-")
}

func (s *moveSite) patch(t *testing.T, spec string) {
	t.Helper()
	s.c.Kubectl(t, "", "patch", "rebalance", s.ns, "--type=merge", "-p", `{"spec":`+spec+`}`)
}

// outcome is what the conditions of the Rebalance say once it is not under way, and its events.
func (s *moveSite) outcome(t *testing.T) string {
	t.Helper()
	r := rebalanceOf(t, s.c, s.ns)
	is, stopped := conditionOf(r.Status.Conditions, v1alpha1.ConditionProgressing), conditionOf(r.Status.Conditions, v1alpha1.ConditionStopped)
	if is.Status != "False" || is.ObservedGeneration != r.Generation {
		return "under way: " + is.Message
	}
	events := s.c.Kubectl(t, "", "get", "events", "-A", "--field-selector=involvedObject.kind=Rebalance,reason=GivenUp,involvedObject.name="+s.ns, "-o", `jsonpath={range .items[*]}{.reason}: {.note}{.message} {end}`)
	return fmt.Sprintf("%s: %s; %s: %s %s", is.Reason, is.Message, stopped.Reason, stopped.Message, events)
}

// waitOutcome waits until the Rebalance is not under way and says what is expected.
func (s *moveSite) waitOutcome(t *testing.T, says string) (is string) {
	t.Helper()
	e2e.Wait(t, "the outcome "+says, func() (string, bool) {
		is = s.outcome(t)
		return is, !strings.HasPrefix(is, "under way") && regexp.MustCompile(says).MatchString(is)
	})
	return is
}

// reachPlan begins a Rebalance and stops it at a moment, as [moveSite.reach] does.
func (s *moveSite) reachPlan(t *testing.T, at moment) (goOn func()) {
	t.Helper()
	if at != uncordoning {
		return s.reach(t, at, s.rebalance)
	}
	s.rebalance(t)
	s.waitOutcome(t, "Done.*1 were emptied")
	s.gate.hold(s.ns, request{patches, 1})
	release := s.proxy.Hold()
	s.patch(t, `{"suspend":true}`)
	s.proxy.WaitHeld(t, 1)
	return func() {
		s.gate.hold(s.ns, request{})
		release()
	}
}

// placeOf is where room is reserved for the pod whose eviction is held.
func (l *moveLab) placeOf(t *testing.T, s *moveSite) string {
	t.Helper()
	s.wake(t) // its log has a reservation with the next decision
	app, node := l.gate.held(), ""
	e2e.Wait(t, "the place of "+app, func() (string, bool) {
		places := l.places(t, s)
		node = places[app]
		return fmt.Sprint(places), node != ""
	})
	return node
}

// wake has the scheduler decide something that changes nothing.
func (s *moveSite) wake(t *testing.T) {
	t.Helper()
	p := e2e.Pod(s.ns, "wakes", "0", "0")
	p.Spec.NodeSelector = map[string]string{v1.LabelHostname: s.ns + "-d"}
	s.c.CreatePods(t, p)
}

// cordons are the nodes of the site that Rebalances have cordoned, and whether they are marked as empty.
func (s *moveSite) cordons() map[string]bool {
	list := map[string]bool{}
	for _, n := range s.c.Nodes() {
		if n.Labels["site"] == s.ns && (n.Spec.Unschedulable || n.Annotations["sigma-scheduler.io/cordoned-by"] != "") {
			list[n.Name] = n.Annotations["sigma-scheduler.io/emptied"] != ""
		}
	}
	return list
}

// settlePlan checks what a fault leaves: the Rebalance says what came of it, all pods of the workloads run, only an empty node stays
// cordoned, and none once the Rebalance is gone; nothing is reserved, and every eviction is recorded.
func (l *moveLab) settlePlan(t *testing.T, s *moveSite, f *planFault) {
	t.Helper()
	is := s.waitOutcome(t, f.says)
	s.healthy(t)
	marked := strings.HasPrefix(is, "Done") || strings.HasPrefix(is, "Interrupted") && s.watch.evictions(s.ns) == 2 // a killed scheduler's last request may arrive
	e2e.Wait(t, "nodes that were given up to be uncordoned", func() (string, bool) {
		cordons := s.cordons()
		return fmt.Sprint(cordons), !slices.Contains(slices.Collect(maps.Values(cordons)), false) && (len(cordons) == 0 || marked)
	})
	if strings.HasPrefix(is, "Interrupted") {
		s.patch(t, `{"movesPerHour":30}`) // another plan
		is += " | then " + s.waitOutcome(t, "Done|Stopped")
		s.healthy(t)
	}
	s.requireEmpty(t)
	landed := l.landed(t, s)
	evicted := s.watch.evictions(s.ns)
	if strings.HasPrefix(is, "Done: Of 1 nodes 1 were emptied") {
		require.Equal(t, 2, evicted)
		require.Equal(t, 2, landed, "of two that moved")
	}
	l.c.Kubectl(t, "", "delete", "rebalance", s.ns)
	e2e.Wait(t, "all nodes uncordoned", func() (string, bool) { is := s.cordons(); return fmt.Sprint(is), len(is) == 0 })
	l.waitReleased(t, s)
	s.healthy(t)
	surplus := s.requireRecords(t, "rebalance")
	t.Logf("%d evicted, %d landed as planned, at most %d away, %d records without an eviction; %s", evicted, landed, s.watch.away(s.ns), surplus, is)
}

// requireEmpty checks that no pod stands on a node that is marked as empty.
func (s *moveSite) requireEmpty(t *testing.T) {
	t.Helper()
	cordons := s.cordons()
	for _, p := range s.c.Pods(s.ns) {
		require.NotContains(t, cordons, p.Spec.NodeName, p.Name)
	}
}

// TestRebalanceFaults has Rebalances in mode Auto empty a node by two moves, and meanwhile something fails, at a moment that the
// test chooses. A watch sees every change of every pod. Several clusters share the work. SIGMA_ROUNDS has more than one round of each fault, and then the
// scheduler is killed at every step.
func TestRebalanceFaults(t *testing.T) {
	rounds, lanes := roundsOf(t), 2 // as many as run at a time on two cores
	type job struct {
		*planFault
		at moment
	}
	var jobs []job
	for r := range rounds {
		for i := range planFaults {
			f := &planFaults[i]
			switch {
			case f.name == schedulerKilled && rounds == 1:
				for _, at := range []moment{evictingFirst, endingFirst, uncordoning} {
					jobs = append(jobs, job{f, at})
				}
			case f.name == schedulerKilled:
				for _, at := range f.at {
					jobs = append(jobs, job{f, at})
				}
			default:
				jobs = append(jobs, job{f, f.at[r%len(f.at)]})
			}
		}
	}
	lanes = max(lanes, rounds)
	var mu sync.Mutex
	next := func() (j job, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(jobs) == 0 {
			return j, false
		}
		j, jobs = jobs[0], jobs[1:]
		return j, true
	}
	for range lanes {
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			l := newMoveLab(t, e2e.StartCluster(t), "rebalance")
			l.waitPolicy(t)
			kills := 0
			for j, ok := next(); ok; j, ok = next() {
				t.Run(j.name+", "+j.at.String(), func(t *testing.T) {
					s := newMoveSite(t, l.c, l.proxy, l.gate, l.watch)
					defer func() {
						l.c.Kubectl(t, "", "delete", "rebalance", s.ns, "--ignore-not-found")
						s.close(t)
					}()
					if j.name == schedulerKilled {
						kills++
					}
					goOn := s.reachPlan(t, j.at)
					defer goOn() // where the test fails before
					j.strike(t, l, s, goOn)
					l.settlePlan(t, s, j.planFault)
				})
			}
			t.Logf("%d pods evicted; at most %d away at a time; %d changes of pods watched, %d of them wrong",
				len(l.watch.all.evicted), l.watch.all.mostAway, l.watch.all.moments, len(l.watch.broken))
			l.end(t, kills)
		})
	}
}

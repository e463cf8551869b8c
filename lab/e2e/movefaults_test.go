//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// A moveFault is what happens to a chain at a moment.
type moveFault struct {
	name   string
	at     []moment
	strike func(*testing.T, *moveLab, *moveSite, func())
	// What follows without another try: the pod gets in, or the event says why it does not; "?" = either, since a scheduler that
	// starts again may not evict what it has just evicted.
	ends string
}

const (
	getsIn          = ""
	schedulerKilled = "the scheduler is killed"
)

var everyMoment = []moment{evictingFirst, endingFirst, bindingFirst, evictingSecond, endingSecond, bindingSecond, bindingLast}

// moveLab is what the sites of a test share.
type moveLab struct {
	c     *e2e.Cluster
	sigma *e2e.Scheduler
	proxy *e2e.APIProxy
	gate  *moveGate
	watch *moveWatch
	log   string
}

// The strikes call goOn when the chain may go on. Those that end the scheduler come last: what they leave is for another one.
var moveFaults = []moveFault{
	{"nothing fails", []moment{evictingFirst}, func(_ *testing.T, _ *moveLab, _ *moveSite, goOn func()) { goOn() }, getsIn},
	{"the target dies", []moment{evictingFirst, evictingSecond}, func(t *testing.T, _ *moveLab, s *moveSite, goOn func()) {
		s.lose(t, s.target(t))
		goOn()
	}, "?"},
	{"the pod's node dies", []moment{bindingFirst, evictingSecond}, func(t *testing.T, _ *moveLab, s *moveSite, goOn func()) {
		s.lose(t, s.from)
		goOn()
	}, "is gone|took a place on node .* that was for another pod"},
	{"a foreign pod takes the target", []moment{evictingFirst}, func(t *testing.T, _ *moveLab, s *moveSite, goOn func()) {
		s.bare(t, "foreign", s.target(t), "1500m")
		goOn()
	}, "the room on node .* is gone"},
	{"a foreign pod takes the pod's room", []moment{endingSecond}, func(t *testing.T, _ *moveLab, s *moveSite, goOn func()) {
		s.bare(t, "foreign", s.from, "1")
		goOn()
	}, "the room on node .* is gone"},
	{"a budget tightened", []moment{bindingFirst, evictingSecond}, func(t *testing.T, _ *moveLab, s *moveSite, goOn func()) {
		second := s.second(t)
		s.c.Kubectl(t, "", "patch", "poddisruptionbudget", second, "-n", s.ns, "-p", `{"spec":{"maxUnavailable":0}}`)
		s.waitBudget(t, second, "0")
		s.watch.shut(s.ns, second)
		goOn()
	}, "budget"},
	{"the policy disables repair", []moment{bindingFirst}, func(t *testing.T, l *moveLab, s *moveSite, goOn func()) {
		l.repair(t, "Disabled")
		goOn()
		s.waitEnd(t, "no longer enables repair")
		l.repair(t, "Enabled") // the pods that wait are tried again
	}, getsIn},
	{"the policy is deleted", []moment{bindingFirst}, func(t *testing.T, l *moveLab, s *moveSite, goOn func()) {
		l.c.Kubectl(t, "", "delete", "placementpolicy", "general")
		e2e.Wait(t, "the best fit", func() (string, bool) {
			n := l.sigma.Metric(t, "sigma_policy_generation", `role="primary"`)
			return fmt.Sprint(n), n == 0
		})
		goOn()
		s.waitEnd(t, "no longer enables repair")
		l.policy(t, "kubernetes-k0")
	}, getsIn},
	{"another policy decides", []moment{bindingFirst}, func(t *testing.T, l *moveLab, _ *moveSite, goOn func()) {
		l.policy(t, "hand-k0")
		goOn()
	}, getsIn},
	{"the API server is killed", []moment{evictingFirst, bindingFirst, evictingSecond, bindingLast}, func(t *testing.T, l *moveLab, s *moveSite, goOn func()) {
		s.watch.blinded(s.ns)
		l.c.Signal(t, "kube-apiserver", syscall.SIGKILL)
		goOn()
		l.c.WaitReady(t)
	}, "?"},
	{schedulerKilled, everyMoment, func(t *testing.T, l *moveLab, _ *moveSite, goOn func()) {
		l.sigma.Kill(t)
		goOn()
		l.sigma.Restart(t)
		l.sigma.WaitReady(t)
	}, "?"},
}

// newMoveLab starts a scheduler with the rights of a component, and a watch.
func newMoveLab(t *testing.T, c *e2e.Cluster, component string) *moveLab {
	t.Helper()
	installSigma(t, c)
	grant(t, c, component)
	c.Kubectl(t, `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: alone}
spec: {selector: {matchLabels: {alone: "yes"}}, maxPerNode: 1}
`, "apply", "-f", "-")
	l := &moveLab{c: c, gate: &moveGate{}, proxy: c.StartProxy(t, "scheduler.kubeconfig"), log: filepath.Join(t.TempDir(), "decisions.jsonl")}
	l.proxy.Match(l.gate.match)
	applyPolicy(t, c, "kubernetes-k0", "general")
	l.sigma = c.StartScheduler(t, scheduler, (&scene{proxy: l.proxy}).config(l.log, 10000))
	l.watch = watchMoves(t, c)
	return l
}

// end stops the scheduler after so many kills, and checks what it has done.
func (l *moveLab) end(t *testing.T, kills int) {
	t.Helper()
	l.proxy.RequireBoundOnce(t)
	l.c.RequireFits(t)
	requireSound(t, l.sigma)
	l.sigma.Stop(t)
	require.Equal(t, kills+1, requireLog(t, l.log).Starts)
	requireDeadlines(t, l.log)
}

// policy makes a shipped policy the cluster's, with repair.
func (l *moveLab) policy(t *testing.T, file string) {
	t.Helper()
	applyPolicy(t, l.c, file, "general")
	l.repair(t, "Enabled")
	l.waitPolicy(t)
}

// waitPolicy waits until the scheduler decides by the policy.
func (l *moveLab) waitPolicy(t *testing.T) {
	t.Helper()
	e2e.Wait(t, "the policy", func() (string, bool) {
		want := l.c.Kubectl(t, "", "get", "placementpolicy", "general", "-o", "jsonpath={.metadata.generation}")
		is := fmt.Sprint(l.sigma.Metric(t, "sigma_policy_generation", `role="primary"`))
		return is + " of " + want, is == want
	})
}

func (l *moveLab) repair(t *testing.T, mode string) {
	t.Helper()
	l.c.Kubectl(t, "", "patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"repair":{"mode":"`+mode+`","movesPerHour":1000}}}`)
	e2e.Wait(t, "repair "+mode, func() (string, bool) {
		is := l.c.Kubectl(t, "", "get", "placementpolicy", "general", "-o", `jsonpath={.status.conditions[?(@.type=="Repair")].reason}`)
		return is, is == mode
	})
}

// second is the workload whose pod the chain has not evicted yet.
func (s *moveSite) second(t *testing.T) string {
	t.Helper()
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	require.Len(t, s.watch.sites[s.ns].evicted, 1)
	for _, app := range s.watch.sites[s.ns].evicted {
		return map[string]string{"x": "y", "y": "x"}[app]
	}
	return ""
}

// waitEnd waits until an event says why the chain came to nothing.
func (s *moveSite) waitEnd(t *testing.T, why string) {
	t.Helper()
	e2e.Wait(t, "why no room is made", func() (string, bool) {
		text := s.events(t, "NoRoomMade")
		return text, regexp.MustCompile(why).MatchString(text)
	})
}

// standing are the pods that room is reserved for on the nodes of a site, by node.
func (l *moveLab) standing(t *testing.T, ns string) map[string]int32 {
	t.Helper()
	held := map[string]int32{}
	for _, e := range ledgertest.Events(t, l.log, "") {
		switch {
		case e.Kind == ledger.KindStart:
			clear(held)
		case e.Kind == ledger.KindForget:
			delete(held, e.Node)
		case !strings.HasPrefix(e.Node, ns+"-"):
		case e.Kind == ledger.KindReserve:
			held[e.Node] += e.Reserved.Pods
		case e.Kind == ledger.KindRelease:
			held[e.Node] -= e.Reserved.Pods
		}
		if held[e.Node] == 0 {
			delete(held, e.Node)
		}
	}
	return held
}

// waitReleased waits until nothing is reserved on the nodes of a site.
func (l *moveLab) waitReleased(t *testing.T, s *moveSite) {
	t.Helper()
	probes := 0
	e2e.Wait(t, "the end of the reservations", func() (string, bool) {
		held := l.standing(t, s.ns)
		if len(held) > 0 { // they end before the next decision
			probe := e2e.Pod(s.ns, fmt.Sprint("probe-", probes), "1m", "1Mi")
			probe.Spec.NodeSelector = map[string]string{"site": s.ns}
			l.c.CreatePods(t, probe)
			probes++
		}
		return fmt.Sprint(held), len(held) == 0
	})
}

// places are where room was last reserved for a pod of each workload of the site.
func (l *moveLab) places(t *testing.T, s *moveSite) map[string]string {
	t.Helper()
	list := map[string]string{}
	for _, e := range ledgertest.Events(t, l.log, ledger.KindReserve) {
		if name, is := strings.CutPrefix(e.App, s.ns+"/"); is {
			app, _, _ := strings.Cut(name, "@") // and its size
			list[app] = e.Node
		}
	}
	return list
}

// landed counts the pods of the site's workloads that stand where room was last reserved for one.
func (l *moveLab) landed(t *testing.T, s *moveSite) (n int) {
	t.Helper()
	places := l.places(t, s)
	for _, p := range s.c.Pods(s.ns) {
		if app := p.Labels["app"]; slices.Contains(movers, app) && places[app] == p.Spec.NodeName {
			n++
		}
	}
	return n
}

// settle checks what a fault leaves: all pods of the workloads run, every eviction is recorded, and once the pod does not wait any
// more nothing is reserved for it.
func (l *moveLab) settle(t *testing.T, s *moveSite, ends string) (in bool, landed, surplus int) {
	t.Helper()
	waitIn := func() {
		e2e.Wait(t, "the pod on its node", func() (string, bool) { return fmt.Sprint(l.c.Placements(s.ns)), s.isIn() })
	}
	switch ends {
	case getsIn:
		waitIn()
	case "?": // it has a few seconds
		for begin := time.Now(); !s.isIn() && time.Since(begin) < 4*time.Second; {
			time.Sleep(100 * time.Millisecond)
		}
	default:
		s.waitEnd(t, ends)
	}
	drop := func() {
		in = s.isIn()
		l.c.Kubectl(t, "", "delete", "pod", "large", "-n", s.ns, "--force", "--grace-period=0")
	}
	if s.watch.deaths(s.ns) > 0 { // the pod may have the room that is left
		drop()
		s.healthy(t)
	} else {
		s.healthy(t)
		drop()
	}
	landed = l.landed(t, s)
	l.waitReleased(t, s)
	s.healthy(t)
	return in, landed, s.requireRecords(t, "make-room")
}

// TestMoveFaults has chains of two moves, and while they are carried out something fails, at a moment that the test chooses. A
// watch sees every change of every pod. SIGMA_ROUNDS has more than one
// round of each fault, at one moment after the other; the scheduler is killed at all of them in each.
func TestMoveFaults(t *testing.T) {
	rounds := roundsOf(t)
	c := e2e.Shared(t)
	l := newMoveLab(t, c, "repair")
	l.policy(t, "kubernetes-k0")
	site := func(t *testing.T) *moveSite {
		t.Helper()
		return newMoveSite(t, c, l.proxy, l.gate, l.watch)
	}

	const atOnce = 3 // of the four chains
	first := l.neverReplaced(t, min(rounds, atOnce), site)
	never := func() {
		first()
		for left := rounds - atOnce; left > 0; left -= atOnce {
			l.neverReplaced(t, min(left, atOnce), site)()
		}
	}
	count, in, surplus, kills := 0, 0, 0, 0
	pace := time.NewTicker(4500 * time.Millisecond) // a chain has two events, and a scheduler emits one every two seconds after the first 20
	defer pace.Stop()
	for _, f := range moveFaults {
		if f.name == schedulerKilled {
			never()
		}
		t.Run(f.name, func(t *testing.T) {
			for r := range rounds {
				each := f.at[r%len(f.at):][:1]
				if f.name == schedulerKilled {
					each = f.at
				}
				for _, at := range each {
					if rounds > 1 {
						<-pace.C
					}
					s := site(t)
					f.strike(t, l, s, s.reach(t, at, s.large))
					gotIn, landed, more := l.settle(t, s, f.ends)
					t.Logf("%v: %d evicted, %d landed as planned, at most %d away, the pod has a node: %t", at, s.watch.evictions(s.ns), landed, s.watch.away(s.ns), gotIn)
					if count++; gotIn {
						in++
					}
					if surplus += more; f.name == schedulerKilled {
						kills++
					}
					s.close(t)
				}
			}
		})
	}
	t.Logf("%d chains, %d pods got in; %d pods evicted, %d records without an eviction; at most %d away at a time; %d changes of pods watched, %d of them wrong",
		count, in, len(l.watch.all.evicted), surplus, l.watch.all.mostAway, l.watch.all.moments, len(l.watch.broken))
	l.end(t, kills)
}

// requireDeadlines checks that no decision is made while a reservation stands whose deadline has passed.
func requireDeadlines(t *testing.T, log string) {
	t.Helper()
	type place struct{ node, app string }
	until, pods := map[place]float64{}, map[place]int32{}
	reserved := 0
	for _, e := range ledgertest.Events(t, log, "") {
		at := place{e.Node, e.App}
		switch e.Kind {
		case ledger.KindStart:
			clear(pods)
		case ledger.KindForget:
			for p := range pods {
				if p.node == e.Node {
					delete(pods, p)
				}
			}
		case ledger.KindReserve:
			reserved++
			pods[at] += e.Reserved.Pods
			until[at] = max(e.Reserved.Until, until[at])
		case ledger.KindRelease:
			if pods[at] -= e.Reserved.Pods; pods[at] == 0 {
				delete(pods, at)
			}
		case ledger.KindDecide:
			for p := range pods {
				require.Less(t, e.Time, until[p]+1, p)
			}
		}
	}
	require.NotZero(t, reserved)
}

// neverReplaced begins chains of which a quota forbids the first replacement. The function that it returns waits until they have
// ended, with one pod evicted each.
func (l *moveLab) neverReplaced(t *testing.T, chains int, site func(*testing.T) *moveSite) (wait func()) {
	t.Helper()
	var sites []*moveSite
	for range chains {
		sites = append(sites, site(t))
	}
	for _, s := range sites {
		goOn := s.reach(t, evictingFirst, s.large)
		s.forbid(t)
		goOn()
	}
	return func() {
		for _, s := range sites {
			s.waitEnd(t, "there has been no replacement of")
			require.Equal(t, 1, s.watch.evictions(s.ns))
			s.allow(t)
			in, landed, _ := l.settle(t, s, "?")
			t.Logf("the replacement never comes: 1 evicted, %d landed as planned, at most %d away, the pod has a node: %t", landed, s.watch.away(s.ns), in)
			s.close(t)
		}
	}
}

// forbid has a quota forbid the next pod.
func (s *moveSite) forbid(t *testing.T) {
	t.Helper()
	s.c.Kubectl(t, "", "create", "quota", "full", "-n", s.ns, fmt.Sprint("--hard=pods=", len(s.c.Pods(s.ns))-1))
	e2e.Wait(t, "the quota", func() (string, bool) {
		is := s.c.Kubectl(t, "", "get", "quota", "full", "-n", s.ns, "-o", "jsonpath={.status.hard.pods}")
		return is, is != ""
	})
}

func (s *moveSite) allow(t *testing.T) {
	t.Helper()
	s.c.Kubectl(t, "", "delete", "quota", "full", "-n", s.ns)
	s.c.Kubectl(t, "", "annotate", "replicasets", "--all", "-n", s.ns, "tried=again") // else it tries for long
}

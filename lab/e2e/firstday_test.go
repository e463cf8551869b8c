//go:build e2e

package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// TestFirstDay runs docs/first-day.md on a cluster with the manifests as they are, but for
// the decision log. A generated day is recorded under the shipped policy in shadow; the
// policy tuned on it is in shadow, canary and live; under it the same day happens once
// more, and it saves what the replay of the recorded day says, within 2 %. Which pods stand
// elsewhere is logged, not required.
func TestFirstDay(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 3012, map[string]string{"nodes": "10", "days": "1", "fleet": "open"})
	require.NoError(t, err)
	c := e2e.StartCluster(t)
	c.CreateNodes(t, e2e.Node("system", "4", "16Gi"))
	c.StartScheduler(t, "kube-scheduler", "")
	page := openPage(t, c, "first-day.md")
	runtime := installLogging(t, c, page)
	d := newDay(t, c, tr)

	recorded := d.play(t, len(d.events))
	page.write(t, "decisions.jsonl", d.onItsClock(t, runtime.log(t)))
	page.run(t, "Record", 1)
	out := page.run(t, "Tune", 1)
	require.Regexp(t, `(?m)^worth it: [0-9.]+ % ± [0-9.]+ lower cost of nodes than `, out)
	ran, fits, tuned := page.cost(t, "day", "current"), page.cost(t, "day", "bestfit"), page.cost(t, "day", "general.yaml")
	require.Less(t, tuned, fits)

	// In shadow it decides nothing, and counts what it would have chosen.
	const some = 300 // events
	shadow := func() float64 {
		return e2e.SumMetric(t, strings.NewReader(runtime.metrics(t, runtime.leader(t).url)), "sigma_decisions_total", `mode="shadow"`)
	}
	page.run(t, "Install, or not", 1)
	digest, before, elsewhere := digestOf(t, c, "general"), shadow(), 0
	made := d.again(t, runtime, some)
	for name, e := range made {
		require.Equal(t, "shadow", e.Mode, name)
		if e.Cause != ledger.CauseSingle {
			require.Equal(t, digest, e.PolicyDigest, "%s: %s", name, e.Cause)
		}
		if e.Choice != "" {
			require.NotEqual(t, e.Choice, e.Node)
			elsewhere++
		}
	}
	require.InDelta(t, len(made), shadow()-before, .5)
	t.Logf("in shadow: of %d pods %d would have gone elsewhere", len(made), elsewhere)
	require.Greater(t, elsewhere, len(made)/2)

	// As a canary it decides on all pods of its share of the workloads, and on no others.
	page.run(t, "Install, or not", 1)
	digest = digestOf(t, c, "general")
	made = d.again(t, runtime, some)
	chosen, pods := map[string]bool{}, 0
	for name, e := range made {
		require.Equal(t, "canary", e.Mode, name)
		if e.Cause == ledger.CauseSingle {
			continue
		}
		by := e.Cause == ledger.CausePolicy && e.PolicyDigest == digest
		was, known := chosen[e.App]
		require.True(t, !known || was == by, "%s: some of its pods only", e.App)
		if chosen[e.App] = by; by {
			pods++
			require.Empty(t, e.Choice, name) // it went to the policy's choice
		}
	}
	apps := 0
	for _, by := range chosen {
		if by {
			apps++
		}
	}
	t.Logf("canary of 30 %%: %d of %d workloads, %d of %d pods", apps, len(chosen), pods, len(made))
	require.InDelta(t, .3, float64(apps)/float64(len(chosen)), .15)

	// Live, the day once more: in a scheduler that has seen as little as the recording's.
	page.run(t, "Install, or not", 1)
	digest = digestOf(t, c, "general")
	clearPods(t, c, d.ns)
	runtime.stopAll(t)
	runtime.sync(t)
	runtime.leader(t)
	live := d.play(t, len(d.events))
	log := runtime.log(t)
	page.write(t, "decisions.jsonl", d.onItsClock(t, log))
	others := 0
	for name, e := range decisions(t, log) {
		require.Equal(t, []string{"live", ""}, []string{e.Mode, e.Choice}, name)
		if e.Cause != ledger.CausePolicy || e.PolicyDigest != digest { // one node only
			others++
		}
	}
	require.Less(t, others, len(live)/100+1)
	requireLog(t, log)

	page.shell(t, "sigma replay --trace day --policy general.yaml --quiet --placements replayed.csv")
	placed, err := trace.ReadPlacements(filepath.Join(page.dir, "replayed.csv"))
	require.NoError(t, err)
	replayed, moved := map[string]string{}, 0
	for _, p := range placed {
		if name, ours := strings.CutPrefix(p.Request, d.ns+"/"); ours && p.Kind == trace.Place {
			replayed[name] = p.Machine
		}
	}
	others = 0
	for name, node := range replayed {
		if live[name] != node {
			others++
		}
	}
	t.Logf("%d of %d pods are not where the replay of the recorded day has them", others, len(live))
	require.Len(t, live, len(replayed))
	for name, node := range recorded {
		if live[name] != node {
			moved++
		}
	}
	require.Contains(t, page.run(t, "What did it save?", 1), "current")
	is := page.cost(t, "later", "current")
	t.Logf("cost-hours: recorded %.1f, best-fit %.1f, tuned by replay %.1f, live %.1f: %.1f %% less than what ran, %.1f %% less than best-fit; %d of %d pods elsewhere",
		ran/3600, fits/3600, tuned/3600, is/3600, 100-100*is/ran, 100-100*is/fits, moved, len(live))
	// A deletion that the scheduler sees late changes a place and those after it, and the cost by a little.
	require.InEpsilon(t, tuned, is, .02)
	require.Empty(t, page.blocks)
	runtime.requireAllowed(t)
}

// installLogging installs the manifests as they are with a decision log, as
// docs/operations.md has it, and starts their programs.
func installLogging(t *testing.T, c *e2e.Cluster, page *reader) *containers {
	t.Helper()
	config := readManifest(t, "config.yaml") + "      decisionLog: /var/log/sigma/decisions.jsonl\n"
	require.NoError(t, os.Mkdir(filepath.Join(page.dir, "sigma"), 0o700))
	page.write(t, "sigma/config.yaml", config)
	page.write(t, "sigma/kustomization.yaml", `
resources: [../manifests/overlays/second-scheduler]
configMapGenerator:
- {name: sigma-scheduler-config, namespace: sigma-system, behavior: replace, files: [config.yaml]}
`)
	page.shell(t, `kubectl apply -k manifests/base/crds
kubectl wait --for=condition=Established crd/placementpolicies.sigma-scheduler.io crd/placementrules.sigma-scheduler.io crd/placementplans.sigma-scheduler.io
kubectl apply -f manifests/policy.yaml
kubectl apply -k sigma`)
	runtime := startContainers(t, c)
	page.shell(t, "kubectl wait --for=condition=Active --timeout=1m placementpolicy/general")
	c.Cordon(t, "system", true) // its pods stay: they are in every recording
	return runtime
}

// write puts a file into the reader's folder.
func (r *reader) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
}

// cost is what a policy needs for a trace, in cost-seconds.
func (r *reader) cost(t *testing.T, folder, policy string) float64 {
	t.Helper()
	file := filepath.Join(r.dir, "cost.json")
	// Without the policy current, what stands at the beginning stays.
	r.shell(t, "sigma compare --quiet --format json --trace "+folder+" --policy "+policy+" > "+file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var found []report.Comparison
	require.NoError(t, json.Unmarshal(text, &found))
	run := found[0].Results[0].Runs[0]
	require.Zero(t, run.Unplaced)
	return run.CostSeconds
}

// log is the decision log of the replica that leads.
func (r *containers) log(t *testing.T) string {
	t.Helper()
	return filepath.Join(r.leader(t).dir, "decisions.jsonl")
}

// A day is a generated trace that happens in a cluster: its requests are pods of one
// namespace, r00000 and so on, its rules PlacementRules. It has no declared workloads,
// and therefore no forecast.
type day struct {
	c       *e2e.Cluster
	ns      string
	trace   *trace.Trace
	events  []trace.Event
	created map[string]float64 // by pod, seconds of the trace
	deleted map[string]float64
}

// newDay creates sixteen nodes of each size of a trace, which cost what they cost there.
func newDay(t *testing.T, c *e2e.Cluster, tr *trace.Trace) *day {
	t.Helper()
	d := &day{c: c, ns: "day", trace: tr, events: slices.Clone(tr.Events), created: map[string]float64{}, deleted: map[string]float64{}}
	var nodes []*v1.Node
	for _, m := range tr.Instance.Machines {
		for i := range 16 {
			node := e2e.Node(fmt.Sprintf("%s-%02d", m.Name, i), d.amount(m.Capacity, 0), d.amount(m.Capacity, 1))
			node.Labels[v1.LabelInstanceTypeStable] = m.Name
			node.Annotations = map[string]string{kube.CostAnnotation: fmt.Sprint(m.Cost)}
			nodes = append(nodes, node)
		}
	}
	c.CreateNodes(t, nodes...)
	c.Kubectl(t, "", "create", "namespace", d.ns) // names decide which workloads are in a canary's share
	c.Kubectl(t, rulesOf(tr), "apply", "-f", "-")
	// What leaves makes room for what comes in the same moment, as in a converted log.
	slices.SortStableFunc(d.events, func(a, b trace.Event) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), -cmp.Compare(a.Kind, b.Kind))
	})
	for _, e := range d.events {
		require.EqualValues(t, 1, e.Count, "one pod is one request")
		name := tr.Requests[e.Request].Name
		if e.Kind == trace.Create {
			d.created[name] = e.Time
		} else {
			d.deleted[name] = e.Time
		}
	}
	return d
}

func (d *day) amount(values []int64, dimension int) string {
	return trace.FormatQuantity(values[dimension], d.trace.Instance.Dimensions[dimension])
}

// settle is more than the scheduler takes to see a deletion that this test has seen: its ledger
// and its queue hear of pods apart.
const settle = 50 * time.Millisecond

// play has the first n events happen, each as soon as the one before has its effect, and
// returns the node of every pod that came.
func (d *day) play(t *testing.T, n int) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	pods := d.c.Client.CoreV1().Pods(d.ns)
	changes, err := pods.Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	defer changes.Stop()
	await := func(name string, is func(watch.EventType, *v1.Pod) bool) {
		t.Helper()
		for change := range changes.ResultChan() {
			if pod, ok := change.Object.(*v1.Pod); ok && pod.Name == name && is(change.Type, pod) {
				return
			}
		}
		require.Fail(t, "the watch ended", name)
	}
	at, begin := map[string]string{}, time.Now()
	for _, e := range d.events[:n] {
		name := d.trace.Requests[e.Request].Name
		if e.Kind == trace.Delete {
			require.NoError(t, pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
			await(name, func(what watch.EventType, _ *v1.Pod) bool { return what == watch.Deleted })
			time.Sleep(settle)
			continue
		}
		app := d.trace.Instance.Apps[d.trace.Requests[e.Request].App]
		pod := e2e.Pod(d.ns, name, d.amount(app.Demand, 0), d.amount(app.Demand, 1))
		pod.GenerateName, pod.Labels["app"] = app.Name+"-", app.Name // a pod without a controller is of the app that it is generated for
		_, err := pods.Create(ctx, onSigma(pod)[0], metav1.CreateOptions{})
		require.NoError(t, err)
		await(name, func(_ watch.EventType, pod *v1.Pod) bool { at[name] = pod.Spec.NodeName; return at[name] != "" })
	}
	t.Logf("%d events in %.1f s", n, time.Since(begin).Seconds())
	return at
}

// again plays the first n events from an empty cluster, and returns the decisions on them.
func (d *day) again(t *testing.T, runtime *containers, n int) map[string]*ledger.Event {
	t.Helper()
	clearPods(t, d.c, d.ns)
	before := len(allDecisions(t, runtime.log(t)))
	d.play(t, n)
	made := map[string]*ledger.Event{}
	for _, e := range allDecisions(t, runtime.log(t))[before:] {
		made[e.Pod] = e
	}
	return made
}

var (
	logTime = regexp.MustCompile(`^(\{"seq":\d+,"time":)[^,]+(,"kind":"([a-z-]+)")`)
	logPod  = regexp.MustCompile(`"pod":"[^/"]+/([^"]+)"`)
)

// onItsClock is the decision log of a play with the times of the day that was played: of
// a pod that came when it came there, of one that left when it left there, and of other lines that
// of the line before. A play lasts less than a minute or two, and tune wants hours.
func (d *day) onItsClock(t *testing.T, log string) string {
	t.Helper()
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	var out strings.Builder
	const midnight = 1767571200 // 2026-01-05
	at := 0.
	for line := range strings.Lines(string(text)) {
		head := logTime.FindStringSubmatch(line)
		require.NotNil(t, head, line)
		if pod := logPod.FindStringSubmatch(line); pod != nil {
			times := d.created
			if ledger.Kind(head[3]) == ledger.KindRemove {
				times = d.deleted
			}
			at = max(at, times[pod[1]])
		}
		out.WriteString(head[1] + strconv.FormatFloat(midnight+at, 'f', -1, 64) + head[2] + line[len(head[0]):])
	}
	return out.String()
}

//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sigma-scheduler/sigma/internal/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// phases collects what phases a PolicyPilot goes through.
type phases struct {
	sync.Mutex
	list []string
}

func (p *phases) seen() []string {
	p.Lock()
	defer p.Unlock()
	return slices.Clone(p.list)
}

// follow collects the phases and steps of a pilot until the test ends. A watch that breaks off is
// begun again.
func (p *phases) follow(t *testing.T, c *e2e.Cluster, name string) {
	t.Helper()
	resource := c.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("policypilots"))
	ctx := t.Context()
	go func() {
		for ctx.Err() == nil {
			w, err := resource.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
			if err != nil {
				time.Sleep(time.Second)
				continue
			}
			for e := range w.ResultChan() {
				if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Error {
					p.add(o)
				}
			}
		}
	}()
}

func (p *phases) add(o *unstructured.Unstructured) {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	step, _, _ := unstructured.NestedString(o.Object, "status", "step")
	text := strings.TrimSpace(phase + " " + step)
	p.Lock()
	defer p.Unlock()
	if text != "" && (len(p.list) == 0 || p.list[len(p.list)-1] != text) {
		p.list = append(p.list, text)
	}
}

// fastMonth is docs/first-month.md in fast motion: what takes days takes seconds, trainings are small, and the gate lets
// the candidate through. The training is due at a minute of the day.
func fastMonth(due time.Time) *strings.Replacer {
	return strings.NewReplacer(
		`schedule: "0 3 * * 0", history: 28, validate: 2, test: 3, evaluations: 2000, seeds: 3`,
		fmt.Sprintf(`schedule: "%d %d * * *", history: 4, validate: 1, test: 2, evaluations: 4, seeds: 1`, due.Minute(), due.Hour()),
		"baseline: mostallocated ", "baseline: leastallocated ", "against: [mostallocated]", "against: [leastallocated]",
		"savingPercent: 2, confidence: 0.95, unplaced: 0, waitPercent: 10", "savingPercent: 1, confidence: 0.6, unplaced: 1000, waitPercent: 1000",
		"{mode: canary, percent: 10, for: 48h}, ", "", "48h", "5s",
		"fallbackShare: 0.01, pendingP99: 60s, ruleConflicts: 0, openedVsBestFit: 1.5, costVsBestFit: 1.05", "fallbackShare: 0.05, pendingP99: 10m, ruleConflicts: 0",
	)
}

// TestPilot runs every command of docs/first-month.md: a policy is trained on days that were recorded, judged on later ones,
// waits for a person, and goes through shadow and a canary to live; the program is killed on the way, and loses
// the API server until its lease is gone: it ends, and the Deployment starts it again. Its account
// may do no more than that.
func TestPilot(t *testing.T) {
	c := e2e.StartCluster(t)
	c.CreateNodes(t, e2e.Nodes(4, 12)...)
	installSigma(t, c)
	page := openPage(t, c, "first-month.md")
	page.run(t, "Day 0: install, and begin to record", 1)
	account := accountKubeconfig(t, c, sigmaSystem, "sigma-pilot")
	dir, state := t.TempDir(), t.TempDir()
	now := time.Now().UTC()
	var past bytes.Buffer
	ledgertest.Days(t, &past, now.Truncate(24*time.Hour).Add(-5*24*time.Hour-time.Hour), now, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "decisions.jsonl.20260101T000000.000Z"), past.Bytes(), 0o600))
	c.StartScheduler(t, scheduler, sigmaConfig(true, fmt.Sprintf("policyName: general, canaryPolicyName: general-candidate, decisionLog: %s", filepath.Join(dir, "decisions.jsonl"))))
	proxy := c.StartProxy(t, account)
	pilot := e2e.StartProcess(t, "sigma-pilot", e2e.Program(t, "sigma-pilot"), "--kubeconfig="+proxy.Kubeconfig, "--namespace="+sigmaSystem,
		"--history="+dir, "--state="+state, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--v=2")
	starts := pilot.Supervise(t)

	var passed phases
	passed.follow(t, c, "general")
	due := time.Now().UTC().Truncate(time.Minute).Add(2 * time.Minute)
	page.edit = fastMonth(due).Replace
	object := page.blocks[0].text
	page.run(t, "Day 0: install, and begin to record", 1)
	page.shell(t, strings.Replace(page.edit(object), "{name: general}", "{name: other}", 1))
	get := func(kind, name, path string) string {
		return c.Kubectl(t, "", "get", kind, name, "-o", "jsonpath="+path)
	}
	e2e.Wait(t, "the second pilot is refused", func() (string, bool) {
		text := get("policypilot", "other", `{.status.conditions[?(@.type=="Accepted")].message}`)
		return text, text == "spec.policy: the PolicyPilot general steers a PlacementPolicy of this one, and is older"
	})
	c.Kubectl(t, "", "delete", "policypilot", "other")

	ns := c.Namespace(t)
	number := 0
	// until waits for a phase, and has pods come meanwhile.
	until := func(want string) {
		t.Helper()
		begin := time.Now()
		for time.Since(begin) < 10*time.Minute {
			if seen := passed.seen(); slices.Contains(seen, want) {
				t.Logf("%s after %v", want, time.Since(begin).Round(time.Second))
				return
			}
			number++
			c.CreateDeployment(t, e2e.Deployment(ns, fmt.Sprintf("app-%03d", number), 2, "50m", "64Mi"))
			time.Sleep(3 * time.Second)
		}
		t.Fatalf("no phase %s, but %v; %s", want, passed.seen(), c.Kubectl(t, "", "get", "policypilot", "general", "-o", "yaml"))
	}
	until("Recording")
	require.Regexp(t, `(?m)^general +general +Recording `, page.run(t, "Days 1 to 11: the record", 1))
	until("Training")
	pilot.Kill(t)
	until("AwaitingApproval")
	p := &prompt{t, c, filepath.Join(c.Dir, "kubeconfig")}
	status := page.run(t, "The second Sunday: a candidate waits", 1)
	require.Regexp(t, `(?m)^general +general +AwaitingApproval +.*% \(`, status)
	require.Regexp(t, `(?m)^phase +AwaitingApproval$`, status)
	require.Regexp(t, `(?m)^because +sha256:\w+ (is better|waits for approval)`, status)
	t.Log(status)
	candidate := get("policypilot", "general", "{.status.candidate}")
	require.NotContains(t, c.Kubectl(t, "", "get", "placementpolicies", "-o", "name"), "candidate", "nothing is written before it is approved")
	require.Equal(t, "shadow", get("placementpolicy", "general", "{.spec.mode}"))

	// What the account may not do: by its rights, and of what it may patch and create.
	for _, right := range []string{"delete placementpolicies/general", "patch placementpolicies/old", "patch policypilots/general", "list secrets", "create jobs.batch"} {
		verb, resource, _ := strings.Cut(right, " ")
		out, err := kubectlAs(t, filepath.Join(c.Dir, "kubeconfig"), "", "auth", "can-i", verb, resource, "--as=system:serviceaccount:sigma-system:sigma-pilot")
		require.Error(t, err, right)
		require.Contains(t, out, "no", right)
	}
	for _, refused := range []struct {
		why, input string
		args       []string
	}{
		{"sigma-pilot changes spec.mode and canaryPercent, or a whole spec", "", []string{"patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"model":"plan","knowledge":"K2"}}`}},
		{"sigma-pilot leaves repair, soft and maxShareOfApp", "", []string{"patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"maxShareOfApp":0.3,"provenance":{"pilot":"general"}}}`}},
		{"sigma-pilot makes no PlacementPolicy that is live", liveRule, []string{"create", "-f", "-"}},
	} {
		out, err := kubectlAs(t, account, refused.input, refused.args...)
		require.Error(t, err, out)
		require.Contains(t, out, refused.why)
	}

	require.Contains(t, page.run(t, "The second Sunday: a candidate waits", 1), candidate+" approved")
	until("Shadow shadow")
	until("Canary canary 50 %")
	require.Regexp(t, `(?m)^general-candidate .* canary `, page.run(t, "The week after: shadow, canary, live", 1))
	require.Equal(t, "canary 50", get("placementpolicy", "general-candidate", "{.spec.mode} {.spec.canaryPercent}"))
	before := starts()
	proxy.SetRefuse(func(*http.Request) bool { return true })
	e2e.Wait(t, "it ends without its lease", func() (string, bool) { return "it runs", starts() > before })
	proxy.SetRefuse(nil)
	log, err := os.ReadFile(pilot.Log)
	require.NoError(t, err)
	require.Contains(t, string(log), "leader election lost")
	until("Live live")
	until("Watching")
	require.Equal(t, "live general", get("placementpolicy", "general", "{.spec.mode} {.spec.provenance.pilot}"))
	require.Equal(t, candidate, get("policypilot", "general", "{.status.inForce}"))
	e2e.Wait(t, "the candidate decides nothing", func() (string, bool) {
		mode := get("placementpolicy", "general-candidate", "{.spec.mode}")
		return mode, mode == "shadow"
	})
	e2e.Wait(t, "the scheduler has it", func() (string, bool) {
		digest := get("placementpolicy", "general", "{.status.digest}")
		return digest, digest == candidate
	})
	want := []string{"Recording", "Training", "Judging", "AwaitingApproval", "Shadow shadow", "Canary canary 50 %", "Live live", "Watching"}
	require.Equal(t, want, passed.seen())
	table := page.run(t, "The end of the month: what came of it", 1)
	require.Regexp(t, `(?m)^general +general +Watching +.* % \(`, table)
	require.Regexp(t, `PhaseChanged|goes to live`, table)
	report, err := os.ReadFile(filepath.Join(page.dir, "report.html"))
	require.NoError(t, err)
	require.Contains(t, string(report), candidate[:15]+" is in force")
	code, out := p.run("pilot", "approve", "general")
	require.Equal(t, 1, code)
	require.Contains(t, out, "general waits for no approval")
	require.Regexp(t, `(?m)^general .* canary `, page.run(t, "And back", 1))
	require.Empty(t, page.blocks)
}

const liveRule = `{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementPolicy, metadata: {name: sudden},
  spec: {featureVersion: 1, model: rule, knowledge: K0, features: [], weights: [], rule: {name: bestfit}, mode: live, provenance: {pilot: general}}}`

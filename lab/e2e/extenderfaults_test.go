//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// extenderScene is a scheduler with a failing extender at a port.
type extenderScene struct {
	c    *e2e.Cluster
	ns   string
	port int
	made int
}

func newExtenderScene(t *testing.T, port int, ignorable bool) *extenderScene {
	t.Helper()
	c := e2e.Shared(t)
	x := &extenderScene{c: c, ns: c.Namespace(t), port: port}
	c.CreateNodes(t, e2e.Node("a", "16", "64Gi"), e2e.Node("b", "16", "64Gi"), e2e.Node("c", "16", "64Gi"))
	config := strings.Replace(extenderConfig(port), "httpTimeout: 10s", fmt.Sprintf("httpTimeout: 4s\n  ignorable: %t", ignorable), 1)
	c.StartScheduler(t, scheduler, config)
	return x
}

// more creates n pods of the app web.
func (x *extenderScene) more(t *testing.T, n int) {
	t.Helper()
	webs(t, x.c, x.ns, x.made, n)
	x.made += n
}

// waits returns when n pods have no node, all for this reason.
func (x *extenderScene) waits(t *testing.T, n int, reason, message string) {
	t.Helper()
	e2e.Wait(t, message, func() (string, bool) {
		wait, last := 0, ""
		for _, pod := range x.c.Pods(x.ns) {
			why := e2e.Condition(pod, v1.PodScheduled)
			if pod.Spec.NodeName == "" {
				last = why.Reason + ": " + why.Message
			}
			if pod.Spec.NodeName == "" && why.Reason == reason && strings.Contains(why.Message, message) {
				wait++
			}
		}
		return fmt.Sprintf("%d wait, one for %s", wait, last), wait == n
	})
}

func (x *extenderScene) requests(t *testing.T, p *extenderProcess, verb string, code int) float64 {
	t.Helper()
	return e2e.Metric(t, p.metrics+"/metrics", "sigma_extender_requests_total", fmt.Sprintf("verb=%q", verb), fmt.Sprintf(`code="%d"`, code))
}

// An extender that is not ignorable hangs, dies and comes back: pods wait meanwhile,
// with the reason in their status.
func TestExtenderIsNeeded(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.Kubectl(t, limitRule(4), "apply", "-f", "-")
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	p := newExtender(t, filepath.Join(c.Dir, "kubeconfig"), "--app-label=app", "--decision-log="+log)
	x := newExtenderScene(t, p.port, false)
	x.more(t, 3)
	c.WaitBound(t, x.ns, 3)
	require.EqualValues(t, 3, x.requests(t, p, "filter", http.StatusOK))
	require.EqualValues(t, 3, x.requests(t, p, "prioritize", http.StatusOK))

	p.Signal(t, syscall.SIGSTOP)
	x.more(t, 2)
	x.waits(t, 2, "SchedulerError", "Client.Timeout exceeded")
	p.Signal(t, syscall.SIGCONT)
	c.WaitBound(t, x.ns, 5)

	p.Kill(t)
	x.more(t, 2)
	x.waits(t, 2, "SchedulerError", "connection refused")
	require.Len(t, c.Placements(x.ns), 5)
	p.Restart(t)
	p.waitReady(t)
	c.WaitBound(t, x.ns, 7)

	// It dies with a call under way.
	p.Signal(t, syscall.SIGSTOP)
	x.more(t, 7)
	p.Restart(t)
	p.waitReady(t)
	c.WaitBound(t, x.ns, 12)
	x.waits(t, 2, v1.PodReasonUnschedulable, fmt.Sprintf("3 placement rule limit: at most 4 of %s/web on a node", x.ns))
	for _, node := range c.Nodes() {
		require.Len(t, podsOn(c, x.ns, node.Name), 4)
	}
	// The scheduler does not watch rules: the next pod that is placed wakes them.
	c.Kubectl(t, limitRule(5), "apply", "-f", "-")
	c.CreatePods(t, e2e.Pod(x.ns, "other", "100m", "64Mi"))
	within(t, "the rule is changed", func() (string, bool) { n := boundOf(c, x.ns, "web"); return fmt.Sprint(n), n == x.made })
	c.RequireFits(t)
	require.Equal(t, 3, requireLog(t, log).Starts)

	// Refused calls are counted by HTTP status.
	url := fmt.Sprintf("http://127.0.0.1:%d/", p.port)
	for _, tt := range []struct {
		verb, body string
		code       int
	}{
		{"filter", "garbage", http.StatusBadRequest},
		{"filter", `{"Nodes": {"items": []}}`, http.StatusBadRequest},
		{"prioritize", `{"Pod": {"metadata": {"name": "x"}}, "NodeNames": ["a"]}`, http.StatusBadRequest},
		{"prioritize", strings.Repeat(" ", 64<<20) + "{}", http.StatusRequestEntityTooLarge},
	} {
		before := x.requests(t, p, tt.verb, tt.code)
		response, err := http.Post(url+tt.verb, "application/json", strings.NewReader(tt.body))
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, tt.code, response.StatusCode, string(text))
		require.Equal(t, before+1, x.requests(t, p, tt.verb, tt.code))
	}
}

// Without an ignorable extender upstream's scores decide, and rules do not hold. When
// the extender is back, it reports the conflicts and adds no pod there.
func TestExtenderIsIgnorable(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.Kubectl(t, limitRule(1), "apply", "-f", "-")
	p := newExtender(t, filepath.Join(c.Dir, "kubeconfig"), "--app-label=app")
	x := newExtenderScene(t, p.port, true)
	x.more(t, 3)
	c.WaitBound(t, x.ns, 3)
	p.Signal(t, syscall.SIGSTOP)
	x.more(t, 1)
	c.WaitBound(t, x.ns, 4)
	p.Signal(t, syscall.SIGCONT)
	p.Kill(t)
	x.more(t, 2)
	c.WaitBound(t, x.ns, 6)
	p.Restart(t)
	p.waitReady(t)
	x.more(t, 1)
	x.waits(t, 1, v1.PodReasonUnschedulable, fmt.Sprintf("3 placement rule limit: at most 1 of %s/web on a node", x.ns))
	within(t, "the status of the rule", func() (string, bool) {
		n := ruleStatus(t, c, "limit").Conflicts
		return fmt.Sprint(n), n >= 2 && n <= 3
	})
	require.Len(t, c.Placements(x.ns), 6)
}

// A policy in shadow leaves the choice to the scheduler, and an extender learns of it
// late. Rules hold nevertheless.
func TestExtenderInShadow(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	c.Kubectl(t, policyYAML(t, "general-k1", "general", "mode: live", "mode: shadow"), "apply", "-f", "-")
	c.Kubectl(t, limitRule(1), "apply", "-f", "-")
	proxy := c.StartProxy(t, "scheduler.kubeconfig")
	proxy.SetLag(func(string, int) time.Duration { return 200 * time.Millisecond })
	p := newExtender(t, proxy.Kubeconfig, "--app-label=app")
	x := newExtenderScene(t, p.port, false)
	c.CreateNodes(t, e2e.Nodes(19, 9)...)
	x.more(t, 15)
	c.WaitBound(t, x.ns, 12)
	x.waits(t, 3, v1.PodReasonUnschedulable, fmt.Sprintf("12 placement rule limit: at most 1 of %s/web on a node", x.ns))
	require.Equal(t, 12, nodesWithPods(c, x.ns))
	require.Zero(t, e2e.Metric(t, p.metrics+"/metrics", "sigma_rule_conflicts_total"))
}

// Another program answers at the extender's address.
func TestExtenderAnswersGarbage(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	port := e2e.FreePort(t)
	// serve answers filter and prioritize by these functions until it is stopped.
	serve := func(filter, prioritize func(*extenderv1.ExtenderArgs) string) (stop func()) {
		var stopped atomic.Bool
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err)
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var args extenderv1.ExtenderArgs
			if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
				if !stopped.Load() { // else in the middle of a call
					t.Error(err)
				}
				return
			}
			text := ""
			if r.URL.Path == "/filter" {
				text = filter(&args)
			} else {
				text = prioritize(&args)
			}
			if text == "500" {
				http.Error(w, "out of order", http.StatusInternalServerError)
				return
			}
			_, _ = w.Write([]byte(text))
		})}}
		server.Start()
		return func() {
			stopped.Store(true)
			server.CloseClientConnections()
			server.Close()
		}
	}
	is := func(text string) func(*extenderv1.ExtenderArgs) string {
		return func(*extenderv1.ExtenderArgs) string { return text }
	}
	all := func(args *extenderv1.ExtenderArgs) string {
		text, err := json.Marshal(extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames})
		require.NoError(t, err)
		return string(text)
	}
	scores := func(score int64) func(*extenderv1.ExtenderArgs) string {
		return func(args *extenderv1.ExtenderArgs) string {
			list := extenderv1.HostPriorityList{{Host: "nowhere", Score: score}}
			for _, name := range *args.NodeNames {
				list = append(list, extenderv1.HostPriority{Host: name, Score: score})
			}
			text, err := json.Marshal(list)
			require.NoError(t, err)
			return string(text)
		}
	}
	x := newExtenderScene(t, port, false)

	// An invalid answer to filter is an error.
	for _, tt := range []struct{ name, answer, reason, message string }{
		{"status 500", "500", "SchedulerError", "/filter, code 500"},
		{"not JSON", "<html>", "SchedulerError", "invalid character '<'"},
		{"an error", `{"Error": "no mood"}`, "SchedulerError", "no mood"},
		{"a node that there is not", `{"NodeNames": ["nowhere"]}`, "SchedulerError", `claims a filtered node "nowhere" which is not found`},
		{"no node", `{"NodeNames": [], "FailedNodes": {"a": "mud", "b": "mud", "c": "mud"}}`, v1.PodReasonUnschedulable, "3 mud"},
		{"nothing", `{}`, v1.PodReasonUnschedulable, "0/3 nodes are available"},
	} {
		stop := serve(is(tt.answer), is("[]"))
		x.more(t, 1)
		x.waits(t, 1, tt.reason, tt.message)
		stop()
		stop = serve(all, is("[]"))
		x.more(t, 1) // a pod that an extender refused is tried again when something happens
		c.WaitBound(t, x.ns, x.made)
		stop()
	}
	// An invalid answer to prioritize is ignored.
	for _, tt := range []struct {
		name   string
		answer func(*extenderv1.ExtenderArgs) string
	}{
		{"status 500", is("500")},
		{"not JSON", is("<html>")},
		{"nothing", is("[]")},
		{"null", is("null")},
		{"huge scores", scores(1 << 62)},
		{"negative scores", scores(-1 << 62)},
	} {
		stop := serve(all, tt.answer)
		x.more(t, 1)
		c.WaitBound(t, x.ns, x.made)
		stop()
	}
	// The real one takes its place again.
	p := newExtenderAt(t, port, filepath.Join(c.Dir, "kubeconfig"), "--app-label=app")
	x.more(t, 3)
	c.WaitBound(t, x.ns, x.made)
	require.EqualValues(t, 3, x.requests(t, p, "prioritize", http.StatusOK))
	c.RequireFits(t)
}

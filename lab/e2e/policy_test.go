//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sigma-scheduler/sigma/internal/operate"
	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// A prompt runs the command line with a kubeconfig.
type prompt struct {
	*testing.T
	c          *e2e.Cluster
	kubeconfig string
}

// run returns the exit code and what is printed.
func (p *prompt) run(args ...string) (code int, out string) {
	p.Helper()
	command := exec.Command(e2e.Program(p, "sigma"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig, "HOME="+p.TempDir())
	text, err := command.CombinedOutput()
	if status, ok := errors.AsType[*exec.ExitError](err); ok {
		return status.ExitCode(), string(text)
	}
	require.NoError(p, err)
	return 0, string(text)
}

func (p *prompt) ok(args ...string) string {
	p.Helper()
	code, out := p.run(args...)
	require.Zero(p, code, out)
	return out
}

// refused runs a command that must fail for the reason, and name the next one.
func (p *prompt) refused(reason, next string, args ...string) {
	p.Helper()
	code, out := p.run(args...)
	require.Equal(p, 1, code, out)
	require.Contains(p, out, reason)
	require.Contains(p, out, "next: "+next)
}

func (p *prompt) policy(command string, args ...string) string {
	p.Helper()
	return p.ok(append([]string{"policy", command, "general"}, args...)...)
}

// mode waits until the scheduler has the policy in a mode.
func (p *prompt) mode(reason string) {
	p.Helper()
	o, err := p.c.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("placementpolicies")).Get(p.Context(), "general", metav1.GetOptions{})
	require.NoError(p, err)
	p.c.Kubectl(p.T, "", "wait", "--timeout=60s", "placementpolicy/general", fmt.Sprintf("--for=jsonpath={.status.observedGeneration}=%d", o.GetGeneration()))
	require.Equal(p, reason, p.c.Kubectl(p.T, "", "get", "placementpolicy", "general", "-o", `jsonpath={.status.conditions[?(@.type=="Active")].reason}`))
}

// revisions waits for the history's rows.
func (p *prompt) revisions(want int) []string {
	p.Helper()
	var rows []string
	within(p.T, "the history", func() (string, bool) {
		code, out := p.run("policy", "history", "general")
		rows = strings.Split(strings.TrimSpace(out), "\n")[1:]
		return out, code == 0 && len(rows) == want
	})
	return rows
}

// TestPolicyStages: a policy without a mode begins in shadow, is promoted step by step, replaced and
// rolled back; history, events and doctor tell it. What cannot be done is refused with the next
// command.
func TestPolicyStages(t *testing.T) {
	c := ownCluster(t)
	p := &prompt{t, c, filepath.Join(c.Dir, "kubeconfig")}
	manifests := filepath.Join(repository, "manifests")

	code, out := p.run("doctor")
	require.Zero(t, code, out)
	require.Regexp(t, `(?m)^API server +ok `, out)
	require.Regexp(t, `(?m)^rights: install +ok `, out)
	require.Regexp(t, `(?m)^kinds: placement +without +not there: placementpolicies, .* to install Sigma: kubectl apply -f crds.yaml`, out)
	require.Regexp(t, `(?m)^in-place resize +ok `, out)
	require.Regexp(t, `(?m)^metrics API +without `, out)
	p.refused("Sigma is not installed", "sigma doctor", "policy", "promote", "general")

	// An object of a definition whose default was live stays live.
	text, err := os.ReadFile(filepath.Join(manifests, "base", "crds", "placementpolicies.yaml"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), "default: shadow"))
	c.Kubectl(t, strings.Replace(string(text), "default: shadow", "default: live", 1), "apply", "-f", "-")
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/placementpolicies.sigma-scheduler.io")
	shipped, err := os.ReadFile(filepath.Join(manifests, "policy.yaml"))
	require.NoError(t, err)
	modeless := strings.Replace(string(shipped), "  mode: shadow\n", "", 1)
	old := strings.Replace(modeless, "name: general", "name: old", 1)
	modeOf := func(name string) string {
		return c.Kubectl(t, "", "get", "placementpolicy", name, "-o", "jsonpath={.spec.mode}")
	}
	c.Kubectl(t, old, "apply", "-f", "-")
	require.Equal(t, "live", modeOf("old"))
	c.Kubectl(t, "", "apply", "-k", filepath.Join(manifests, "base", "crds"))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/placementplans.sigma-scheduler.io")
	within(t, "the present default", func() (string, bool) {
		c.Kubectl(t, strings.Replace(modeless, "name: general", "name: probe", 1), "apply", "-f", "-")
		defer c.Kubectl(t, "", "delete", "placementpolicy", "probe")
		return modeOf("probe"), modeOf("probe") == "shadow"
	})
	c.Kubectl(t, old, "apply", "-f", "-")
	require.Equal(t, "live", modeOf("old"))
	c.Kubectl(t, modeless, "apply", "-f", "-")
	require.Equal(t, "shadow", modeOf("general"))

	p.refused("no scheduler has looked at it yet", "sigma doctor", "policy", "promote", "general")
	p.refused("general has no history in namespace sigma-system", "sigma doctor", "policy", "rollback", "general")
	p.refused("there is no PlacementPolicy genral; there are general, old", "sigma policy history", "policy", "history", "genral")

	c.Kubectl(t, "", "apply", "-k", filepath.Join(manifests, "overlays", "second-scheduler"))
	runtime := startContainers(t, c)
	c.Kubectl(t, "", "wait", "--for=condition=Active", "--timeout=60s", "placementpolicy/general")
	p.mode("Shadow")
	require.Contains(t, p.policy("promote", "--percent", "5", "--dry-run"), "general: shadow → canary 5 %")
	require.Equal(t, "shadow", modeOf("general"))
	require.Regexp(t, `^general: shadow → canary 5 %, digest sha256:.*\nwritten; `, p.policy("promote", "--percent", "5"))
	p.mode("Canary")
	require.Contains(t, p.policy("promote"), "general: canary 5 % → live")
	p.mode("Live")
	p.refused("general is live", "sigma policy history general", "policy", "promote", "general")
	p.refused("old is not promoted: it is not in use", "name it as policyName", "policy", "promote", "old")

	// Other numbers, a version that is not accepted, and back.
	p.revisions(3)
	p.refused("general has no other numbers", "sigma policy demote general", "policy", "rollback", "general")
	c.Kubectl(t, policyYAML(t, "general-k1", "general"), "apply", "-f", "-")
	p.mode("Live")
	rows := p.revisions(4)
	require.Regexp(t, `^1 +shadow +sha256:\w{12} +\S+ \S+ +shipped with Sigma +–$`, rows[0])
	require.Regexp(t, `^2 +canary 5 % +sha256:`, rows[1])
	require.Regexp(t, `^4 +live +sha256:`, rows[3])
	c.Kubectl(t, policyYAML(t, "general-k1", "general", "knowledge: K1", "knowledge: K2"), "apply", "-f", "-")
	p.mode("NotAccepted")
	code, out = p.run("doctor")
	require.Equal(t, 1, code, out)
	require.Regexp(t, `(?m)^policy general +lacks +not accepted: spec.knowledge K2`, out)
	p.refused("general is not promoted: it was not accepted: spec.knowledge K2", "sigma policy rollback general", "policy", "promote", "general")
	require.Contains(t, p.policy("rollback", "--dry-run"), "not written")
	out = p.policy("rollback", "--to", "3")
	require.Contains(t, out, "general: live → live, the numbers of revision 3, digest sha256:")
	p.mode("Live")
	require.Contains(t, c.Kubectl(t, "", "get", "placementpolicy", "general", "-o", "jsonpath={.spec.model} {.spec.features}"), "shipped []")
	p.revisions(5)
	require.Contains(t, p.policy("rollback"), "the numbers of revision 4")
	p.mode("Live")
	require.Contains(t, p.revisions(6)[5], "live")
	p.refused("general has no other numbers", "sigma policy demote general", "policy", "rollback", "general") // the shipped ones were left
	require.Contains(t, p.policy("demote", "--percent", "20"), "general: live → canary 20 %")
	p.mode("Canary")

	// describe tells it.
	within(t, "events", func() (string, bool) {
		out = c.Kubectl(t, "", "describe", "placementpolicy", "general")
		return out, strings.Contains(out, "Revision 7. ")
	})
	for _, line := range []string{
		`PolicyTakenUp .* Revision 1\. Profile sigma took generation 1 up as primary: mode shadow, digest sha256:`,
		`NewMode .* Revision 2\. .* mode canary 5 %, digest .*, mode before it shadow`,
		`NewDigest .* Revision 4\. .*, before it sha256:\w+ in mode live`,
	} {
		require.Regexp(t, line, out)
	}
	require.Equal(t, 1, strings.Count(out, "Revision 4. "), "one replica tells it")

	// Somebody else changes the policy while it is promoted.
	config := rest.CopyConfig(c.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &meddler{next, func() { setMode(t, c, "shadow") }}
	})
	cluster, err := operate.New(config, sigmaSystem, time.Minute)
	require.NoError(t, err)
	_, err = cluster.Promote(t.Context(), "general", 0, false)
	require.ErrorContains(t, err, "general was changed by somebody else since this command read it; nothing is written")
	require.Equal(t, "shadow", modeOf("general"))

	// What is not the specification may change while it is promoted, as the status does.
	written := 0
	config = rest.CopyConfig(c.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &meddler{next, func() {
			written++
			label := fmt.Appendf(nil, `{"metadata":{"labels":{"written":"%d"}}}`, min(written, 3))
			_, err := c.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("placementpolicies")).Patch(t.Context(), "general", types.MergePatchType, label, metav1.PatchOptions{})
			require.NoError(t, err)
		}}
	})
	cluster, err = operate.New(config, sigmaSystem, time.Minute)
	require.NoError(t, err)
	step, err := cluster.Promote(t.Context(), "general", 7, true)
	require.NoError(t, err)
	require.Equal(t, "canary 7 %", step.To)
	require.Equal(t, 4, written)

	// Of many revisions ten are kept, and the one that a rollback leads to.
	policies := c.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("placementpolicies"))
	for i := range 8 {
		_, err := policies.Patch(t.Context(), "general", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"mode":"canary","canaryPercent":%d}}`, 30+i), metav1.PatchOptions{})
		require.NoError(t, err)
		p.mode("Canary")
		within(t, "its revision", func() (string, bool) {
			out := p.policy("history")
			return out, strings.Contains(out, fmt.Sprintf("canary %d %%", 30+i))
		})
	}
	rows = p.revisions(11)
	require.Regexp(t, `^5 +live`, rows[0], "the shipped numbers, newest")

	// A pod whose image is not there, and an account without rights.
	p.ok("doctor")
	bad := e2e.Pod(sigmaSystem, "bad", "10m", "16Mi")
	bad.Labels = map[string]string{"app.kubernetes.io/name": "sigma-scheduler"}
	bad.Spec.SchedulerName = "nobody"
	bad.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}}
	for i := range bad.Spec.Containers {
		bad.Spec.Containers[i].SecurityContext = &v1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}}
	}
	c.CreatePods(t, bad)
	c.Kubectl(t, "", "patch", "pod", "-n", sigmaSystem, "bad", "--subresource=status", "--type=merge", "-p",
		`{"status":{"containerStatuses":[{"name":"main","image":"r/sigma-scheduler:none","imageID":"","ready":false,"restartCount":0,"state":{"waiting":{"reason":"ImagePullBackOff","message":"not found"}}}]}}`)
	code, out = p.run("doctor")
	require.Equal(t, 1, code, out)
	require.Regexp(t, `(?m)^pod sigma-system/bad +lacks +ImagePullBackOff: the image r/sigma-scheduler:none cannot be pulled: not found +is it pushed, .* kubectl describe pod -n sigma-system bad`, out)
	c.Kubectl(t, "", "delete", "pod", "-n", sigmaSystem, "bad", "--force")

	raw, err := clientcmd.LoadFromFile(p.kubeconfig)
	require.NoError(t, err)
	for _, user := range raw.AuthInfos {
		user.Impersonate = "eve"
	}
	eve := &prompt{t, c, filepath.Join(t.TempDir(), "kubeconfig")}
	require.NoError(t, clientcmd.WriteToFile(*raw, eve.kubeconfig))
	eve.refused("forbidden: the account needs the verb get on placementpolicies.sigma-scheduler.io", "kubectl auth can-i get placementpolicies", "policy", "promote", "general")
	code, out = eve.run("doctor")
	require.Zero(t, code, out)
	require.Regexp(t, `(?m)^nodes +unknown +the account may not list nodes +kubectl auth can-i list nodes`, out)
	require.Regexp(t, `(?m)^rights: snapshot +without +not allowed: list nodes, `, out)

	// The history goes with the policy.
	runtime.requireAllowed(t)
	c.Kubectl(t, "", "delete", "placementpolicy", "general")
	within(t, "the end of the history", func() (string, bool) {
		out := c.Kubectl(t, "", "get", "controllerrevisions", "-n", sigmaSystem, "-o", "name")
		return out, out == ""
	})
}

// A meddler does something before each PATCH.
type meddler struct {
	next http.RoundTripper
	do   func()
}

func (m *meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		m.do()
	}
	return m.next.RoundTrip(r)
}

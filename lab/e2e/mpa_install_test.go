//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

const mpaSystem = "sigma-mpa"

// accountKubeconfig writes a kubeconfig with exactly a ServiceAccount's rights.
func accountKubeconfig(t *testing.T, c *e2e.Cluster, namespace, account string) string {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join(c.Dir, "ca.crt"))
	require.NoError(t, err)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: authority}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{
		Token: strings.TrimSpace(c.Kubectl(t, "", "create", "token", account, "-n", namespace, "--duration=2h")),
	}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	file := filepath.Join(t.TempDir(), account)
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	return file
}

// kubectlAs runs kubectl with the rights of an account and returns what it says, an error too.
func kubectlAs(t *testing.T, kubeconfig, input string, args ...string) (string, error) {
	t.Helper()
	command := exec.Command(e2e.Program(t, "kubectl"), append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// A service stands in for the manifests' Service: it forwards each connection of the API
// server to a replica that accepts it.
type service struct {
	address string
	timeout string // the webhook's timeoutSeconds in the manifests

	mu       sync.Mutex
	replicas []string
	next     int
}

func startService(t *testing.T) *service {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &service{address: l.Addr().String()}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			caller, err := l.Accept()
			if err != nil {
				return
			}
			go s.forward(caller)
		}
	}()
	return s
}

func (s *service) forward(caller net.Conn) {
	defer func() { _ = caller.Close() }()
	s.mu.Lock()
	replicas := slices.Clone(s.replicas)
	s.next++
	first := s.next
	s.mu.Unlock()
	for i := range replicas {
		address := replicas[(first+i)%len(replicas)]
		replica, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			continue
		}
		go func() {
			_, _ = io.Copy(replica, caller)
			_ = replica.Close()
		}()
		_, _ = io.Copy(caller, replica)
		return
	}
}

// installMPA applies the manifests and points the API server to the webhook through a
// [service].
func installMPA(t *testing.T, c *e2e.Cluster, folder string) *service {
	t.Helper()
	c.Kubectl(t, "", "apply", "-k", filepath.Join(repository, "manifests", "mpa", "crds"))
	c.Kubectl(t, "", "apply", "-k", filepath.Join(repository, "manifests", folder))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/multidimpodautoscalers.autoscaling.sigma-scheduler.io", "crd/scalingpolicies.autoscaling.sigma-scheduler.io")
	s := startService(t)
	c.Kubectl(t, "", "patch", "mutatingwebhookconfiguration", "sigma-mpa", "--type=json", "-p",
		fmt.Sprintf(`[{"op":"replace","path":"/webhooks/0/clientConfig","value":{"url":"https://%[1]s/size-pod"}},{"op":"replace","path":"/webhooks/1/clientConfig","value":{"url":"https://%[1]s/probe"}}]`, s.address))
	s.timeout = setTimeout(t, c, "30")
	return s
}

// setTimeout sets how many seconds the API server waits for the webhook, and returns the
// number before.
func setTimeout(t *testing.T, c *e2e.Cluster, seconds string) (before string) {
	t.Helper()
	before = c.Kubectl(t, "", "get", "mutatingwebhookconfiguration", "sigma-mpa", "-o", "jsonpath={.webhooks[0].timeoutSeconds}")
	c.Kubectl(t, "", "patch", "mutatingwebhookconfiguration", "sigma-mpa", "--type=json", "-p",
		fmt.Sprintf(`[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":%s}]`, seconds))
	return before
}

// startPart starts a replica of a part as its manifest does, with exactly the rights of its
// account.
func (s *service) startPart(t *testing.T, c *e2e.Cluster, part string, flags ...string) *e2e.MPA {
	t.Helper()
	file := filepath.Join("mpa", "apart", part+".yaml")
	if part == "all" {
		file = filepath.Join("mpa", "deployment.yaml")
	}
	text, err := os.ReadFile(filepath.Join(repository, "manifests", file))
	require.NoError(t, err)
	document, _, _ := strings.Cut(string(text), "\n---\n")
	var d appsv1.Deployment
	require.NoError(t, yaml.Unmarshal([]byte(document), &d))
	return s.startPod(t, c, &d.Spec.Template.Spec, t.TempDir(), flags...)
}

// startPod starts what a pod of mpaSystem runs, with its journals in a folder.
func (s *service) startPod(t *testing.T, c *e2e.Cluster, pod *v1.PodSpec, journals string, flags ...string) *e2e.MPA {
	t.Helper()
	folders := []string{"/var/lib/sigma-mpa", journals}
	for _, volume := range pod.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		config, err := c.Client.CoreV1().ConfigMaps(mpaSystem).Get(t.Context(), volume.ConfigMap.Name, metav1.GetOptions{})
		require.NoError(t, err)
		dir := t.TempDir()
		for name, text := range config.Data {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			if mount.Name == volume.Name {
				folders = append(folders, mount.MountPath, dir)
			}
		}
	}
	var args []string
	for _, arg := range pod.Containers[0].Args {
		args = append(args, strings.NewReplacer(folders...).Replace(arg))
	}
	args = append(args, "--kubeconfig="+accountKubeconfig(t, c, mpaSystem, pod.ServiceAccountName), "--namespace="+mpaSystem)
	if args[0] == "admission" || args[0] == "all" {
		address := fmt.Sprintf("127.0.0.1:%d", e2e.FreePort(t))
		args = append(args, "--webhook-bind-address="+address)
		s.mu.Lock()
		s.replicas = append(s.replicas, address)
		s.mu.Unlock()
	}
	return c.StartMPAProgram(t, program(t, pod.Containers[0].Image), append(args, flags...)...)
}

func requireAllowed(t *testing.T, programs ...*e2e.MPA) {
	t.Helper()
	for _, p := range programs {
		log, err := os.ReadFile(p.Log)
		require.NoError(t, err)
		require.NotEmpty(t, log)
		require.NotRegexp(t, "forbidden|Unauthorized", string(log), p.Name)
	}
}

// TestMPAPage runs every command of docs/mpa.md. The fake kubelet reports that the
// autoscaler's pods run; no process decides.
func TestMPAPage(t *testing.T) {
	c := ownCluster(t)
	page := openPage(t, c, "mpa.md")
	page.run(t, "Install", 2)
	require.Len(t, c.Pods(mpaSystem), 2)
	require.Regexp(t, `(?m)^web +Off `, page.run(t, "A first object", 1))
	page.run(t, "A first object", 1)
	require.Contains(t, c.Kubectl(t, "", "get", "mpa", "web"), "InPlaceOrRecreate")
	c.Kubectl(t, "", "delete", "mpa", "web")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(page.dir, "manifests", "mpa", "samples"))
	page.shell(t, "echo secret | tee ca.crt token password")
	page.run(t, "Prometheus", 1)
	page.run(t, "When something is down", 1)
	page.shell(t, "mkdir servers; cat > servers/kustomization.yaml <<'EOF'\nresources: [../autoscaler]\n"+yamlOf(t, "mpa.md", "# servers, in")+"EOF")
	require.Contains(t, page.shell(t, "kubectl apply -k servers --dry-run=server -o yaml"), "X-Scope-OrgID")
	// The page's volume is used, and applying again loses nothing.
	page.shell(t, "cat >> autoscaler/kustomization.yaml <<'EOF'\n"+yamlOf(t, "mpa.md", "# in the kustomization")+"EOF\nkubectl apply -k autoscaler")
	require.Contains(t, c.Kubectl(t, "", "get", "deployment", "sigma-mpa", "-n", mpaSystem, "-o", "yaml"), "claimName: sigma-mpa-journal")
	require.Equal(t, 4, strings.Count(page.run(t, "Uninstall", 1), `multidimpodautoscaler.autoscaling.sigma-scheduler.io "`))
	require.Empty(t, page.blocks, "blocks that this test does not know of")
	require.NotContains(t, c.Kubectl(t, "", "get", "mutatingwebhookconfigurations"), "sigma-mpa")
}

// TestMPARights: the rights of the manifests suffice for all parts, apart and in one process.
func TestMPARights(t *testing.T) {
	c := ownCluster(t)
	c.InstallMetricsAPI(t)
	s := installMPA(t, c, "mpa/apart")
	const ns = "default"
	flags := []string{"--interval=1s", "--cool-down=2s"}
	apart := []*e2e.MPA{
		s.startPart(t, c, "recommender", flags...),
		s.startPart(t, c, "updater", "--evict-after=1s"),
		s.startPart(t, c, "admission"),
	}
	rounds := func(t *testing.T, prefix string, webhooks ...*e2e.MPA) {
		for _, round := range [][2]string{{"Deployment", "InPlace"}, {"StatefulSet", "Recreate"}} {
			kind, mode := round[0], round[1]
			name := prefix + strings.ToLower(mode)
			d := e2e.Deployment(ns, name, 3, "100m", "128Mi")
			if kind == "Deployment" {
				c.CreateDeployment(t, d)
			} else {
				_, err := c.Client.AppsV1().StatefulSets(ns).Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.StatefulSetSpec{
					Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template,
				}}, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			waitSizes(t, c, ns, name, map[string]int{"100m 128Mi": 3})
			w := c.StartWorkload(t, e2e.WorkloadSpec{Namespace: ns, App: name, CPUSeconds: .01, Load: e2e.Steps(time.Hour, 10)})
			w.FeedMetricsAPI(t)
			text := strings.NewReplacer("NAMESPACE", ns, "NAME", name, "KIND", kind, "MODE", mode,
				"min: 1,", "min: 4,", "maxAllowed: {cpu: \"8\", memory: 8Gi}", "minAllowed: {cpu: 300m, memory: 300Mi}").Replace(webObject)
			c.Kubectl(t, text, "apply", "-f", "-")
			e2e.Wait(t, name+": four pods of another size", func() (string, bool) {
				large, all := 0, 0
				for _, pod := range c.Pods(ns) {
					if pod.DeletionTimestamp == nil && pod.Labels["app"] == name {
						all++
						if pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() >= 300 {
							large++
						}
					}
				}
				done := all >= 4 && large == all
				if done {
					return "", true
				}
				var said []string // by the webhook, of all pods so far
				for _, w := range webhooks {
					for _, result := range []string{"sized", "same", "no-object", "off", "no-recommendation", "refused", "template-newer", "kept", "failed"} {
						if n := w.Metric(t, "sigma_mpa_admission_pods_total", fmt.Sprintf("result=%q", result)); n > 0 {
							said = append(said, fmt.Sprint(n, " ", result))
						}
					}
				}
				return fmt.Sprintf("%d of %d; the webhook: %s\n%s", large, all, strings.Join(said, ", "), statusOf(t, c, ns, name)), false
			})
			c.Kubectl(t, "", "delete", kind, name, "-n", ns)
		}
	}
	rounds(t, "apart-", apart[2])
	require.NotZero(t, apart[2].Metric(t, "sigma_mpa_admission_pods_total", `result="sized"`))
	require.NotZero(t, apart[1].Metric(t, "sigma_mpa_evictions_total", `outcome="Evicted"`))
	events := c.Kubectl(t, "", "get", "events", "-n", ns, "-o", `jsonpath={range .items[*]}{.source.component} {.reason}{"\n"}{end}`)
	require.Contains(t, events, "sigma-mpa-recommender ")
	require.Contains(t, events, "sigma-mpa-updater ")
	requireAllowed(t, apart...)
	for _, p := range apart {
		p.Stop(t)
	}

	s.mu.Lock()
	s.replicas = nil
	s.mu.Unlock()
	all := []*e2e.MPA{
		s.startPart(t, c, "all", append(flags, "--evict-after=1s")...),
		s.startPart(t, c, "all", append(flags, "--evict-after=1s")...),
	}
	rounds(t, "all-", all...)
	requireAllowed(t, all...)
	// The second replica leads after the first has ended.
	for _, p := range all {
		p.Stop(t)
	}
	requireAllowed(t, all...)
}

func statusOf(t *testing.T, c *e2e.Cluster, namespace, name string) string {
	t.Helper()
	o, err := c.Dynamic.Resource(schema.GroupVersionResource{Group: "autoscaling.sigma-scheduler.io", Version: "v1alpha1", Resource: "multidimpodautoscalers"}).
		Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	text, err := json.Marshal(o.Object["status"])
	require.NoError(t, err)
	return string(text)
}

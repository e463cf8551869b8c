//go:build e2e

package e2e_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// containers stand for the container runtime of the fake kubelet's nodes: every
// pod of sigma-system that runs gets its programs, with the arguments, the
// configuration and the rights that its manifest gives it. Other are only the
// ports, and where files lie that would be mounted.
type containers struct {
	c       *e2e.Cluster
	pods    map[types.UID]*runningPod
	scraper string           // token
	fill    func(dir string) // a pod's folder before its programs start; nil = not
}

type runningPod struct {
	scheduler, extender *e2e.Process
	url                 string // of the scheduler's metrics and health
	extenderURL         string
	dir                 string // of its files, and /var/log/sigma
}

// sync starts and ends programs as there are pods, and returns when all are ready.
func (r *containers) sync(t *testing.T) {
	t.Helper()
	there := map[types.UID]bool{}
	for _, pod := range r.c.Pods(sigmaSystem) {
		if pod.DeletionTimestamp != nil || pod.Status.Phase != v1.PodRunning {
			continue
		}
		there[pod.UID] = true
		if r.pods[pod.UID] == nil {
			r.pods[pod.UID] = r.start(t, pod)
		}
	}
	for uid, running := range r.pods {
		if !there[uid] {
			r.stop(t, uid, running)
		}
	}
	for _, running := range r.pods {
		(&e2e.Scheduler{Process: running.scheduler, URL: running.url}).WaitReady(t)
	}
}

// stopAll ends all programs, before their rights are deleted with them.
func (r *containers) stopAll(t *testing.T) {
	t.Helper()
	for uid, running := range r.pods {
		r.stop(t, uid, running)
	}
}

func (r *containers) stop(t *testing.T, uid types.UID, running *runningPod) {
	t.Helper()
	running.scheduler.Stop(t)
	if running.extender != nil {
		running.extender.Stop(t)
	}
	delete(r.pods, uid)
}

func (r *containers) start(t *testing.T, pod *v1.Pod) *runningPod {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	r.account(t, pod.Spec.ServiceAccountName, kubeconfig)
	running := &runningPod{dir: dir}
	if r.fill != nil {
		r.fill(dir)
	}
	callsPort, metricsPort, securePort := e2e.FreePort(t), e2e.FreePort(t), e2e.FreePort(t)

	for _, container := range pod.Spec.InitContainers {
		require.Equal(t, "extender", container.Name)
		running.extenderURL = fmt.Sprintf("https://127.0.0.1:%d", metricsPort)
		args := []string{"--kubeconfig=" + kubeconfig}
		for _, arg := range container.Args {
			arg = strings.Replace(arg, "127.0.0.1:8443", fmt.Sprintf("127.0.0.1:%d", callsPort), 1)
			args = append(args, strings.Replace(arg, ":8080", fmt.Sprintf("127.0.0.1:%d", metricsPort), 1))
		}
		running.extender = e2e.StartProcess(t, "extender-"+pod.Name, program(t, container.Image), args...)
		waitOK(t, running.extenderURL+container.StartupProbe.HTTPGet.Path)
	}

	require.Len(t, pod.Spec.Containers, 1)
	container := pod.Spec.Containers[0]
	volume := pod.Spec.Volumes[slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.ConfigMap != nil })]
	files, err := r.c.Client.CoreV1().ConfigMaps(sigmaSystem).Get(t.Context(), volume.ConfigMap.Name, metav1.GetOptions{})
	require.NoError(t, err)
	for name, text := range files.Data {
		text = strings.Replace(text, "127.0.0.1:8443", fmt.Sprintf("127.0.0.1:%d", callsPort), 1)
		text = strings.Replace(text, "/var/log/sigma", dir, 1)
		text += fmt.Sprintf("clientConnection: {kubeconfig: %s}\n", kubeconfig)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	args := []string{
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", securePort),
	}
	for _, arg := range container.Args {
		args = append(args, strings.Replace(arg, container.VolumeMounts[0].MountPath, dir, 1))
	}
	running.url = fmt.Sprintf("https://127.0.0.1:%d", securePort)
	running.scheduler = e2e.StartProcess(t, "scheduler-"+pod.Name, program(t, container.Image), args...)
	return running
}

// account writes a kubeconfig with a ServiceAccount's rights and no others.
func (r *containers) account(t *testing.T, name, file string) {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join(r.c.Dir, "ca.crt"))
	require.NoError(t, err)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: r.c.Config.Host, CertificateAuthorityData: authority}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: r.token(t, name)}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	require.NoError(t, clientcmd.WriteToFile(*config, file))
}

func (r *containers) token(t *testing.T, account string) string {
	t.Helper()
	return strings.TrimSpace(r.c.Kubectl(t, "", "create", "token", account, "-n", sigmaSystem, "--duration=2h"))
}

// leader is the pod whose scheduler leads.
func (r *containers) leader(t *testing.T) *runningPod {
	t.Helper()
	var leader *runningPod
	e2e.Wait(t, "a leader", func() (string, bool) {
		for _, running := range r.pods {
			if running.scheduler.Alive() && strings.Contains(r.metrics(t, running.url), `leader_election_master_status{name="kube-scheduler"} 1`) {
				leader = running
			}
		}
		return "", leader != nil
	})
	return leader
}

// metrics reads a program's page as an account that may.
func (r *containers) metrics(t *testing.T, url string) string {
	t.Helper()
	if r.scraper == "" {
		r.c.Kubectl(t, "", "create", "serviceaccount", "scraper", "-n", sigmaSystem)
		r.c.Kubectl(t, "", "create", "clusterrolebinding", "scraper",
			"--clusterrole=sigma-metrics-reader", "--serviceaccount="+sigmaSystem+":scraper")
		r.scraper = r.token(t, "scraper")
		e2e.Wait(t, "the right to scrape", func() (string, bool) {
			status, _ := scrape(t, url, r.scraper)
			return fmt.Sprint(status), status == http.StatusOK
		})
	}
	status, page := scrape(t, url, r.scraper)
	require.Equal(t, http.StatusOK, status, page)
	return page
}

// requireAllowed fails the test when the API server refused a program anything.
func (r *containers) requireAllowed(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, r.pods)
	for _, running := range r.pods {
		for _, p := range []*e2e.Process{running.scheduler, running.extender} {
			if p == nil {
				continue
			}
			log, err := os.ReadFile(p.Log)
			require.NoError(t, err)
			require.NotEmpty(t, log)
			require.NotRegexp(t, "is forbidden|Unauthorized", string(log))
		}
	}
}

var anyCertificate = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

func scrape(t *testing.T, url, token string) (status int, page string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", http.NoBody)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := anyCertificate.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func waitOK(t *testing.T, url string) {
	t.Helper()
	e2e.Wait(t, url, func() (string, bool) {
		response, err := anyCertificate.Get(url)
		if err != nil {
			return err.Error(), false
		}
		_ = response.Body.Close()
		return response.Status, response.StatusCode == http.StatusOK
	})
}

// program is what runs in a container of an image.
func program(t *testing.T, image string) string {
	t.Helper()
	name, tag, _ := strings.Cut(path.Base(image), ":")
	if tag == former {
		return filepath.Join(os.Getenv(formerVariable), name)
	}
	return e2e.Program(t, name)
}

// startContainers starts the programs of what was just installed.
func startContainers(t *testing.T, c *e2e.Cluster) *containers {
	t.Helper()
	c.WaitRunning(t, sigmaSystem, 2)
	runtime := &containers{c: c, pods: map[types.UID]*runningPod{}}
	runtime.sync(t)
	require.Len(t, runtime.pods, 2)
	return runtime
}

//go:build e2e

package e2e_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// cadvisor is a page of what pods sent, in bits a second by namespace/name. Each scrape is two
// minutes after the one before, and the last one is now.
type cadvisor struct {
	pods  map[string]float64
	begin time.Time
	looks atomic.Int64
}

const (
	egressStep  = 2 * time.Minute
	egressLooks = 25 // in an hour: a new Prometheus takes nothing older
)

func (p *cadvisor) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	after := time.Duration(min(p.looks.Add(1), egressLooks)) * egressStep
	for pod, bits := range p.pods {
		ns, name, _ := strings.Cut(pod, "/")
		sent := bits / 8 * after.Seconds()
		for device, share := range map[string]float64{"eth0": .75, "eth1": .25, "lo": 10} {
			fmt.Fprintf(w, "container_network_transmit_bytes_total{namespace=%q,pod=%q,interface=%q} %f %d\n",
				ns, name, device, share*sent, p.begin.Add(after).UnixMilli())
		}
	}
}

// A snapshot asks a real Prometheus what pods sent. What a pod says itself comes first, and of
// which nothing is known is named.
func TestSnapshotEgress(t *testing.T) {
	c := e2e.Shared(t)
	ns, dir := c.Namespace(t), t.TempDir()
	c.CreateNodes(t, e2e.Nodes(1, 3)...)
	said := e2e.Deployment(ns, "said", 1, "100m", "1Gi")
	said.Spec.Template.Annotations = map[string]string{"sigma-scheduler.io/egress": "3M"}
	c.CreateDeployment(t, said)
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 2, "100m", "1Gi"))
	c.CreateDeployment(t, e2e.Deployment(ns, "idle", 1, "100m", "1Gi"))
	c.StartScheduler(t, scheduler, "")
	c.WaitRunning(t, ns, 4)

	page := &cadvisor{pods: map[string]float64{}, begin: time.Now().Add(-egressLooks * egressStep)}
	rates := []float64{80e6, 40e6}
	for _, pod := range c.Pods(ns) {
		switch pod.Labels["app"] {
		case "web":
			page.pods[ns+"/"+pod.Name], rates = rates[0], rates[1:]
		case "said":
			page.pods[ns+"/"+pod.Name] = 500e6
		}
	}
	server := httptest.NewServer(page)
	defer server.Close()
	prometheus := e2e.StartPrometheus(t, strings.TrimPrefix(server.URL, "http://"))
	e2e.Wait(t, "an hour", func() (string, bool) {
		n := page.looks.Load()
		return fmt.Sprint(n), n > egressLooks
	})

	command := exec.Command(e2e.Program(t, "sigma"), "snapshot", "--out", "snap", "--kubeconfig", filepath.Join(c.Dir, "kubeconfig"),
		"--scheduler", scheduler, "--egress", "--uplink", "10G", "--prometheus", prometheus.URL)
	command.Dir = dir
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, ns+`/Deployment/idle`, string(out))
	require.NotContains(t, string(out), ns+"/Deployment/web")

	file, err := os.Open(filepath.Join(dir, "snap", "apps.csv"))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	column := slices.Index(rows[0], "egress")
	require.Positive(t, column)
	is := map[string]string{}
	for _, row := range rows[1:] {
		if app, ours := strings.CutPrefix(row[0], ns+"/Deployment/"); ours {
			name, _, _ := strings.Cut(app, "@")
			is[name] = row[column]
		}
	}
	t.Logf("%v\n%s", is, out)
	require.Equal(t, map[string]string{"web": "60000000", "said": "3000000", "idle": "0"}, is)
}

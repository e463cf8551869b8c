//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// byUse is an object with the algorithm usage.
const byUse = `apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: web, namespace: %s}
spec:
  scaleTargetRef: {kind: Deployment, name: web}
  mode: "Off"
  metrics: {prometheus: {server: main}}
  constraints:
    replicas: {max: 2} # replicas are left alone
    containers: [{name: main, minAllowed: {cpu: 10m, memory: 32Mi}}]
  recommender: {algorithm: usage}
`

// Running pods get requests by 28 days of their use in a real Prometheus, in place and with their
// limits, new ones at their creation; a patch of the algorithm returns them to their template.
func TestMPAUsage(t *testing.T) {
	f := startFleet(t)
	f.c.InstallMetricsAPI(t)
	web := f.add("web", memberSpec{replicas: 2, rate: 10, memory: "512Mi", edit: func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	}})
	web.load.FeedMetricsAPI(t)
	f.c.WaitRunning(t, f.ns, 2)
	const day = 86400
	today := time.Now().Unix() / day * day
	var past []e2e.PastSeries
	for i, pod := range f.c.Pods(f.ns) { // for three days; before them pods of a former ReplicaSet
		for name, s := range map[string]e2e.PastSeries{
			pod.Name:                              {From: today - 3*day, Until: today},
			fmt.Sprintf("web-7c9d8f-x2k9%d", 4+i): {From: today - 28*day, Until: today - 3*day},
		} {
			s.Seed, s.Noise = uint64(i), .01
			past = append(past, s.Container(f.ns, name, "main", "/kubepods/"+name, .3, 250<<20)...)
		}
	}
	prometheus, journals := e2e.StartPrometheusOfPast(t, time.Minute, past), t.TempDir()
	m := f.startAll("--journal-dir="+journals, e2e.PrometheusServers(t, map[string]string{"main": prometheus.URL}))
	before := uids(f.pods(web))
	f.c.Kubectl(t, fmt.Sprintf(byUse, f.ns), "apply", "-f", "-")

	var size v1alpha1.ContainerRequests
	f.await("sizes by use", []*member{web}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		if s.Decision == nil || s.Decision.Source != "usage" || len(s.Decision.Containers) != 1 || s.Summary != "OK" {
			return false
		}
		size = s.Decision.Containers[0]
		return true
	})
	require.InEpsilon(t, 300, float64(size.CPU.MilliValue()), .05)
	require.InEpsilon(t, 1.15*250*(1<<20), float64(size.Memory.Value()), .05)
	require.InDelta(t, time.Now().Unix(), m.Metric(t, "sigma_mpa_usage_midnight_seconds"), 2*day)
	f.requireSized(web, "500m", "512Mi", "1", "1Gi")

	f.patch(`{"spec":{"mode":"InPlace"}}`)
	f.requireSized(web, size.CPU.String(), size.Memory.String(), "1", "1Gi")
	require.Equal(t, before, uids(f.pods(web)), "in place")
	for _, pod := range f.pods(web) {
		require.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
	}
	f.c.Kubectl(t, "", "scale", "-n", f.ns, "deployment/web", "--replicas=3")
	f.c.WaitRunning(t, f.ns, 3)
	f.requireSized(web, size.CPU.String(), size.Memory.String(), "1", "1Gi")
	for _, pod := range f.pods(web) {
		if !before[pod.UID] {
			web.mu.Lock()
			require.Len(t, web.sizes[pod.UID], 1, "from its beginning")
			web.mu.Unlock()
		}
	}

	f.patch(`{"spec":{"recommender":{"algorithm":"template"}}}`)
	f.requireSized(web, "500m", "512Mi", "1", "1Gi")
	require.EqualValues(t, 3, web.last(), "replicas are left alone")

	m.Stop(t)
	files, err := filepath.Glob(filepath.Join(journals, f.ns, "web.*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Regexp(t, `[1-9]\d* decisions, [1-9]\d* equal`, f.sigma("mpa", "replay", files[0]))
	days, err := filepath.Glob(filepath.Join(journals, ".use", "*", "*.gz"))
	require.NoError(t, err)
	require.Len(t, days, 28)
}

// patch changes the object of web.
func (f *fleet) patch(change string) {
	f.Helper()
	f.c.Kubectl(f, "", "patch", "mpa", "-n", f.ns, "web", "--type=merge", "-p", change)
}

// requireSized waits until all pods of a member have these requests and limits.
func (f *fleet) requireSized(m *member, cpu, memory, cpuLimit, memoryLimit string) {
	f.Helper()
	want := fmt.Sprint(cpu, " ", memory, " of ", cpuLimit, " ", memoryLimit)
	e2e.Wait(f, m.name+" of "+want, func() (string, bool) {
		is, all := "", true
		for _, p := range f.pods(m) {
			status := p.Status.ContainerStatuses
			if len(status) == 0 || status[0].Resources == nil {
				return "a pod without a status", false
			}
			for _, r := range []*v1.ResourceRequirements{&p.Spec.Containers[0].Resources, status[0].Resources} {
				has := fmt.Sprint(r.Requests.Cpu(), " ", r.Requests.Memory(), " of ", r.Limits.Cpu(), " ", r.Limits.Memory())
				is, all = is+has+"; ", all && has == want
			}
		}
		return is + brief(f.statuses()[m.name]), is != "" && all
	})
}

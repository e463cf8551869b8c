//go:build e2e

package e2e_test

import (
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/admission"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

// Two workloads follow their load by replicas and by resizes in place: one whose load rises,
// falls and settles at another level, and one with a day of the World Cup, or a synthetic
// one, in two minutes. All decisions can be replayed.
func TestMPALive(t *testing.T) {
	f := startFleet(t)
	f.c.InstallMetricsAPI(t)
	size := memberSpec{
		replicas: 2, max: 10, rate: 60, mode: v1alpha1.ModeInPlaceOrRecreate, algorithm: "hpa+vpa",
		usage: v1alpha1.UsageMetricsAPI, memory: "128Mi", maxMemory: "1Gi",
	}
	day := size
	day.usage, day.load = v1alpha1.UsagePrometheus, dayOfLoad(t, 2*time.Minute, 260)
	web, cup := f.add("web", size), f.add("cup", day)
	web.feed = web.load.FeedMetricsAPI(t)
	prometheus := e2e.StartPrometheus(t, web.load.Target, cup.load.Target)
	size.prometheus, day.prometheus = "main", "main"
	f.c.WaitRunning(t, f.ns, 4)
	journals := t.TempDir()
	m := f.startAll("--journal-dir="+journals, e2e.PrometheusServers(t, map[string]string{"main": prometheus.URL}))
	before := uids(f.pods(web))
	f.autoscale("web", size)
	f.autoscale("cup", day)

	f.awaitMemory(web, "250Mi") // the least that its agent recommends
	require.Equal(t, before, uids(f.pods(web)), "in place")
	for _, pod := range f.pods(web) {
		require.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
	}

	web.set(150)
	f.awaitReplicas([]*member{web}, 4, 5)
	e2e.Wait(t, "new pods", func() (string, bool) {
		pods := f.pods(web)
		web.mu.Lock()
		defer web.mu.Unlock()
		unseen := slices.ContainsFunc(pods, func(p *v1.Pod) bool { return len(web.sizes[p.UID]) == 0 })
		return fmt.Sprint(len(pods)), len(pods) >= 4 && !unseen
	})
	f.awaitSLO(web)
	fresh := 0
	for _, pod := range f.pods(web) {
		web.mu.Lock()
		sizes := slices.Clone(web.sizes[pod.UID])
		web.mu.Unlock()
		if before[pod.UID] || len(sizes) == 0 { // the last one is the present one
			continue
		}
		fresh++
		require.Contains(t, pod.Annotations[admission.AnnotationRecommendation], "web/")
		require.Equal(t, "500m 250Mi", sizes[0].value, "from its beginning")
	}
	require.Positive(t, fresh)

	web.set(60)
	f.awaitReplicas([]*member{web}, 2, 2)
	web.set(250)
	f.awaitReplicas([]*member{web}, 6, 8)
	f.awaitSLO(web)
	f.awaitReplicas([]*member{cup}, 6, 10)
	f.awaitSLO(cup)
	f.requireCalm(web, cup)
	f.c.RequireFits(t)
	t.Logf("replicas: web %v, cup %v; sigma-mpa used %.2f CPU-s", web.counts(), cup.counts(), m.CPUSeconds(t))

	f.await("calm", []*member{web}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Phase == v1alpha1.PhaseHolding && s.Observed != nil && strings.HasPrefix(s.Observed.SLORatio, "0.") && s.Decision != nil && len(s.Decision.Containers) == 1
	})
	table := f.c.Kubectl(t, "", "get", "mpa", "-n", f.ns, "web")
	require.Regexp(t, `^NAME +MODE +PHASE +SOURCE +LEARNING +REPLICAS +DESIRED +CPU +MEMORY +SLO +CONDITION +KNATIVE +AGE\n`+
		`web +InPlaceOrRecreate +\w+ +hpa\+vpa +[678] +\d+ +500m +250Mi +0\.\d\d +\w+ +\d+[ms].*\n$`, table)
	why := f.sigma("mpa", "explain", "--kubeconfig="+filepath.Join(f.c.Dir, "kubeconfig"), "-n", f.ns, "web")
	require.Contains(t, why, f.ns+"/web")
	require.Regexp(t, `of its requests, \d+ % wanted`, why)
	f.requireReplayed(m, journals, replayed{}, "web", "cup")
}

func uids(pods []*v1.Pod) map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, p := range pods {
		all[p.UID] = true
	}
	return all
}

// awaitMemory waits until all pods of a member request and have so much memory.
func (f *fleet) awaitMemory(m *member, want string) {
	f.Helper()
	e2e.Wait(f, m.name+" of "+want, func() (string, bool) {
		is, all := "", true
		for _, p := range f.pods(m) {
			asked, status := p.Spec.Containers[0].Resources.Requests.Memory().String(), p.Status.ContainerStatuses
			is += " " + asked
			all = all && asked == want && len(status) > 0 && status[0].Resources != nil && status[0].Resources.Requests.Memory().String() == want
		}
		return is + brief(f.statuses()[m.name]), is != "" && all
	})
}

// awaitSLO waits until a member meets its SLO.
func (f *fleet) awaitSLO(m *member) {
	f.Helper()
	e2e.Wait(f, m.name+" keeps its SLO", func() (string, bool) {
		now := m.load.Now()
		return fmt.Sprintf("%+v", now), now.Pods > 0 && now.P95 < .5
	})
}

// sigma runs the command line.
func (f *fleet) sigma(args ...string) string {
	f.Helper()
	out, err := exec.Command(e2e.Program(f, "sigma"), args...).CombinedOutput()
	require.NoError(f, err, "sigma %v: %s", args, out)
	return string(out)
}

// replayed has the weights that journals name, and the flags by which the command line gets
// them.
type replayed struct {
	weights agents.Weights
	flags   []string
}

// requireReplayed replays the members' journals: they have every decision that the metrics
// count, and give the same ones again. It ends sigma-mpa.
func (f *fleet) requireReplayed(m *e2e.MPA, dir string, with replayed, names ...string) {
	f.Helper()
	for _, name := range names {
		files, err := filepath.Glob(filepath.Join(dir, f.ns, name+".*.jsonl"))
		require.NoError(f, err)
		require.Len(f, files, 1, "%s", name)
		decisions := func() int {
			v, err := journal.ReplayFile(files[0], with.weights)
			require.NoError(f, err)
			require.Nil(f, v.First)
			require.Equal(f, v.Decisions, v.Equal)
			require.Zero(f, v.Recorded)
			return v.Decisions
		}
		e2e.Wait(f, "as many decisions in the journal as in the metrics", func() (string, bool) {
			before, counted := decisions(), int(m.Metric(f, "sigma_mpa_decisions_total", `name="`+name+`"`))
			return fmt.Sprintf("%s: %d and %d", name, before, counted), before == counted && before == decisions() && before > 20
		})
		printed := f.sigma(slices.Concat([]string{"mpa", "replay"}, with.flags, files)...)
		counts := regexp.MustCompile(`(\d+) decisions, (\d+) equal`).FindStringSubmatch(printed)
		require.Len(f, counts, 3, printed)
		require.Equal(f, counts[1], counts[2])
		f.Logf("%s%s", name, strings.TrimSpace(strings.TrimPrefix(printed, files[0])))
		last := f.sigma("mpa", "explain", "--log", files[0], "--change")
		require.Contains(f, last, f.ns+"/"+name)
		require.Regexp(f, `done +scale|done +resize`, last)
		text, err := os.ReadFile(files[0])
		require.NoError(f, err)
		require.Contains(f, string(text), `"result":"Applied"`)
		require.Contains(f, string(text), `"coolDownNanoseconds":4000000000`)
		require.Contains(f, string(text), `"stabilisationNanoseconds":6000000000`)
	}
	m.Stop(f)
}

// dayOfLoad returns the day before the World Cup's highest minute, or a synthetic one,
// compressed to long and scaled to at most most requests per second; the last minute stays.
func dayOfLoad(t *testing.T, long time.Duration, most float64) e2e.Load {
	t.Helper()
	const minutes = 1440
	rates := make([]float64, minutes)
	for i := range rates { // a quiet night, a ramp, a flash crowd
		switch {
		case i < 500:
			rates[i] = 20
		case i < 1000:
			rates[i] = 20 + float64(i-500)/500*40
		default:
			rates[i] = 100
		}
	}
	if dir := os.Getenv("SIGMA_DATA"); dir != "" {
		file, err := os.Open(filepath.Join(dir, "workloads", "worldcup98_rpm.csv"))
		require.NoError(t, err)
		defer func() { require.NoError(t, file.Close()) }()
		rows, err := csv.NewReader(file).ReadAll()
		require.NoError(t, err)
		counts := make([]float64, len(rows)-1)
		highest := 0
		for i := range counts {
			counts[i], err = strconv.ParseFloat(rows[i+1][1], 64)
			require.NoError(t, err)
			if counts[i] > counts[highest] {
				highest = i
			}
		}
		require.Greater(t, highest, minutes)
		rates = counts[highest-minutes+1 : highest+1]
	}
	peak := 0.
	for _, r := range rates {
		peak = max(peak, r)
	}
	return func(at time.Duration) float64 {
		i := min(int(float64(at)/float64(long)*minutes), minutes-1)
		return rates[i] / peak * most
	}
}

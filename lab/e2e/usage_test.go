//go:build e2e

package e2e_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// appColumn has a column of a snapshot's apps.csv by the name of the workload.
func appColumn(t *testing.T, trace, prefix, column string) map[string]float64 {
	t.Helper()
	file, err := os.Open(filepath.Join(trace, "apps.csv"))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	at, is := slices.Index(rows[0], column), map[string]float64{}
	require.Positive(t, at)
	for _, row := range rows[1:] {
		if app, ours := strings.CutPrefix(row[0], prefix); ours {
			name, _, _ := strings.Cut(app, "@")
			q, err := resource.ParseQuantity(row[at])
			require.NoError(t, err)
			is[name] = q.AsApproximateFloat64()
		}
	}
	return is
}

// failedQueries lists the counts of the queries of a Prometheus that had another answer than 200.
func failedQueries(t *testing.T, p *e2e.Prometheus) (lines []string) {
	t.Helper()
	response, err := http.Get(p.URL + "/metrics")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	all := regexp.MustCompile(`(?m)^prometheus_http_requests_total\{code="(\d+)",handler="/api/v1/query(?:_range)?"\} (.*)$`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, all)
	for _, m := range all {
		if m[1] != "200" && m[2] != "0" {
			lines = append(lines, m[0])
		}
	}
	return lines
}

// A snapshot counts pods by their use of weeks in two real Prometheis, with counters that are
// reset, containers that restart, gaps and pods that are gone; a second one needs neither.
func TestSnapshotUsage(t *testing.T) {
	c := e2e.Shared(t)
	ns, dir := c.Namespace(t), t.TempDir()
	c.CreateNodes(t, e2e.Node("usage", "8", "32Gi"))
	for _, d := range []*appsv1.Deployment{
		e2e.Deployment(ns, "web", 2, "500m", "1Gi"), e2e.Deployment(ns, "hot", 1, "100m", "256Mi"), e2e.Deployment(ns, "new", 1, "300m", "1Gi"), e2e.Deployment(ns, "blind", 1, "300m", "1Gi"),
	} {
		d.Spec.Template.Spec.NodeName = "usage" // without a scheduler
		c.CreateDeployment(t, d)
	}
	c.WaitRunning(t, ns, 5)

	const day, mebi = 86400, 1 << 20
	today := time.Now().Unix() / day * day
	from := func(days int64) e2e.PastSeries { return e2e.PastSeries{From: today - days*day, Until: today} }
	var one, two []e2e.PastSeries
	for i, pod := range c.Pods(ns) {
		id := fmt.Sprint("/kubepods/", i)
		switch pod.Labels["app"] {
		case "web": // for three days; before them two pods of a former ReplicaSet
			s := from(3)
			s.Reset, s.Seed = 7*3600, uint64(i)
			one = append(one, s.Container(ns, pod.Name, "main", id, .1, 300*mebi)...)
			two = append(two, s.Container(ns, pod.Name, "main", id, .1, 300*mebi)...) // scraped twice
			former := from(28)
			former.Until, former.Seed = today-3*day, uint64(100+i)
			former.Gaps = [][2]int64{{today - 20*day, today - 20*day + 7200}}
			one = append(one, former.Container(ns, fmt.Sprintf("web-7c9d8f-x2k9%d", 4+i), "main", id+"/former", .2, 400*mebi)...)
		case "hot": // its container restarts at every midnight, under another cgroup
			for d := range int64(28) {
				s := from(28 - d)
				s.Until, s.Seed = s.From+day, uint64(d)
				one = append(one, s.Container(ns, pod.Name, "main", fmt.Sprint(id, "/", d), .4, 200*mebi)...)
			}
		case "new":
			two = append(two, from(9).Container(ns, pod.Name, "main", id, .05, 100*mebi)...)
		}
	}
	for i := range one {
		one[i].Noise = .01
	}
	first, second := e2e.StartPrometheusOfPast(t, time.Minute, one), e2e.StartPrometheusOfPast(t, time.Minute, two)
	snap := func(name string) string {
		command := exec.Command(e2e.Program(t, "sigma"), "snapshot", "--out", name, "--kubeconfig", filepath.Join(c.Dir, "kubeconfig"),
			"--usage", "--prometheus", first.URL+","+second.URL, "--history", "days")
		command.Dir = dir
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	out := snap("by-use")
	t.Log(out)
	prefix := ns + "/Deployment/"
	cpu, memory := appColumn(t, filepath.Join(dir, "by-use"), prefix, "cpu"), appColumn(t, filepath.Join(dir, "by-use"), prefix, "memory")
	require.InEpsilon(t, .2, cpu["web"], .05)
	require.InEpsilon(t, 1.15*400*mebi, memory["web"], .06)
	require.InEpsilon(t, .4, cpu["hot"], .05)
	require.InDelta(t, .3, cpu["new"], 1e-9)
	require.InDelta(t, .3, cpu["blind"], 1e-9)
	require.Regexp(t, `(?s)^(?:[^\n]*\n)*\d+ of \d+ apps use more than they request:\n  `+prefix+`hot@`, out)
	require.Regexp(t, `too few days of history: [^\n]*`+prefix+`new@`, out)
	require.Regexp(t, `no metrics: [^\n]*`+prefix+`blind@`, out)
	require.Empty(t, failedQueries(t, first))
	require.Empty(t, failedQueries(t, second))

	compare := exec.Command(e2e.Program(t, "sigma"), "compare", "--trace", "by-use", "--policy", "current,bestfit", "--orders", "2", "--format", "json")
	compare.Dir = dir
	answer, err := compare.Output()
	require.NoError(t, err)
	require.Equal(t, 2*3, strings.Count(string(answer), `"node_hours"`), "each run has its risk beside it")

	saves := exec.Command(e2e.Program(t, "sigma"), "savings", "--kubeconfig", filepath.Join(c.Dir, "kubeconfig"), "--prometheus", first.URL+","+second.URL, "--format", "json")
	saves.Dir = dir
	answer, err = saves.Output()
	require.NoError(t, err)
	type step struct {
		Cause, Risk, Command string
		Money                *struct{ Mean float64 }
	}
	var bill struct {
		Used  *struct{ CPU, Memory float64 }
		Steps []step
	}
	require.NoError(t, json.Unmarshal(answer, &bill))
	require.NotNil(t, bill.Used)
	usage := slices.IndexFunc(bill.Steps, func(s step) bool { return s.Cause == "usage" })
	require.NotNil(t, bill.Steps[usage].Money, "four weeks are known")
	require.Contains(t, bill.Steps[usage].Risk, "cpu above capacity for ")
	require.Contains(t, bill.Steps[usage].Command, "--usage --prometheus "+first.URL+","+second.URL)

	first.Kill(t)
	second.Kill(t)
	require.Contains(t, snap("again"), "apps count by request", "all days are in files")
}

package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"knative.dev/serving/pkg/apis/autoscaling"

	"github.com/sigma-scheduler/sigma/lab/podspace"
	"github.com/sigma-scheduler/sigma/lab/records"
)

// queueProgram builds queue-proxy, or skips where pods cannot run.
func queueProgram(t *testing.T) string {
	t.Helper()
	if err := lacks(); err != nil {
		if os.Getenv(declared) != "" {
			t.Fatalf("%s is set, and %v", declared, err)
		}
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "queue")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "knative.dev/serving/cmd/queue")
	build.Dir = "../../hack/knative"
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	return program
}

// The real parts together: pods behind queue-proxy, an activator that holds, and Knative's autoscaler, which counts each
// request once. Then a function without a limit dies and is replaced, and nothing is left behind.
func TestKnativeLoop(t *testing.T) {
	program := queueProgram(t)
	t.Run("counted once", func(t *testing.T) { testCounted(t, program) })
	t.Run("learned", func(t *testing.T) {
		r := loopOf(t, program, "cpu", setting{Name: "learned", Limit: 5, Rate: 35})
		assert.Equal(t, r.Requests, r.Codes[http.StatusOK], "%v", r.Codes)
		assert.Zero(t, r.Kills)
		assert.GreaterOrEqual(t, r.Pods[len(r.Pods)-1], 3, "140 a second are too much for two pods: %v", r.Pods)
		assert.Less(t, r.Pods[0], r.Pods[len(r.Pods)-1], "it rises: %v", r.Pods)
		assert.Greater(t, r.mean(), 1.)
	})
	t.Run("default", func(t *testing.T) {
		r := loopOf(t, program, "mem", setting{Name: "default"})
		assert.Positive(t, r.Kills, "nothing limits what is inside: %v", r.Codes)
		assert.Positive(t, r.lost, "a kill loses what is inside: %v", r.Codes)
	})
	left, err := filepath.Glob(podspace.NamedCgroup(podspace.CgroupRoot, "sigma-concurrency-").Dirs()[0] + "*")
	require.NoError(t, err)
	for _, dir := range left {
		assert.NotContains(t, dir, "-"+strconv.Itoa(os.Getpid())+"-", "a cgroup is left")
	}
}

func loopOf(t *testing.T, program, name string, s setting) *loopRun {
	t.Helper()
	list, err := named([]string{name})
	require.NoError(t, err)
	r, err := runLoop(t.Context(), program, list[0], s, 1, 13)
	require.NoError(t, err)
	t.Logf("%+v", r)
	return r
}

// testCounted sends requests to two pods that take one at once each.
func testCounted(t *testing.T, program string) {
	list, err := named([]string{"io"})
	require.NoError(t, err)
	a := newActivator(1)
	defer a.end()
	f := &fleet{queue: program, profile: list[0], limit: 1, activator: a}
	defer func() {
		_, err := f.stop()
		require.NoError(t, err)
	}()
	require.NoError(t, f.scale(t.Context(), 2, 0))
	require.Eventually(t, func() bool { return len(a.ready()) == 2 }, 10*time.Second, time.Millisecond)
	s := setting{Limit: 1}
	k, err := newKPA(a, &s)
	require.NoError(t, err)
	defer k.close()
	client := &http.Client{Transport: a}
	var senders sync.WaitGroup
	end := time.Now().Add(6 * time.Second)
	var mu sync.Mutex
	codes, most := map[int]int{}, int64(0)
	for range 6 { // of which two are inside, and four are held
		senders.Go(func() {
			for time.Now().Before(end) {
				response, err := client.Get("http://web.default/")
				if err != nil {
					t.Error(err)
					return
				}
				_ = response.Body.Close()
				mu.Lock()
				codes[response.StatusCode]++
				for _, b := range a.ready() {
					most = max(most, b.inside.Load())
				}
				mu.Unlock()
			}
		})
	}
	report := time.NewTicker(time.Second)
	defer report.Stop()
	for range 5 {
		k.report(<-report.C)
	}
	said, err := a.ready()[0].pod.stat(t.Context())
	require.NoError(t, err)
	assert.Positive(t, said.RequestCount, "queue-proxy counts")
	assert.Equal(t, said.RequestCount, said.ProxiedRequestCount, "and knows that the activator has counted")
	now := time.Now()
	inside, _, err := k.collector.StableAndPanicConcurrency(revision, now)
	require.NoError(t, err)
	assert.InDelta(t, 6, inside, 1.5, "those that are held count, none twice")
	n, ok := k.wants(now)
	assert.True(t, ok)
	assert.GreaterOrEqual(t, n, 7, "6 ÷ .7")
	senders.Wait()
	assert.Equal(t, map[int]int{http.StatusOK: codes[http.StatusOK]}, codes, "held, not refused")
	assert.Equal(t, int64(1), most)
}

// Settings become what Knative makes of them.
func TestDecider(t *testing.T) {
	for _, x := range []struct {
		s             setting
		metric        string
		target, total float64
	}{
		{setting{}, autoscaling.Concurrency, 70, 100},
		{setting{Limit: 10}, autoscaling.Concurrency, 7, 10},
		{setting{Limit: 10, Rate: 50}, autoscaling.RPS, 35, 50},
		{setting{Limit: 10, Rate: 50, Used: .85}, autoscaling.RPS, 42.5, 50},
	} {
		d := x.s.decider()
		assert.Equal(t, x.metric, d.ScalingMetric)
		assert.InDelta(t, x.target, d.TargetValue, 1e-9)
		assert.InDelta(t, x.total, d.TotalValue, 1e-9)
	}
}

// Arrivals are the same for a seed, at half of the rate first and at all of it in the end.
func TestArrivals(t *testing.T) {
	list := arrivals(1, 1000, 40)
	assert.Equal(t, list, arrivals(1, 1000, 40))
	assert.NotEqual(t, list[:100], arrivals(2, 1000, 40)[:100])
	counts := map[string]float64{}
	for i, at := range list {
		require.True(t, i == 0 || at >= list[i-1])
		switch {
		case at < settling:
			counts["first"]++
		case at >= 20*time.Second:
			counts["last"]++
		default:
			counts["rise"]++
		}
	}
	assert.InEpsilon(t, 5000, counts["first"], .05)
	assert.InEpsilon(t, 7500, counts["rise"], .05)
	assert.InEpsilon(t, 20000, counts["last"], .03)
	wait, stop := list.Pace(0, 0)
	assert.Equal(t, list[0], wait)
	assert.False(t, stop)
	wait, _ = list.Pace(time.Hour, 5)
	assert.Zero(t, wait)
	_, stop = list.Pace(0, uint64(len(list)))
	assert.True(t, stop)
}

// An activator's choices: the first that has room up to a limit of 3, turns above it, and fewer inside without one.
func TestChoose(t *testing.T) {
	choices := func(limit int) (order []int, a *activator) {
		a = newActivator(limit)
		pods := map[*backend]int{}
		for i := range 3 {
			pods[a.add(nil)] = i
		}
		for range 6 {
			b, back := a.choose(t.Context())
			if b == nil {
				order = append(order, -1)
				continue
			}
			_ = back
			order = append(order, pods[b])
		}
		return order, a
	}
	first, a := choices(2)
	assert.Equal(t, []int{0, 0, 1, 1, 2, 2}, first)
	b, _ := a.choose(t.Context())
	assert.Nil(t, b, "there is no room")
	inside, back := func() (*backend, func()) {
		a := newActivator(4)
		for range 2 {
			a.add(nil)
		}
		b, back := a.choose(t.Context())
		for _, b := range a.ready() {
			a.remove(b)
		}
		return b, back
	}()
	back()
	assert.Zero(t, inside.inside.Load(), "room is given back to a pod that has gone")
	turns, _ := choices(4)
	assert.Equal(t, []int{0, 1, 2, 0, 1, 2}, turns)
	_, a = choices(0)
	for _, b := range a.ready() {
		assert.InDelta(t, 2, b.inside.Load(), 1, "of two drawn ones the one with fewer")
	}
}

func TestKnativePage(t *testing.T) {
	r := &knativeResults{
		Loop: &loopResults{Stamp: "made"}, Gate: &gateResults{Stamp: "made", Load: "1", Rounds: []frontCost{{200, 90e-6, 100e-6}, {200, 78e-6, 100e-6}, {1000, 120e-6, 100e-6}}},
		Paper: &paperResults{Stamp: "made", Trials: map[string][]paperStep{}},
	}
	for repeat := 1; repeat <= 3; repeat++ {
		for _, x := range []loopRun{
			{Profile: "cpu", Setting: setting{Name: "default"}, P95: 4, Answered: 100},
			{Profile: "cpu", Setting: setting{Name: "learned", Limit: 4, Rate: 35}, P95: .1 * float64(repeat), Answered: 100},
			{Profile: "mem", Setting: setting{Name: "learned", Limit: 11, Rate: 70}, Answered: 101 - repeat},
			{Profile: "io", Setting: setting{Name: "limit 10", Limit: 10}, P95: 1, PodSeconds: 80, Answered: 100},
			{Profile: "io", Setting: setting{Name: "learned", Limit: 50, Rate: 150}, P95: 1.04, PodSeconds: 30, Answered: 100},
		} {
			x.Repeat, x.Requests, x.Seconds, x.Pods = repeat, 100, 10, []int{1, 2, 8}
			r.Loop.Runs = append(r.Loop.Runs, &x)
		}
	}
	for i := range 40 { // 30 is the best; the last twenty: ten there, ten that fail
		s := paperStep{Limit: 30, Rate: 100}
		if i%2 == 1 {
			s = paperStep{Limit: 50, Rate: 60, Kills: 1}
		}
		r.Paper.Trials["io"] = append(r.Paper.Trials["io"], s)
	}
	text := r.page().String()
	tables, err := records.ParseTables(text)
	require.NoError(t, err)
	reached := map[string]string{}
	for _, row := range tables[0].Rows {
		reached[row[0]+" "+row[1]] = row[2] + " " + row[len(row)-1]
	}
	assert.Equal(t, map[string]string{
		"`cpu` p95 of Knative's default ÷ that of the learned setting, median": "20.0 must",
		"`mem` share of requests that the learned setting answers, the least":  "0.9800 **missed**",
		"`io` pods of the learned setting ÷ those of limit 10, median":         "0.38 aim",
		"`io` p95 of the learned setting ÷ that of limit 10, median":           "1.040 must",
		"gate cpu of a request ÷ that of queue-proxy, 200 a second, median":    "0.84 aim",
		"gate cpu of a request ÷ that of queue-proxy, 1000 a second, median":   "1.20 **missed**",
	}, reached)
	assert.Contains(t, text, "| `io` | 40 | 100.0 | 10 | 30 to 50 | 20 | 20 |")
	assert.Contains(t, text, "1 2 8")
}

func TestKnativeFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--queue= ":                    "--queue is missing",
		"--queue=q --parts=loops":      "--parts loops: want of loop, gate, paper",
		"--queue=q --profiles=threads": "--profiles threads: want of cpu, mem, io",
		"--queue=q --seconds=NaN":      "--seconds NaN: want",
		"--queue=q --trials=3":         "--trials: want 20 or more",
		"--queue=q --repeats=0":        "--repeats, --rounds: want 1 or more",
	} {
		err := execute(t.Context(), append([]string{"knative"}, strings.Fields(args)...), os.Stdout, os.Stderr)
		require.ErrorContains(t, err, want)
	}
}

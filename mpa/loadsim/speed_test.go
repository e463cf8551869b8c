//go:build linux

package loadsim

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// plain is a simple engine: one heap of all events, and each event of a pod visits all its
// requests. It knows processor sharing, quotas, workers, queues and timeouts, the better of
// two pods, and one segment.
type plain struct {
	app    *Service
	rng    *rand.Rand
	now    float64
	events plainEvents
	pods   []*plainPod
	sum    float64
	served int64
}

type plainPod struct {
	cores, quota float64
	inside       []*plainJob // waiting for I/O included
	queue        []*plainJob
	budget, now  float64
	throttled    bool
	version      int
}

type plainJob struct {
	begun, left float64
	pod         *plainPod
	computing   bool
	gone        bool
}

type plainEvent struct {
	at      float64
	kind    int
	job     *plainJob
	pod     *plainPod
	version int
}

const (
	plainArrival = iota
	plainCompute
	plainTimeout
	plainStep
	plainPeriod
	plainLook
)

type plainEvents []plainEvent

func (h *plainEvents) Len() int           { return len(*h) }
func (h *plainEvents) Less(i, j int) bool { return (*h)[i].at < (*h)[j].at }
func (h *plainEvents) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }
func (h *plainEvents) Push(e any)         { *h = append(*h, e.(plainEvent)) }
func (h *plainEvents) Pop() any {
	e := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return e
}

func (e *plain) at(t float64, kind int, job *plainJob, pod *plainPod) {
	version := 0
	if pod != nil {
		version = pod.version
	}
	heap.Push(&e.events, plainEvent{t, kind, job, pod, version})
}

func (e *plain) run(to, rate float64) {
	e.at(e.rng.ExpFloat64()/rate, plainArrival, nil, nil)
	for i, p := range e.pods {
		p.budget = p.quota * period
		e.at(period*float64(i+1)/float64(len(e.pods)), plainPeriod, nil, p)
		for t := look * e.rng.Float64(); t < to; t += to {
			e.at(t, plainLook, nil, p)
		}
	}
	for len(e.events) > 0 && e.events[0].at < to {
		v := heap.Pop(&e.events).(plainEvent)
		e.now = v.at
		switch v.kind {
		case plainArrival:
			e.arrive()
			e.at(e.now+e.rng.ExpFloat64()/rate, plainArrival, nil, nil)
		case plainCompute:
			e.advance(v.job.pod)
			v.job.computing = true
			e.changed(v.job.pod)
		case plainTimeout:
			v.job.gone = true
		case plainStep:
			if v.version == v.pod.version {
				e.advance(v.pod)
				e.changed(v.pod)
			}
		case plainPeriod:
			e.advance(v.pod)
			full := v.pod.quota * period
			v.pod.budget = min(full, v.pod.budget+full)
			v.pod.throttled = v.pod.budget <= 0
			e.at(e.now+period, plainPeriod, nil, v.pod)
			e.changed(v.pod)
		case plainLook:
			e.advance(v.pod)
			if v.pod.budget <= 0 && !v.pod.throttled {
				v.pod.throttled = true
				e.changed(v.pod)
			}
			e.at(e.now+look, plainLook, nil, v.pod)
		}
	}
}

func (e *plain) arrive() {
	p := e.pods[e.rng.IntN(len(e.pods))]
	if o := e.pods[e.rng.IntN(len(e.pods))]; len(o.inside)+len(o.queue) < len(p.inside)+len(p.queue) {
		p = o
	}
	j := &plainJob{begun: e.now, pod: p}
	switch {
	case len(p.inside) < e.app.Workers:
		e.admit(j)
	case len(p.queue) < e.app.Queue:
		p.queue = append(p.queue, j)
	default:
		return
	}
	e.at(e.now+e.app.Timeout, plainTimeout, j, nil)
}

func (e *plain) admit(j *plainJob) {
	j.pod.inside = append(j.pod.inside, j)
	j.left = e.app.phases[0].cpu.draw(e.rng)
	e.at(e.now+e.app.phases[0].wait.draw(e.rng), plainCompute, j, nil)
}

// rate at which each of n requests that compute is served.
func (p *plainPod) rate() (rate float64, n int) {
	for _, j := range p.inside {
		if j.computing {
			n++
		}
	}
	if n == 0 || p.throttled {
		return 0, n
	}
	return min(1, p.cores/float64(n)), n
}

func (e *plain) advance(p *plainPod) {
	rate, n := p.rate()
	d := e.now - p.now
	p.now = e.now
	p.budget -= rate * float64(n) * d
	for _, j := range p.inside {
		if j.computing {
			j.left -= rate * d
		}
	}
}

func (e *plain) changed(p *plainPod) {
	p.inside = slices.DeleteFunc(p.inside, func(j *plainJob) bool {
		if !j.computing || j.left > tiny {
			return false
		}
		if !j.gone {
			e.served++
			e.sum += e.now - j.begun
		}
		return true
	})
	for len(p.queue) > 0 && len(p.inside) < e.app.Workers {
		j := p.queue[0]
		if p.queue = p.queue[1:]; !j.gone {
			e.admit(j)
		}
	}
	p.version++
	if rate, _ := p.rate(); rate > 0 {
		least := math.Inf(1)
		for _, j := range p.inside {
			if j.computing {
				least = min(least, j.left)
			}
		}
		e.at(e.now+least/rate, plainStep, nil, p)
	}
}

// busyApp is the service for measuring speed: I/O, workers, a queue and a timeout.
func busyApp() Service {
	return Service{
		Segments: []Segment{{CPU: Dist{Mean: .01, CV: 1}, Wait: Dist{Mean: .01, CV: .5}}},
		Workers:  64, Queue: 200, Timeout: 2,
	}
}

// busyPods have a core each on average, of two, and load .7 of that.
func busyPods(n int, quantum float64) (pods []*Pod, rate float64) {
	for range n {
		pods = append(pods, &Pod{Cores: 2, Quota: 1, Workers: 64, Quantum: quantum})
	}
	return pods, .7 * float64(n) / .01
}

func runPlain(tb testing.TB, n int, seconds float64) *plain {
	tb.Helper()
	app := busyApp()
	require.NoError(tb, app.Prepare())
	e := &plain{app: &app, rng: rand.New(rand.NewPCG(1, 1))}
	for range n {
		e.pods = append(e.pods, &plainPod{cores: 2, quota: 1})
	}
	_, rate := busyPods(n, 0)
	e.run(seconds, rate)
	return e
}

// The twin simulates the same system, with the same mean latency.
func TestPlain(t *testing.T) {
	twin := runPlain(t, 8, 400)
	pods, rate := busyPods(8, 0)
	e := steady(t, busyApp(), rate, 1, pods...)
	e.Run(400)
	assert.InEpsilon(t, twin.served, e.count.Served, .02)
	assert.InEpsilon(t, twin.sum/float64(twin.served), e.All.Mean(), .03)
}

// TestSpeed writes how many requests a CPU-second simulates; see hack/bench.sh.
func TestSpeed(t *testing.T) {
	path := os.Getenv("SIGMA_BENCH")
	if path == "" {
		t.Skip("SIGMA_BENCH, the file to write the table to, is not set; see `make mpa-bench`")
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	fmt.Fprintf(out, "\n| simulated pods | requests/CPU-s | twin's | ratio (least … most) | in turns of 10 ms |\n|---:|---:|---:|---:|---:|\n")
	for _, n := range []int{1, 8, 64} {
		var fast, slow, turns, ratio []float64
		for round := range 5 {
			simulated := func(quantum float64) float64 {
				pods, rate := busyPods(n, quantum)
				e := steady(t, busyApp(), rate, uint64(round), pods...)
				begin := cputime.Process()
				e.Run(4e6 / rate)
				return float64(e.count.Served) / (cputime.Process() - begin)
			}
			fast, turns = append(fast, simulated(0)), append(turns, simulated(.01))
			begin := cputime.Process()
			twin := runPlain(t, n, 3e5/(.7*float64(n)/.01))
			slow = append(slow, float64(twin.served)/(cputime.Process()-begin))
			ratio = append(ratio, fast[round]/slow[round])
		}
		fmt.Fprintf(out, "| %d | %.0f | %.0f | **%.1f** (%.1f … %.1f) | %.0f |\n",
			n, median(fast), median(slow), median(ratio), slices.Min(ratio), slices.Max(ratio), median(turns))
		if n == 8 {
			require.Greater(t, median(fast), 3e6, "requests per CPU-second")
		}
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

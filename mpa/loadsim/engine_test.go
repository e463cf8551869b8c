package loadsim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// steady is an engine with pods that are ready from the start and arrivals at one rate.
func steady(tb testing.TB, app Service, rate float64, seed uint64, pods ...*Pod) *Engine {
	tb.Helper()
	require.NoError(tb, app.Prepare())
	e := New(&app, seed, func(float64) (float64, float64) { return rate, math.Inf(1) })
	for _, p := range pods {
		e.Open(p)
	}
	return e
}

// theory adds a line to the table of docs/mpa-validation.md; see lab/records/simcheck.
func theory(t *testing.T, what string, want, got float64) {
	t.Helper()
	path := os.Getenv("SIGMA_THEORY")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = fmt.Fprintf(f, "| %s | %.4g | %.4g | %+.2f %% |\n", what, want, got, 100*(got/want-1))
	require.NoError(t, errors.Join(err, f.Close()))
}

// erlangC is the mean wait of M/M/c in units of the mean service time: Erlang's C
// formula ÷ (c·(1 − ρ)).
func erlangC(c int, rho float64) float64 {
	a := float64(c) * rho
	term, sum := 1.0, 0.0
	for k := range c {
		sum += term
		term *= a / float64(k+1)
	}
	wait := term / (1 - rho)
	return wait / (sum + wait) / (float64(c) * (1 - rho))
}

// First come, first served at c workers of a core each.
func TestErlangC(t *testing.T) {
	for _, c := range []int{1, 2, 4, 16} {
		for _, rho := range []float64{.7, .9} {
			t.Run(fmt.Sprintf("c=%d rho=%v", c, rho), func(t *testing.T) {
				app := Service{Segments: []Segment{{CPU: Dist{Mean: .01, CV: 1}}}, Workers: c, Queue: -1}
				e := steady(t, app, rho*float64(c)/.01, 1, &Pod{Cores: float64(c), Workers: c})
				e.Run(4_000_000 * .01 / (rho * float64(c)))
				wait := e.count.Waited / float64(e.count.Served) / .01
				assert.InEpsilon(t, erlangC(c, rho), wait, .02)
				theory(t, fmt.Sprintf("M/M/%d, load %v: mean wait ÷ mean service", c, rho), erlangC(c, rho), wait)
			})
		}
	}
}

// One processor shared: the mean time in the system is S ÷ (1 − ρ), whatever the
// distribution of the demand.
func TestProcessorSharing(t *testing.T) {
	for _, cv := range []float64{0, 1, 3} {
		for _, rho := range []float64{.5, .8} {
			t.Run(fmt.Sprintf("cv=%v rho=%v", cv, rho), func(t *testing.T) {
				app := Service{Segments: []Segment{{CPU: Dist{Mean: .01, CV: cv}}}, Queue: -1}
				e := steady(t, app, rho/.01, 2, &Pod{Cores: 1})
				e.Run(4_000_000 * .01)
				assert.InEpsilon(t, .01/(1-rho), e.All.Mean(), .02)
				theory(t, fmt.Sprintf("M/G/1-PS, cv %v, load %v: mean seconds inside", cv, rho), .01/(1-rho), e.All.Mean())
			})
		}
	}
}

// The time-averaged number of requests inside is the rate times the mean time, and no
// request is lost from the count.
func TestLittle(t *testing.T) {
	app := Service{
		Segments: []Segment{{CPU: Dist{Mean: .01, CV: 1}, Wait: Dist{Mean: .02, CV: 2}}, {CPU: Dist{Mean: .005}}},
		Workers:  32, Queue: 50, Timeout: 1, Retries: 1,
	}
	e := steady(t, app, 180, 3, &Pod{Cores: 2, Workers: 32}, &Pod{Cores: 2, Quota: 1.5, Workers: 32})
	inside, samples := 0.0, 0
	for now := .005; now < 20_000; now += .05 {
		e.Run(now)
		for _, p := range e.pods {
			inside += float64(p.inside + p.Waiting())
		}
		samples++
	}
	rate := float64(e.count.Served) / e.now
	assert.InEpsilon(t, rate*e.All.Mean(), inside/float64(samples), .02)
	assert.Zero(t, e.count.Failed)
	theory(t, "Little's law, two pods with I/O, workers and a quota: mean number inside", rate*e.All.Mean(), inside/float64(samples))
}

// Every request that came is answered, failed, or under way.
func TestConservation(t *testing.T) {
	for seed := range uint64(40) {
		d := rand.New(rand.NewPCG(seed, 9))
		app := Service{
			Segments: []Segment{{CPU: Dist{Mean: .02, CV: 1}, Wait: Dist{Mean: .01 * float64(d.IntN(3)), CV: 1}}},
			Workers:  d.IntN(5), Queue: d.IntN(10) - 1, Timeout: float64(d.IntN(3)) * .2, Retries: d.IntN(3),
		}
		e := steady(t, app, 40+300*d.Float64(), seed, &Pod{Cores: 1, Workers: app.Workers}, &Pod{Cores: 2, Quota: 1, Workers: app.Workers})
		for now := 1.0; now < 60; now++ {
			e.Run(now)
			if d.IntN(5) == 0 {
				e.Kill(int32(d.IntN(2)))
			}
			under := int64(0)
			for _, j := range e.jobs {
				if j.state == resting || j.state != unused && !j.gone {
					under++
				}
			}
			require.Equal(t, e.count.Arrived, e.count.Served+e.count.Failed+under, "seed %d, second %v", seed, now)
		}
	}
}

// A quota of half a core lets a single request run at full speed until the kernel finds, at
// a check every 4 ms from the 2nd on, that its 50 ms are spent, and again when the next
// period begins. The excess is paid back: the second period has 48 … 50 ms.
func TestQuota(t *testing.T) {
	p := &Pod{Cores: 4, Quota: .5}
	p.Advance(0)
	p.work.push(event{at: .12})
	p.update()
	var times []float64
	for len(p.work) > 0 {
		n := p.next()
		p.Advance(n)
		if p.work[0].at <= p.service+tiny {
			p.work.pop()
		}
		p.update()
		times = append(times, math.Round(n*1000)/1000)
	}
	assert.Equal(t, []float64{.05, .1, .15, .2, .22}, times)
	assert.InDelta(t, .12, p.busy, 1e-9)
}

// On average no more than the quota is spent.
func TestQuotaOverTime(t *testing.T) {
	app := Service{Segments: []Segment{{CPU: Dist{Mean: .013, CV: 1}}}, Queue: -1, Timeout: .5}
	p := &Pod{Cores: 4, Quota: .7}
	e := steady(t, app, 200, 4, p)
	e.Run(500)
	assert.InEpsilon(t, .7*500, p.busy, .001)
}

func TestSameSeedSameBytes(t *testing.T) {
	run := func(seed uint64) (Counters, Latencies) {
		app := Service{Segments: []Segment{{CPU: Dist{Mean: .01, CV: 2}, Wait: Dist{Mean: .01, CV: 1}}}, Queue: 20, Workers: 8, Timeout: .2, Retries: 2}
		e := steady(t, app, 150, seed, &Pod{Cores: 1, Workers: 8}, &Pod{Cores: 1, Quota: .8, Workers: 8})
		e.Run(300)
		return e.count, e.All
	}
	count, all := run(5)
	again, allAgain := run(5)
	assert.Equal(t, count, again)
	assert.Equal(t, all, allAgain)
	other, _ := run(6)
	assert.NotEqual(t, count, other)
}

// Three requests of 25 ms that come at once, in turns of 10 ms on one core: each has
// two and a half turns.
func TestTurns(t *testing.T) {
	app := Service{Segments: []Segment{{CPU: Dist{Mean: 1}}}, Queue: -1, Parallelism: 1, Quantum: .01}
	one := Request{Wait: []float64{0}, CPU: []float64{.025}}
	took, err := Serve(app, app.Parallelism, []Request{one, one, one}, 0)
	require.NoError(t, err)
	assert.InDeltaSlice(t, []float64{.065, .07, .075}, took, 1e-9)
	// Two cores: the third has a core to itself after 20 ms.
	app.Parallelism = 2
	took, err = Serve(app, app.Parallelism, []Request{one, one, one}, 0)
	require.NoError(t, err)
	assert.InDeltaSlice(t, []float64{.035, .04, .04}, took, .0051)
	// An idle pod wakes once.
	app.Wake = .002
	later := one
	later.At = 1
	took, err = Serve(app, 2, []Request{one, later}, 0)
	require.NoError(t, err)
	assert.InDeltaSlice(t, []float64{.027, .027}, took, 1e-9)
	_, err = Serve(app, 2, []Request{later, one}, 0)
	assert.ErrorContains(t, err, "requests[1]")
}

// In turns with constant demands one core is first come, first served: M/D/1 waits
// load ÷ (2·(1 − load)) services in the mean.
func TestTurnsOverTime(t *testing.T) {
	app := Service{Segments: []Segment{{CPU: Dist{Mean: .01}}}, Queue: -1}
	e := steady(t, app, 80, 7, &Pod{Cores: 1, Quantum: .02})
	e.Run(20_000)
	assert.InEpsilon(t, .01*(1+.8/(2*(1-.8))), e.All.Mean(), .02)
	theory(t, "M/D/1 in turns, load 0.8: mean seconds inside", .01*(1+.8/(2*(1-.8))), e.All.Mean())
}

func BenchmarkRequests(b *testing.B) {
	for _, pods := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			app := Service{Segments: []Segment{{CPU: Dist{Mean: .01, CV: 1}}}, Queue: 100, Timeout: 5}
			var list []*Pod
			for range pods {
				list = append(list, &Pod{Cores: 2, Quota: 1})
			}
			e := steady(b, app, .6*float64(pods)/.01, 1, list...)
			b.ResetTimer()
			e.Run(float64(b.N) / (.6 * float64(pods) / .01))
			b.ReportMetric(float64(e.count.Served)/b.Elapsed().Seconds()/1e6, "Mreq/s")
		})
	}
}

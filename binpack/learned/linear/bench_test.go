//go:build unix

package linear

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// benchLinear is a policy of few features as training finds them under K1, and
// one of more with the clock.
func benchLinear(b testing.TB, know binpack.Knowledge) *Policy {
	b.Helper()
	spec := learned.Spec{
		Knowledge:  know,
		Features:   []string{"util", "closing", "slot"},
		Weights:    []float64{-.01, -.56, -.87},
		Parameters: map[string]float64{"eta": 3, "z": .1},
	}
	if know == binpack.K1Clock {
		spec.Features = []string{"util", "full", "frag", "close", "closing", "slot", "open", "singl"}
		spec.Weights = []float64{-.01, -.2, .3, -.1, -.56, -.87, .05, .07}
		spec.Parameters = map[string]float64{"eta": 3, "z": .1, "q": 1, "alpha": 1.2}
	}
	p, err := New(spec)
	require.NoError(b, err)
	return p
}

// A treadmill replays a trace without deletes on one state, item by item, and
// starts again at its end.
type treadmill struct {
	tr     *trace.Trace
	s      *binpack.State
	scorer binpack.Scorer
	plain  func(item binpack.Item) int32 // decides instead of scorer, when set
	know   binpack.Knowledge
	event  int
	item   int32
	most   int // machines in use
}

func newTreadmill(tr *trace.Trace, know binpack.Knowledge, scorer func(*binpack.State) binpack.Scorer) *treadmill {
	p := &treadmill{tr: tr, s: binpack.NewState(tr.Instance), know: know}
	p.s.Known = knownOf(tr, know)
	p.scorer = scorer(p.s)
	return p
}

// next places the next item that fits.
func (p *treadmill) next() {
	for {
		if p.event == len(p.tr.Events) {
			known := p.s.Known
			p.s.Reset()
			p.s.Known = known
			p.event, p.item = 0, 0
		}
		e := p.tr.Events[p.event]
		q := p.tr.Requests[e.Request]
		if p.item == 0 {
			if p.know.Clock() {
				p.s.Known.Elapsed = float64(p.event) / float64(len(p.tr.Events))
			}
			p.s.Arrive(q.App, q.Count)
		}
		item := binpack.Item{App: q.App}
		if p.item++; p.item == q.Count {
			p.event, p.item = p.event+1, 0
		}
		m := p.choose(item)
		if m < 0 {
			continue // nothing takes it
		}
		p.s.Place(item, m, nil)
		p.most = max(p.most, p.s.Active())
		return
	}
}

func (p *treadmill) choose(item binpack.Item) int32 {
	if p.plain != nil {
		return p.plain(item)
	}
	m, err := p.s.Choose(p.scorer, item)
	if err != nil {
		return -1
	}
	return m
}

// rewind goes to an event, from the start.
func (p *treadmill) rewind(event int) {
	plain := p.plain
	p.plain = nil
	known := p.s.Known
	p.s.Reset()
	p.s.Known = known
	p.event, p.item = 0, 0
	for p.event < event {
		p.next()
	}
	p.plain = plain
}

// benchTraces are `large`, and a fixed fleet of 5,000 machines, 4.7 times the
// volume of its four times as many apps.
func benchTraces(b testing.TB) map[int]*trace.Trace {
	b.Helper()
	large, err := generate.Generate("large", 1, nil)
	require.NoError(b, err)
	fixed, err := generate.Generate("fixed", 1, map[string]string{"scale": "4"})
	require.NoError(b, err)
	fixed.Instance.Machines = slices.Clone(fixed.Instance.Machines)
	fixed.Instance.Machines[0].Count = 5000
	return map[int]*trace.Trace{300: large, 5000: fixed}
}

// BenchmarkLinear places items one by one: an operation is one decision and its
// booking. The twin computes every feature from scratch and shows what the caches
// save; it is slow, so it starts from an empty fleet and is best run with
// -benchtime 200x. The CPU time is that of the process.
func BenchmarkLinear(b *testing.B) {
	traces := benchTraces(b)
	for _, machines := range []int{300, 5000} {
		tr := traces[machines]
		for _, bench := range []struct {
			name   string
			know   binpack.Knowledge
			scorer func(p *Policy, s *binpack.State) binpack.Scorer
		}{
			{"scorer", binpack.K1, func(p *Policy, s *binpack.State) binpack.Scorer { return p.Scorer(s) }},
			{"clock", binpack.K1Clock, func(p *Policy, s *binpack.State) binpack.Scorer { return p.Scorer(s) }},
			{"twin", binpack.K1, func(p *Policy, s *binpack.State) binpack.Scorer { return newTwin(p, s) }},
		} {
			b.Run(fmt.Sprintf("machines=%d/%s", machines, bench.name), func(b *testing.B) {
				p := benchLinear(b, bench.know)
				run := newTreadmill(tr, bench.know, func(s *binpack.State) binpack.Scorer { return bench.scorer(p, s) })
				if bench.name != "twin" { // once through, so that all memory is there
					for run.next(); run.event < len(tr.Events); run.next() {
					}
				}
				b.ReportAllocs()
				n, before := 0, cputime.Process()
				for b.Loop() {
					run.next()
					n++
				}
				b.ReportMetric(float64(n)/(cputime.Process()-before), "placements/cpu-s")
				b.ReportMetric(float64(run.most), "machines")
			})
		}
	}
}

// TestLinearAllocatesNothing: once the memory is there, a decision takes none.
func TestLinearAllocatesNothing(t *testing.T) {
	tr, err := generate.Generate("large", 1, map[string]string{"scale": ".2"})
	require.NoError(t, err)
	for _, know := range []binpack.Knowledge{binpack.K1, binpack.K1Clock} {
		run := newTreadmill(tr, know, benchLinear(t, know).Scorer)
		for run.next(); run.event < len(tr.Events); run.next() {
		}
		require.Zero(t, testing.AllocsPerRun(800, func() { run.next() }))
	}
}

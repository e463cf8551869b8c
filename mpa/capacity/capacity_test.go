package capacity

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exact is the window of a network at a limit that is always full.
func exact(m Network, n int, seconds float64) Window {
	x := m.Throughput(n)
	return Window{
		Time: time.Unix(int64(n), 0).UTC(), Length: Some(seconds), Limit: Some(float64(n)), Inside: Some(float64(n)), Answered: Some(x * seconds),
		Failed: Some(0), CPU: Some(x * m.demandAt(float64(n)) * seconds), Quota: Some(m.Cores),
	}
}

func draw(seed uint64) Network {
	rng := rand.New(rand.NewPCG(seed, 0))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, rng.Float64()) }
	m := Network{Demand: between(.0005, .05), Cores: between(.1, 4)}
	m.Wait = m.Demand / m.Cores * between(.5, 100)
	if rng.IntN(2) == 0 {
		m.Contention = between(.001, .1)
	}
	return m
}

// Exact windows give demand, wait and contention back within 3 %.
func TestLawRecovers(t *testing.T) {
	for seed := range uint64(1000) {
		m := draw(seed)
		knee, _ := m.Peak(310, .97)
		l, err := New("law", Settings{Min: 1, Max: 310, Initial: 1, Noise: 1e-6})
		require.NoError(t, err)
		for _, n := range []int{1, max(2, knee/2), max(3, knee)} {
			l.Tell(exact(m, n, 1))
		}
		c, ok := l.Estimate()
		require.True(t, ok)
		require.InEpsilon(t, m.Demand, c.Demand.Value, .03, "%d: %+v", seed, m)
		require.InEpsilon(t, m.Wait, c.Wait.Value, .03, "%d: %+v", seed, m)
		if m.Contention > 0 {
			require.InEpsilon(t, m.Contention, c.Contention.Value, .03, "%d: %+v", seed, m)
		} else {
			require.InDelta(t, 0, c.Contention.Value, 1e-4)
		}
		best, most := 0., m.Throughput(c.Limit)
		for n := 1; n <= 310; n++ {
			best = max(best, m.Throughput(n))
		}
		require.GreaterOrEqual(t, most, .96*best, "%d: limit %d of %+v", seed, c.Limit, m)
	}
}

// The table of the network: q = 1, D = 1, Z = 1 is M/M/1//N, whose throughput at 1 is ½, at
// 2 is 4 ÷ 5: weights 1/2, 1, 1 of k = 0, 1, 2 at the processor.
func TestNetwork(t *testing.T) {
	m := Network{Demand: 1, Wait: 1, Cores: 1}
	require.InDelta(t, .5, m.Throughput(1), 1e-12)
	require.InDelta(t, .8, m.Throughput(2), 1e-12)
	require.InDelta(t, 1, m.Throughput(300), 1e-9)
	require.InDelta(t, 1, m.waitFor(2, .8), 1e-6)
	// Two cores: weights 1/2, 1, 1/2; (1 · 1 + ½ · 2) ÷ 2 = 1.
	m.Cores = 2
	require.InDelta(t, 1, m.Throughput(2), 1e-12)
	// A quota of a quarter core serves a lone request in 4 s.
	m = Network{Demand: 1, Cores: .25}
	require.InDelta(t, .25, m.Throughput(1), 1e-12)
	require.InDelta(t, .25, m.Throughput(9), 1e-12)
	// Measured with a real server: 4 ms and 50 ms at .25 cores gave 17.8 answers a second
	// at 1, 58.6 at 4.
	m = Network{Demand: .004, Wait: .05, Cores: .25}
	require.InDelta(t, 15.2, m.Throughput(1), .1)
	require.InDelta(t, 47, m.Throughput(4), 2)
}

// drive lets a learner run on a network with noise and a memory that is proportional to the
// limit; it returns the limits.
func drive(t *testing.T, name string, s Settings, seed uint64, unit, noise float64) (limits []int, last Capacity) {
	t.Helper()
	l, err := New(name, s)
	require.NoError(t, err)
	m := draw(seed)
	m.Demand, m.Wait = m.Demand*unit, m.Wait*unit
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range 30 {
		n := l.Next()
		limits = append(limits, n)
		w := exact(m, n, 10*unit)
		w.Time = time.Unix(int64(i), 0).UTC()
		w.Answered.Number *= math.Exp(noise * rng.NormFloat64())
		w.Memory, w.MemoryLimit = Some(.1+.005*float64(n)), Some(1.)
		if w.Memory.Number > 1 {
			w.Memory.Number, w.Failed = 1, w.Answered
		}
		l.Tell(w)
	}
	last, _ = l.Estimate()
	return limits, last
}

// Other units of time, and a demand and a quota that grow alike, change no limit.
func TestUnits(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s := DefaultSettings()
			for seed := range uint64(20) {
				want, a := drive(t, name, s, seed, 1, .05)
				got, b := drive(t, name, s, seed, 8, .05)
				require.Equal(t, want, got, "time")
				require.InEpsilon(t, a.Rate.Value, 8*b.Rate.Value, 1e-6)
			}
			for seed := range uint64(20) {
				// Cores that are whole stay whole: a lone request uses one at most.
				m := draw(seed)
				l, err := New(name, s)
				require.NoError(t, err)
				k, err := New(name, s)
				require.NoError(t, err)
				m.Cores = min(m.Cores, .25)
				twice := m
				twice.Cores, twice.Demand = 4*m.Cores, 4*m.Demand
				for range 20 {
					require.Equal(t, l.Next(), k.Next())
					l.Tell(exact(m, l.Next(), 10))
					k.Tell(exact(twice, k.Next(), 10))
				}
			}
		})
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	for _, name := range Names() {
		s := DefaultSettings()
		s.Seed = 7
		a, ca := drive(t, name, s, 3, 1, .1)
		b, cb := drive(t, name, s, 3, 1, .1)
		require.Equal(t, a, b, name)
		x, err := json.Marshal(ca)
		require.NoError(t, err)
		y, err := json.Marshal(cb)
		require.NoError(t, err)
		require.Equal(t, x, y, name)
	}
}

// Noise in what is measured of the memory never lets the guard allow more.
func TestNoiseTightensTheGuard(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for range 1000 {
		rest, each := .5*rng.Float64(), .05*rng.Float64()
		var quiet, loud Guard
		spread := .2 * rng.Float64()
		for i := range 8 {
			n := 1 + rng.IntN(20)
			w := Window{
				Length: Some(1), Limit: Some(float64(n)), Inside: Some(float64(n)), Answered: Some(100), Failed: Some(0),
				Memory: Some(min(1, rest+each*float64(n))), MemoryLimit: Some(1.),
			}
			quiet.Tell(w)
			exact := w.Memory.Number
			// The same twice, as much above as below.
			off := spread * math.Abs(rng.NormFloat64())
			for _, sign := range []float64{-1, 1} {
				w.Memory.Number = max(0, min(1.2, exact*(1+sign*off)))
				loud.Tell(w)
			}
			require.LessOrEqual(t, loud.Most(), quiet.Most(), i)
		}
	}
}

func TestGuard(t *testing.T) {
	tell := func(g *Guard, limit, inside, share, failed float64) {
		g.Tell(Window{
			Length: Some(1), Limit: Some(limit), Inside: Some(inside), Answered: Some(100), Failed: Some(failed), Memory: Some(share), MemoryLimit: Some(1.),
		})
	}
	var g Guard
	require.True(t, math.IsInf(g.Most(), 1))
	require.Empty(t, g.Reason())
	tell(&g, 4, 4, .4, 0) // 4 · .85 ÷ .4
	require.InDelta(t, 8, g.Most(), 0)
	tell(&g, 8, 8, .6, 0) // 8 · .85 ÷ .6 = 11.3: the window at 4 is not near 8
	require.InDelta(t, 11, g.Most(), 0)
	tell(&g, 8, 8, .55, 0) // the largest counts
	require.InDelta(t, 11, g.Most(), 0)
	require.Contains(t, g.Reason(), "7.5 % of the memory limit")
	tell(&g, 10, 10, .5, 60) // failed: 7
	require.InDelta(t, 7, g.Most(), 0)
	require.Contains(t, g.Reason(), "failed at 10")
	tell(&g, 7, 7, .2, 0)
	require.InDelta(t, 7, g.Most(), 0, "until drift")
	g.Drift()
	require.True(t, math.IsInf(g.Most(), 1))
	// Nothing can be said where the memory limit is missing, or nothing is inside.
	g.Tell(Window{Length: Some(1), Limit: Some(5), Inside: Some(5), Answered: Some(1), Memory: Some(5)})
	require.True(t, math.IsInf(g.Most(), 1))
	tell(&g, 5, 0, .5, 0)
	require.InDelta(t, 1, g.Most(), 0)
}

// A memory that ends at a limit: no learner behind the guard kills the pod, and the default
// comes near the limit.
func TestNoLearnerKills(t *testing.T) {
	for _, name := range Names() {
		l, err := New(name, Settings{Min: 1, Max: 310, Initial: 4})
		require.NoError(t, err)
		m := Network{Demand: .001, Wait: .1, Cores: 1}
		for range 200 {
			n := l.Next()
			require.LessOrEqual(t, n, 17, name) // .1 + 17 · .05 < 1
			w := exact(m, n, 10)
			w.Memory, w.MemoryLimit = Some(.1+.05*float64(n)), Some(1.)
			l.Tell(w)
		}
		if c, _ := l.Estimate(); name == Default {
			require.GreaterOrEqual(t, c.Limit, 14)
			require.Equal(t, c.Limit, l.Next())
			require.InDelta(t, .057, c.MemoryPerRequest.High, .002) // (.1 + 15 · .05) ÷ 15
		}
	}
}

// After a change the default finds the new limit within three trials.
func TestWalkReopens(t *testing.T) {
	l, err := New(Default, DefaultSettings())
	require.NoError(t, err)
	m := Network{Demand: .004, Wait: .2, Cores: 1}
	run := func(trials int) int {
		for range trials {
			l.Tell(exact(m, l.Next(), 10))
		}
		c, _ := l.Estimate()
		return c.Limit
	}
	before := run(20)
	best, _ := m.Peak(310, .95)
	require.GreaterOrEqual(t, before, best)
	require.LessOrEqual(t, before, 2*best)
	m.Demand /= 3
	after := run(3)
	_, top := m.Peak(310, .97)
	require.GreaterOrEqual(t, m.Throughput(after), .95*top)
	require.Greater(t, after, before)
}

func TestTrial(t *testing.T) {
	window := func(i int, rate float64) Window {
		return Window{
			Time: time.Unix(int64(i), 0), Length: Some(1), Limit: Some(8), Inside: Some(8), Answered: Some(rate), Failed: Some(0), CPU: Some(.2), Quota: Some(.25),
			Memory: Some(100 + rate), MemoryLimit: Some(1000),
		}
	}
	tr := Trial{Longest: 10 * time.Second}
	// 100 and 101: half of the interval is 12.7 · .707 ÷ √2 = 6.35 of 100.5.
	_, done, err := tr.Add(window(1, 100))
	require.NoError(t, err)
	require.False(t, done)
	_, done, _ = tr.Add(window(2, 101))
	require.False(t, done)
	w, done, err := tr.Add(window(3, 100)) // 4.3 · .577 ÷ √3 = 1.43 of 100.3: below 3 %
	require.NoError(t, err)
	require.True(t, done)
	require.InDelta(t, 301, w.Answered.Number, 0)
	require.InDelta(t, 3, w.Length.Number, 0)
	require.InDelta(t, 8, w.Inside.Number, 0)
	require.InDelta(t, .6, w.CPU.Number, 1e-12)
	require.InDelta(t, 201, w.Memory.Number, 0)
	// Loud ones end at the longest time.
	for i := range 10 {
		_, done, err = tr.Add(window(10+i, 100+60*float64(i%2)))
		require.NoError(t, err)
		require.Equal(t, i == 9, done)
	}
	// Another limit begins a trial, and so does time that runs back; failures end at once.
	_, _, _ = tr.Add(window(30, 100))
	other := window(31, 100)
	other.Limit = Some(9)
	_, _, _ = tr.Add(other)
	require.Len(t, tr.rates, 1)
	other.Time = time.Unix(5, 0)
	_, _, _ = tr.Add(other)
	require.Len(t, tr.rates, 1)
	other.Time, other.Failed = time.Unix(6, 0), Some(50)
	_, done, _ = tr.Add(other)
	require.True(t, done)
}

func TestRefusedWindows(t *testing.T) {
	sound := Window{
		Length: Some(1), Limit: Some(8), Inside: Some(8), Answered: Some(10), Failed: Some(0), CPU: Some(.2), Quota: Some(.25), Memory: Some(1), MemoryLimit: Some(10),
	}
	require.NoError(t, sound.Check())
	for field, spoil := range map[string]func(w *Window){
		"length":   func(w *Window) { w.Length = Some(0) },
		"limit":    func(w *Window) { w.Limit = Some(2.5) },
		"inside":   func(w *Window) { w.Inside = Some(11) },
		"answered": func(w *Window) { w.Answered = Some(math.NaN()) },
		"failed":   func(w *Window) { w.Failed = Some(-1) },
		"cpu":      func(w *Window) { w.CPU = Some(1) },
		"quota":    func(w *Window) { w.Quota = Some(math.Inf(1)) },
		"memory":   func(w *Window) { w.Memory = Some(13) },
	} {
		w := sound
		spoil(&w)
		require.ErrorContains(t, w.Check(), field+":", field)
	}
	missing := Window{Length: Some(1)}
	require.NoError(t, missing.Check())
	unmeasured := Window{}
	require.ErrorContains(t, unmeasured.Check(), "length: it is missing")
	for name, s := range map[string]Settings{
		"min:": {Max: 5}, "max:": {Min: 5, Max: 4}, "initial:": {Min: 2, Max: 4, Initial: 1}, "noise:": {Min: 1, Max: 4, Initial: 1, Noise: 2},
		"grid[1]:": {Min: 1, Max: 4, Initial: 1, Grid: []int{2, 2}},
	} {
		_, err := New(Default, s)
		require.ErrorContains(t, err, name)
	}
	_, err := New("oracle", DefaultSettings())
	require.ErrorContains(t, err, `unknown learner "oracle": there are law+walk, law,`)
}

// Without a quota the law has nothing to say; the default walks by throughput alone.
func TestWithoutQuota(t *testing.T) {
	m := Network{Demand: .004, Wait: .05, Cores: .25}
	for _, name := range []string{"law", Default} {
		l, err := New(name, Settings{Min: 1, Max: 310, Initial: 1})
		require.NoError(t, err)
		for range 30 {
			w := exact(m, l.Next(), 10)
			w.Quota = Some(0)
			l.Tell(w)
		}
		c, ok := l.Estimate()
		require.Equal(t, name == Default, ok)
		if ok {
			require.GreaterOrEqual(t, m.Throughput(c.Limit), .9*m.Cores/m.Demand)
			require.Contains(t, c.Reason, "not known")
		}
	}
}

func TestSize(t *testing.T) {
	l, err := New("law", Settings{Min: 1, Max: 310, Initial: 8})
	require.NoError(t, err)
	m := Network{Demand: .004, Wait: .05, Cores: .25}
	l.Tell(exact(m, 2, 100))
	c, ok := l.Estimate()
	require.True(t, ok)
	twice, err := c.Size(.5, 310)
	require.NoError(t, err)
	require.InEpsilon(t, 2*c.Rate.Value, twice.Rate.Value, .05)
	require.Greater(t, twice.Limit, c.Limit)
	_, err = (&Capacity{}).Size(1, 10)
	require.ErrorContains(t, err, "not known")
}

func FuzzLearners(f *testing.F) {
	f.Add(uint64(1), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add(uint64(2), []byte{255, 0, 255, 0, 7, 7, 7, 7, 255, 255, 0, 0})
	values := []float64{math.NaN(), math.Inf(1), -1, 0, 1e-9, .1, .25, 1, 2, 4, 10, 100, 310, 1e6, 1e30}
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		s := Settings{Min: 1 + int(seed%5), Max: 5 + int(seed%400), Initial: 5, Seed: seed}
		for _, name := range Names() {
			l, err := New(name, s)
			require.NoError(t, err)
			guard := &l.(*guarded).guard
			for i := 0; i+9 <= len(data); i += 9 {
				v := func(k int) Value {
					b := int(data[i+k])
					if b < len(values) {
						return Some(values[b])
					}
					return Value{float64(b-len(values)) / 3, b%7 != 0}
				}
				w := Window{
					Time: time.Unix(int64(i), 0), Length: v(0), Limit: v(1), Inside: v(2), Answered: v(3), Failed: v(4), CPU: v(5), Quota: v(6), Memory: v(7), MemoryLimit: v(8),
				}
				if data[i+1]%2 == 0 { // what it asked for, and sound
					w.Limit, w.Inside, w.Length, w.Quota = Some(float64(l.Next())), Some(float64(l.Next())), Some(1), Some(1)
				}
				l.Tell(w)
				n := l.Next()
				require.GreaterOrEqual(t, n, s.Min, name)
				require.LessOrEqual(t, n, s.Max, name)
				require.LessOrEqual(t, float64(n), max(float64(s.Min), guard.Most()), name)
				if c, ok := l.Estimate(); ok {
					require.GreaterOrEqual(t, c.Limit, s.Min, name)
					require.LessOrEqual(t, c.Limit, s.Max, name)
					require.LessOrEqual(t, float64(c.Limit), max(float64(s.Min), guard.Most()), name)
					for _, x := range []float64{c.Rate.Value, c.Demand.Value, c.Wait.Value, c.Contention.Value} {
						require.False(t, math.IsNaN(x) || math.IsInf(x, 0) || x < 0, "%s: %+v", name, c)
					}
				}
			}
		}
	})
}

func ExampleNew() {
	l, _ := New(Default, Settings{Min: 1, Max: 310, Initial: 4})
	pod := Network{Demand: .004, Wait: .05, Cores: .25} // what is to be found
	for range 3 {
		l.Tell(exact(pod, l.Next(), 30))
	}
	c, _ := l.Estimate()
	fmt.Printf("limit %d, %.0f answers a second: %s\n", c.Limit, c.Rate.Value, c.Reason)
	// Output: limit 8, 62 answers a second: frozen: 4 ms of cpu and 50 ms of waiting a request
}

// A guard lets a pod take the share of its memory that it is told.
func TestGuardShare(t *testing.T) {
	for share, want := range map[float64]float64{0: 8, .5: 5, .95: 9} {
		l, err := New(Default, Settings{Min: 1, Max: 310, Initial: 10, Share: share})
		require.NoError(t, err)
		l.Tell(Window{Time: time.Unix(60, 0), Length: Some(60), Limit: Some(4), Inside: Some(4), Answered: Some(600), Memory: Some(40), MemoryLimit: Some(100)})
		require.InDelta(t, want, Most(l), 0, "%v of the memory, of which 4 requests take .4", share)
	}
	_, err := New(Default, Settings{Min: 1, Max: 310, Initial: 10, Share: .96})
	require.ErrorContains(t, err, "memory share: 0.96, want 0 to 0.95")
}

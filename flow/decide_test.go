package flow

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fixedTuner proposes what it is told.
type fixedTuner struct {
	proposed         Thresholds
	present, value   float64
	err              error
	gotLoad          float64
	calls            int
	proposed0, judge uint64 // seeds
}

func (f *fixedTuner) Propose(_ *Sizes, load float64, _ int, _ Thresholds, seed uint64) (Thresholds, error) {
	f.calls++
	f.gotLoad, f.proposed0 = load, seed
	return f.proposed, f.err
}

func (f *fixedTuner) Values(_ *Sizes, _ float64, seed uint64, sets ...Thresholds) []float64 {
	f.judge = seed
	return []float64{f.present, f.value}[:len(sets)]
}

// window holds n sizes between 1 and 1,000,000 bytes.
func window(t *testing.T, n int) *Window {
	t.Helper()
	var w Window
	fill(t, &w, n, 1, 1)
	return &w
}

func fill(t *testing.T, w *Window, n int, factor float64, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		_, err := w.Add(1 + rng.Float64()*1e6*factor)
		require.NoError(t, err)
	}
}

var begin = time.Unix(1000, 0)

func decide(t *testing.T, d *Decider, now time.Time, w *Window, load float64) Decision {
	t.Helper()
	got, err := d.Decide(now, w, load)
	require.NoError(t, err)
	return got
}

// Each guard holds, and one step on the other side of it lets pass.
func TestGuards(t *testing.T) {
	good := Thresholds{10_000, 100_000, 800_000}
	for _, c := range []struct {
		name   string
		flows  int
		load   float64
		tuner  fixedTuner
		reason string // "" = passes
	}{
		{"passes", 250, .8, fixedTuner{proposed: good, present: 2, value: 1.98}, ""},
		{"too few flows", 249, .8, fixedTuner{proposed: good, present: 2, value: 1}, "249 flows seen, want 250"},
		{"no load", 250, 0, fixedTuner{proposed: good, present: 2, value: 1}, "load is 0"},
		{"load below 0", 250, -1, fixedTuner{proposed: good, present: 2, value: 1}, "load is -1"},
		{"load NaN", 250, math.NaN(), fixedTuner{proposed: good, present: 2, value: 1}, "load is NaN"},
		{"load infinite", 250, math.Inf(1), fixedTuner{proposed: good, present: 2, value: 1}, "load is +Inf"},
		{"too little gain", 250, .8, fixedTuner{proposed: good, present: 2, value: 1.981}, "proposed 10k/100k/800k: 1.9810 on held-back arrivals, 2.0000 now: want 0.01 less"},
		{"a value that is NaN", 250, .8, fixedTuner{proposed: good, present: 2, value: math.NaN()}, "NaN on held-back arrivals"},
		{"a present value that is NaN", 250, .8, fixedTuner{proposed: good, present: math.NaN(), value: 1}, "NaN now"},
		{"no thresholds", 250, .8, fixedTuner{present: 2, value: 1}, "thresholds: none"},
		{"not ascending", 250, .8, fixedTuner{proposed: Thresholds{5, 4}, present: 2, value: 1}, "want them ascending"},
		{"nothing left for the last band", 250, .8, fixedTuner{proposed: Thresholds{10_000, 100_000, 2_000_000}, present: 2, value: 1}, "the last band would have 0 of the bytes, want 0.01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decider{Bands: 4, Tuner: &c.tuner}
			got := decide(t, &d, begin, window(t, c.flows), c.load)
			require.NotEmpty(t, got.Reason)
			if c.reason != "" {
				require.True(t, got.Hold)
				require.Contains(t, got.Reason, c.reason)
				require.Nil(t, got.Thresholds)
				require.Nil(t, d.Present)
				return
			}
			require.False(t, got.Hold, got.Reason)
			require.Equal(t, good, got.Thresholds)
			require.Equal(t, good, d.Present)
			require.NotContains(t, got.Reason, "changed")
		})
	}
}

func TestLoadIsCapped(t *testing.T) {
	tuner := &fixedTuner{proposed: Thresholds{1000}, present: 2, value: 1}
	decide(t, &Decider{Bands: 2, Tuner: tuner}, begin, window(t, 300), 3)
	require.Equal(t, MostLoad, tuner.gotLoad)
	require.Equal(t, tuner.proposed0, tuner.judge)
}

// A threshold below the least is raised to it, and the others stay above it.
func TestLeast(t *testing.T) {
	tuner := &fixedTuner{proposed: Thresholds{5, 700, 100_000}, present: 2, value: 1}
	d := Decider{Bands: 4, Tuner: tuner, Least: 1000}
	w := window(t, 300)
	got := decide(t, &d, begin, w, .8)
	require.False(t, got.Hold, got.Reason)
	require.Equal(t, Thresholds{1000, 1001, 100_000}, got.Thresholds)
	require.NoError(t, got.Thresholds.ValidateFor(4))
	require.Equal(t, Thresholds{5, 700, 100_000}, tuner.proposed, "what the tuner keeps is its own")
	require.Contains(t, decide(t, &d, begin.Add(time.Hour), w, .8).Reason, "1k/1.001k/100k is still the best found")
}

func TestTunerFails(t *testing.T) {
	d := Decider{Bands: 2, Tuner: &fixedTuner{err: errors.New("no")}}
	_, err := d.Decide(begin, window(t, 300), .8)
	require.EqualError(t, err, "no")
	require.Nil(t, d.Present)
}

// A threshold moves by a factor of 4 at most, up and down; between two changes there are five seconds. When the sizes
// have changed, neither counts.
func TestSteps(t *testing.T) {
	tuner := &fixedTuner{proposed: Thresholds{1000, 100_000}, present: 2, value: 1}
	d := Decider{Bands: 3, Tuner: tuner}
	w := window(t, 1000)
	decide(t, &d, begin, w, .8)

	tuner.proposed = Thresholds{50, 800_000}
	soon := decide(t, &d, begin.Add(LeastWait-1), w, .8)
	require.True(t, soon.Hold)
	require.Contains(t, soon.Reason, "the last change was 4.999999999s ago, want 5s")
	require.Equal(t, Thresholds{1000, 100_000}, soon.Thresholds, "those in force")
	require.Equal(t, 1, tuner.calls)

	later := decide(t, &d, begin.Add(LeastWait), w, .8)
	require.False(t, later.Hold, later.Reason)
	require.Equal(t, Thresholds{250, 400_000}, later.Thresholds)

	same := decide(t, &d, begin.Add(time.Minute), w, .8)
	require.Equal(t, Thresholds{63, 800_000}, same.Thresholds)
	tuner.proposed = Thresholds{63, 800_000}
	same = decide(t, &d, begin.Add(2*time.Minute), w, .8)
	require.True(t, same.Hold)
	require.Contains(t, same.Reason, "63/800k is still the best found")

	tuner.proposed = Thresholds{1, 7_000_000}
	fill(t, w, 500, 10, 2)
	require.Equal(t, 1, w.Changes())
	changed := decide(t, &d, begin.Add(2*time.Minute+1), w, .8)
	require.False(t, changed.Hold, changed.Reason)
	require.Equal(t, tuner.proposed, changed.Thresholds)
	require.Contains(t, changed.Reason, "the sizes have changed")

	tuner.proposed = Thresholds{100, 7_000_000}
	require.Contains(t, decide(t, &d, begin.Add(2*time.Minute+2), w, .8).Reason, "the last change was", "the change counts once")
	require.Equal(t, Thresholds{4, 7_000_000}, decide(t, &d, begin.Add(3*time.Minute), w, .8).Thresholds)
}

// Thresholds that are moved stay apart.
func TestLimited(t *testing.T) {
	require.Equal(t, Thresholds{400, 404}, limited(Thresholds{5000, 5001}, Thresholds{100, 101}))
	require.Equal(t, Thresholds{1, 2}, limited(Thresholds{1, 2}, Thresholds{1, 2}))
	require.Equal(t, Thresholds{25, 26}, limited(Thresholds{1, 2}, Thresholds{100, 101}))
	require.Equal(t, Thresholds{5}, limited(Thresholds{5}, Thresholds{100, 101}), "other bands")
}

// The window keeps the last sizes, in their order.
func TestWindowSlides(t *testing.T) {
	w := window(t, WindowSizes)
	require.Len(t, w.Sizes(), WindowSizes)
	old := w.Sizes()
	fill(t, w, WindowStep-1, 1, 2)
	require.Len(t, w.Sizes(), WindowSizes+WindowStep-1, "not compared yet")
	require.Equal(t, old, w.Sizes()[:WindowSizes])
	fill(t, w, 1, 1, 3)
	require.Len(t, w.Sizes(), WindowSizes)
	require.Equal(t, old[WindowStep:], w.Sizes()[:WindowSizes-WindowStep])
	require.Zero(t, w.Changes())
}

// Sizes of another distribution empty the window; sizes of the same do so about as often as the test is wrong.
func TestWindowChanges(t *testing.T) {
	w := window(t, 2000)
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range WindowStep {
		changed, err := w.Add(1 + rng.Float64()*2e6)
		require.NoError(t, err)
		require.Equal(t, i == WindowStep-1, changed, i)
	}
	require.Equal(t, 1, w.Changes())
	require.Len(t, w.Sizes(), WindowStep)

	var steady Window
	const steps = 400
	fill(t, &steady, steps*WindowStep, 1, 4)
	require.Less(t, float64(steady.Changes()), 3*WindowChange*steps)
}

func TestWindowRefuses(t *testing.T) {
	var w Window
	for _, size := range []float64{0, .5, -1, 1.1e15, math.NaN(), math.Inf(1)} {
		_, err := w.Add(size)
		require.ErrorContains(t, err, "want 1 to 1e15")
	}
	require.Empty(t, w.Sizes())
}

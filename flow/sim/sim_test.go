package sim

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
)

const gigabit = 1e9

// heavy is a made-up distribution with many short flows and most bytes in few long ones.
func heavy(t testing.TB) *flow.Sizes {
	t.Helper()
	s, err := flow.NewSizes("heavy", points(100, 0, 10e3, .5, 100e3, .8, 1e6, .9, 10e6, .98, 30e6, 1), false)
	require.NoError(t, err)
	return s
}

// points are made of sizes and shares in turn.
func points(numbers ...float64) (list []flow.Point) {
	for i := 0; i < len(numbers); i += 2 {
		list = append(list, flow.Point{Size: numbers[i], CDF: numbers[i+1]})
	}
	return list
}

func traffic(t testing.TB, load float64, hosts int) *Traffic {
	return &Traffic{Sizes: heavy(t), Load: load, Rate: 10 * gigabit, Hosts: hosts}
}

// means returns the mean time and the mean slowdown.
func means(flows []Flow, fct []float64, rate float64) (mean, slowdown float64) {
	for i, f := range flows {
		mean += fct[i]
		slowdown += fct[i] * rate / 8 / f.Size
	}
	return mean / float64(len(flows)), slowdown / float64(len(flows))
}

var bands = flow.Thresholds{80_000, 1_000_000, 9_000_000}

// Two flows share a link of 8 bytes a second by hand.
func TestByHand(t *testing.T) {
	flows := []Flow{{At: 0, Size: 24}, {At: 1, Size: 8}}
	l := NewLink(64)
	for name, c := range map[string]struct {
		run  func(fct []float64)
		want [2]float64
	}{
		// From 1 on both get 4 a second: the second has 8 at 3, when the first has 16.
		"fair": {func(fct []float64) { l.Bands(flows, nil, fct) }, [2]float64{4, 2}},
		// The first leaves its band at 0.5. The second has 4 at 1.5; then both share: 8 at 2.5.
		"bands": {func(fct []float64) { l.Bands(flows, flow.Thresholds{4}, fct) }, [2]float64{4, 1.5}},
		// Both in the first band from 1 on, until the first has 10 (at 1.5) and the second runs alone.
		"late": {func(fct []float64) { l.Bands(flows, flow.Thresholds{10}, fct) }, [2]float64{4, 1.25}},
		// At 1 the first has 8 and stops; the second has 8 at 2.
		"las":  {func(fct []float64) { l.LAS(flows, fct) }, [2]float64{4, 1}},
		"srpt": {func(fct []float64) { l.SRPT(flows, fct) }, [2]float64{4, 1}},
	} {
		fct := make([]float64, 2)
		c.run(fct)
		require.InDeltaSlice(t, c.want[:], fct, 1e-12, name)
	}
}

// The simulator's hints are those of the kernel's program, which flow.Thresholds says too.
func TestHintIsTheKernels(t *testing.T) {
	bands := flow.Thresholds{100, 1000, 10_000}
	for _, size := range []int64{1, 99, 100, 101, 1000, 1001, 9999, 10_001, 1e9} {
		flows := []Flow{{Size: 1}}
		Hint(flows, []float64{float64(size)}, bands)
		for _, sent := range []int64{100, 101, 999, 1000, 10_000, 1e8} {
			require.Equal(t, max(bands.Band(sent), int(flows[0].Hint)), bands.Hinted(sent, size), "%d of %d", sent, size)
		}
	}
}

// A hint counts after the first band: the flow with a hint stands behind the one without.
func TestHintByHand(t *testing.T) {
	flows := []Flow{{At: 0, Size: 24, Hint: 2}, {At: 0, Size: 24}}
	fct := make([]float64, 2)
	NewLink(64).Bands(flows, flow.Thresholds{4, 16}, fct)
	// Both have 4 at 1. The second goes on to 16 at 2.5, then both share the last band: 8 more for
	// the second until 4.5, when the first has 12; it ends at 6.
	require.InDeltaSlice(t, []float64{6, 4.5}, fct, 1e-12)
}

// plainLink is the same link told by its definition: at every event it looks at every flow.
func plainLink(flows []Flow, rate float64, thresholds flow.Thresholds, fct []float64) {
	type present struct {
		id   int
		sent float64
		band int
	}
	c := rate / 8
	var list []present
	now := 0.
	for i := 0; i < len(flows) || len(list) > 0; {
		best, n := len(thresholds)+1, 0
		for _, p := range list {
			if p.band < best {
				best, n = p.band, 0
			}
			if p.band == best {
				n++
			}
		}
		end, who := math.Inf(1), -1
		for k, p := range list {
			if p.band != best {
				continue
			}
			to := flows[p.id].Size
			if best < len(thresholds) {
				to = min(to, float64(thresholds[best]))
			}
			if at := now + (to-p.sent)*float64(n)/c; at < end {
				end, who = at, k
			}
		}
		next := math.Inf(1)
		if i < len(flows) {
			next = flows[i].At
		}
		step := min(end, next) - now
		for k := range list {
			if list[k].band == best {
				list[k].sent += step * c / float64(n)
			}
		}
		now += step
		if end > next {
			list = append(list, present{id: i})
			i++
			continue
		}
		p := &list[who]
		if best == len(thresholds) || flows[p.id].Size <= float64(thresholds[best]) {
			fct[p.id] = now - flows[p.id].At
			list = slices.Delete(list, who, who+1)
		} else {
			p.sent = float64(thresholds[best])
			p.band = min(max(best+1, int(flows[p.id].Hint)), len(thresholds))
		}
	}
}

func TestLinkAgainstPlain(t *testing.T) {
	for seed := range uint64(20) {
		flows := traffic(t, .85, 0).Generate(2000, seed)
		Hint(flows, Hints{Error: 1, Wrong: .2}.Estimates(flows, seed), bands)
		for _, thresholds := range []flow.Thresholds{nil, {80_000}, bands} {
			got, want := make([]float64, len(flows)), make([]float64, len(flows))
			NewLink(10*gigabit).Bands(flows, thresholds, got)
			plainLink(flows, 10*gigabit, thresholds, want)
			for i := range want {
				require.InEpsilon(t, want[i], got[i], 1e-6, "seed %d, flow %d, %v", seed, i, thresholds)
			}
		}
	}
}

// Bands of a byte are least attained service in small steps, and bands without end fair sharing.
func TestLASAgainstBands(t *testing.T) {
	s, err := flow.NewSizes("small", points(1, 0, 8, 1), false)
	require.NoError(t, err)
	flows := (&Traffic{Sizes: s, Load: .7, Rate: 64}).Generate(20_000, 1)
	las, banded := make([]float64, len(flows)), make([]float64, len(flows))
	l := NewLink(64)
	l.LAS(flows, las)
	l.Bands(flows, flow.Thresholds{1, 2, 3, 4, 5, 6, 7}, banded)
	a, _ := means(flows, las, 64)
	b, _ := means(flows, banded, 64)
	require.InEpsilon(t, a, b, .05)
	l.Bands(flows, flow.Thresholds{1e12}, las)
	l.Bands(flows, nil, banded)
	require.Equal(t, banded, las)
}

// The closed forms at a load of .6, each within 1 %.
func TestTheory(t *testing.T) {
	const load, n = .6, 2_000_000
	tr := traffic(t, load, 0)
	flows := tr.Generate(n, 1)
	fct := make([]float64, n)
	l := NewLink(tr.Rate)
	l.Bands(flows, nil, fct)
	_, slowdown := means(flows, fct, tr.Rate)
	within(t, "fair, slowdown", slowdown, FairSlowdown(load))
	l.Bands(flows, bands, fct)
	var short []Flow
	var times []float64
	for i, f := range flows {
		if f.Size <= float64(bands[0]) {
			short, times = append(short, f), append(times, fct[i])
		}
	}
	_, slowdown = means(short, times, tr.Rate)
	within(t, "first band, slowdown", slowdown, FirstBandSlowdown(tr.Sizes, load, float64(bands[0])))
	l.SRPT(flows, fct)
	mean, _ := means(flows, fct, tr.Rate)
	within(t, "srpt, mean", mean, SRPTMean(tr.Sizes, load, tr.Rate))
	l.LAS(flows, fct)
	mean, _ = means(flows, fct, tr.Rate)
	within(t, "las, mean", mean, LASMean(tr.Sizes, load, tr.Rate))
	mean, slowdown = Cascade(tr.Sizes, load, tr.Rate, nil)
	within(t, "cascade of one band, mean", mean, tr.Sizes.Mean()*8/tr.Rate/(1-load))
	within(t, "cascade of one band, slowdown", slowdown, FairSlowdown(load))
}

func within(t *testing.T, what string, got, want float64) {
	t.Helper()
	t.Logf("%s: %.6g, theory %.6g: %+.2f %%", what, got, want, 100*(got/want-1))
	require.InEpsilon(t, want, got, .01, what)
}

// No order has a smaller mean than SRPT, on any arrivals, and the link is never idle while there is
// work: every order ends its busy periods at the same times.
func TestOrdersAgree(t *testing.T) {
	for seed := range uint64(30) {
		flows := traffic(t, .8, 0).Generate(500, seed)
		l := NewLink(10 * gigabit)
		runs := map[string][]float64{}
		for name, d := range map[string]Discipline{
			"srpt":  (*Link).SRPT,
			"las":   (*Link).LAS,
			"fair":  func(l *Link, f []Flow, fct []float64) { l.Bands(f, nil, fct) },
			"bands": func(l *Link, f []Flow, fct []float64) { l.Bands(f, bands, fct) },
		} {
			runs[name] = make([]float64, len(flows))
			d(l, flows, runs[name])
		}
		best, _ := means(flows, runs["srpt"], 1)
		last := func(fct []float64) (end float64) {
			for i, f := range flows {
				end = max(end, f.At+fct[i])
			}
			return end
		}
		for name, fct := range runs {
			mean, _ := means(flows, fct, 1)
			require.LessOrEqual(t, best, mean*(1+1e-9), name)
			require.InEpsilon(t, last(runs["srpt"]), last(fct), 1e-9, name)
			for i, f := range flows {
				require.GreaterOrEqual(t, fct[i]*(1+1e-6), f.Size*8/(10*gigabit), name)
			}
		}
	}
}

// A flow that begins while a long one is active waits for the queue.
func TestCommonQueue(t *testing.T) {
	// 8,000 bits a second: 1 kB a second; .4 of the buffer of 1 kB is .4 s.
	flows := []Flow{{At: 0, Size: 100}, {At: 1, Size: 501e3}, {At: 2, Size: 1000}, {At: 502.5, Size: 1000}, {At: 700, Size: 1000}}
	fct := make([]float64, len(flows))
	l := NewLink(8000)
	l.Common(flows, Queue{Buffer: 1000}, fct)
	// The second shares with the third from 2 to 4, has 500 kB at 502, and shares its last half with
	// the fourth until 503.5. The fourth has its second half at 504: 1.5 s, and .4 of waiting.
	require.InDelta(t, .1, fct[0], 1e-9)
	require.InDelta(t, 502.5, fct[1], 1e-6)
	require.InDelta(t, 2, fct[2], 1e-9, "no long flow yet: it shares with the second")
	require.InDelta(t, 1.9, fct[3], 1e-6)
	rounds := 1 + math.Log2(1+1000./14480)
	require.Less(t, rounds*.4, 1.5)
	require.InDelta(t, 1, fct[4], 1e-9)
}

// Any flows end, no earlier than they can.
func FuzzLink(f *testing.F) {
	f.Add([]byte("some bytes that are flows, with times, sizes and hints"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, k uint8) {
		var flows []Flow
		at := 0.
		for ; len(data) >= 5; data = data[5:] {
			at += float64(data[0]) / 16
			flows = append(flows, Flow{At: at, Size: float64(binary.LittleEndian.Uint16(data[1:])) + 1, Hint: data[3] % 8, Src: uint16(data[4] % 3), Dst: uint16(data[4] / 3 % 3)})
		}
		thresholds := flow.Thresholds{64, 512, 4096, 20_000, 30_000, 40_000, 50_000}[:k%8]
		fct, want := make([]float64, len(flows)), make([]float64, len(flows))
		l := NewLink(8000)
		plainLink(flows, 8000, thresholds, want)
		l.Bands(flows, thresholds, fct)
		for i := range flows {
			require.InDelta(t, want[i], fct[i], 1e-6*(1+want[i]), i)
		}
		for _, d := range []Discipline{(*Link).SRPT, (*Link).LAS, func(l *Link, f []Flow, fct []float64) { l.Common(f, Queue{1e4}, fct) }} {
			clear(fct)
			d(l, flows, fct)
			for i := range flows {
				require.GreaterOrEqual(t, fct[i]*(1+1e-9), flows[i].Size/1000)
			}
		}
		clear(fct)
		Fabric{3, 8000}.Exact(flows, thresholds, fct)
		for i := range flows {
			require.GreaterOrEqual(t, fct[i]*(1+1e-6), flows[i].Size/1000)
			require.False(t, math.IsInf(fct[i], 0) || math.IsNaN(fct[i]))
		}
	})
}

// public reads a public distribution, where SIGMA_DATA has them.
func public(b testing.TB, name string) *flow.Sizes {
	folder := os.Getenv("SIGMA_DATA")
	if folder == "" {
		b.Skip("SIGMA_DATA is not set")
	}
	file, err := os.Open(folder + "/flows/" + name + ".csv")
	require.NoError(b, err)
	defer func() { _ = file.Close() }() // only read
	s, err := flow.ParseSizes(name, file, false)
	require.NoError(b, err)
	return s
}

package sim

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
)

func TestFabricOfOnePair(t *testing.T) {
	flows := traffic(t, .8, 2).Generate(3000, 1)
	for i := range flows {
		flows[i].Src, flows[i].Dst = 0, 1
	}
	link, whole := make([]float64, len(flows)), make([]float64, len(flows))
	NewLink(10*gigabit).Bands(flows, bands, link)
	Fabric{2, 10 * gigabit}.Exact(flows, bands, whole)
	for i := range flows {
		require.InEpsilon(t, link[i], whole[i], 1e-6, i)
	}
	parts := make([]float64, len(flows))
	Fabric{2, 10 * gigabit}.Decomposed(flows, byBands(bands), 1, parts)
	for i, f := range flows {
		require.InDelta(t, 2*link[i]-f.Size*8/(10*gigabit), parts[i], 1e-12, i)
	}
}

func byBands(thresholds flow.Thresholds) Discipline {
	return func(l *Link, f []Flow, fct []float64) { l.Bands(f, thresholds, fct) }
}

// plainFabric shares by water-filling from nothing at every event.
func plainFabric(f Fabric, flows []Flow, thresholds flow.Thresholds, fct []float64) {
	type present struct {
		id         int
		sent, rate float64
		band       int
	}
	var list []*present
	now := 0.
	for i := 0; i < len(flows) || len(list) > 0; {
		room := make([]float64, 2*f.Hosts)
		for p := range room {
			room[p] = f.Rate / 8
		}
		for b := 0; b <= len(thresholds); b++ {
			var open []*present
			for _, p := range list {
				if p.band == b {
					p.rate = 0
					open = append(open, p)
				}
			}
			for len(open) > 0 {
				count := map[int]int{}
				for _, p := range open {
					count[int(flows[p.id].Src)]++
					count[f.Hosts+int(flows[p.id].Dst)]++
				}
				least := math.Inf(1)
				for port, n := range count {
					least = min(least, room[port]/float64(n))
				}
				full := map[int]bool{}
				for port, n := range count {
					full[port] = room[port]/float64(n) <= least*(1+1e-12)
				}
				var rest []*present
				for _, p := range open {
					src, dst := int(flows[p.id].Src), f.Hosts+int(flows[p.id].Dst)
					if !full[src] && !full[dst] {
						rest = append(rest, p)
						continue
					}
					p.rate = least
				}
				for _, p := range open {
					if src, dst := int(flows[p.id].Src), f.Hosts+int(flows[p.id].Dst); full[src] || full[dst] {
						room[src], room[dst] = max(0, room[src]-least), max(0, room[dst]-least)
					}
				}
				open = rest
			}
			for port := range room {
				if room[port] < 1e-9*f.Rate/8 {
					room[port] = 0
				}
			}
		}
		end, who := math.Inf(1), -1
		for k, p := range list {
			to := flows[p.id].Size
			if p.band < len(thresholds) {
				to = min(to, float64(thresholds[p.band]))
			}
			if at := now + max(0, to-p.sent)/p.rate; p.rate > 0 && at < end {
				end, who = at, k
			}
		}
		next := math.Inf(1)
		if i < len(flows) {
			next = flows[i].At
		}
		step := min(end, next) - now
		for _, p := range list {
			p.sent += step * p.rate
		}
		now += step
		if end > next {
			list = append(list, &present{id: i})
			i++
			continue
		}
		p := list[who]
		if p.band == len(thresholds) || flows[p.id].Size <= float64(thresholds[p.band]) {
			fct[p.id] = now - flows[p.id].At
			list = slices.Delete(list, who, who+1)
		} else {
			p.sent = float64(thresholds[p.band])
			p.band = min(max(p.band+1, int(flows[p.id].Hint)), len(thresholds))
		}
	}
}

func TestExactAgainstPlain(t *testing.T) {
	for seed := range uint64(6) {
		f := Fabric{5, 10 * gigabit}
		flows := traffic(t, .8, f.Hosts).Generate(1500, seed)
		Hint(flows, Hints{Error: .5}.Estimates(flows, seed), bands)
		for _, thresholds := range []flow.Thresholds{nil, bands} {
			got, want := make([]float64, len(flows)), make([]float64, len(flows))
			f.Exact(flows, thresholds, got)
			plainFabric(f, flows, thresholds, want)
			a, b := 0., 0.
			for i := range want {
				a, b = a+got[i], b+want[i]
				require.InEpsilon(t, want[i], got[i], .05, "seed %d, flow %d of %v, %v", seed, i, flows[i].Size, thresholds)
			}
			require.InEpsilon(t, b, a, 1e-4)
		}
	}
}

// The same bytes with 1 and with 7 workers, and again.
func TestWorkers(t *testing.T) {
	f := Fabric{16, 10 * gigabit}
	flows := traffic(t, .8, f.Hosts).Generate(50_000, 1)
	var first []float64
	for _, workers := range []int{1, 7, 7} {
		fct := make([]float64, len(flows))
		f.Decomposed(flows, byBands(bands), workers, fct)
		if first == nil {
			first = fct
		}
		require.Equal(t, first, fct)
	}
}

// At 0.5 s, host 0 has sent 4 and 8 bytes, host 1 has got 4 and 6: with 64 bits per second a port can do 4.
func TestBusiestPortByHand(t *testing.T) {
	flows := []Flow{{At: .1, Size: 4, Src: 0, Dst: 1}, {At: .2, Size: 8, Src: 0, Dst: 2}, {At: .5, Size: 6, Src: 2, Dst: 1}}
	require.InDelta(t, 3, BusiestPort(flows, 64, 3), 1e-12)
	flows[2].Size = 12
	require.InDelta(t, 4, BusiestPort(flows, 64, 3), 1e-12, "it takes 4 and 12")
}

// Decomposed is within 5 % of exact in the mean.
func TestDecomposed(t *testing.T) {
	f := Fabric{16, 10 * gigabit}
	for _, load := range []float64{.5, .8} {
		flows := traffic(t, load, f.Hosts).Generate(100_000, 1)
		parts, whole := make([]float64, len(flows)), make([]float64, len(flows))
		f.Decomposed(flows, byBands(bands), 2, parts)
		f.Exact(flows, bands, whole)
		a, _ := means(flows, parts, f.Rate)
		b, _ := means(flows, whole, f.Rate)
		t.Logf("load %v: decomposed %.4g s, exact %.4g s: %+.1f %%", load, a, b, 100*(a/b-1))
		require.InEpsilon(t, b, a, .05)
	}
}

package tune

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
)

// Ports are a made-up traffic: half its bytes are of one with heavy-tailed sizes, the rest of others, each of whose sizes are near a
// median.
type ports struct {
	heavy   *flow.Sizes
	medians []float64
	sigma   float64
}

// generate gives flows and their ports, at a load of .8.
func (p *ports) generate(n int, seed uint64) ([]sim.Flow, []uint16) {
	rng := rand.New(rand.NewPCG(seed, 99))
	// Each median has a share of the bytes: there are as many fewer flows of it as they are larger.
	weights := []float64{1 / p.heavy.Mean()}
	for _, m := range p.medians {
		weights = append(weights, 1/float64(len(p.medians))/(m*math.Exp(p.sigma*p.sigma/2)))
	}
	sum := 0.
	for _, w := range weights {
		sum += w
	}
	mean := 1 / sum // bytes of a flow, but for the share of medians
	if len(p.medians) > 0 {
		mean = 2 / sum
	}
	flows, of := make([]sim.Flow, n), make([]uint16, n)
	at := 0.
	for i := range flows {
		at += 8 * mean / (.8 * rate) * rng.ExpFloat64()
		x, port := rng.Float64()*sum, 0
		for x > weights[port] && port < len(p.medians) {
			x -= weights[port]
			port++
		}
		size := p.heavy.Quantile(rng.Float64())
		if port > 0 {
			size = p.medians[port-1] * math.Exp(p.sigma*rng.NormFloat64())
		}
		flows[i], of[i] = sim.Flow{At: at, Size: max(1, math.Round(size))}, uint16(1000+port)
	}
	return flows, of
}

// history sets the hints that a node would have, and says of how many flows. A size is known when its flow begins: on a link that
// is not overloaded that is seconds too early.
func history(flows []sim.Flow, of []uint16, t flow.Thresholds) (hinted int) {
	var h flow.Hinter
	pod, peer := netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("10.1.9.2")
	estimates := make([]float64, len(flows))
	var known flow.Hints
	for i, f := range flows {
		now := time.Unix(0, int64(f.At*1e9))
		if i%100 == 0 {
			h.Declare(now, []flow.Declaration{{Workload: "shop/web", Addresses: []netip.Addr{pod}}})
			known = h.Trusted()
		}
		r := flow.Record{
			Source: netip.AddrPortFrom(pod, 40000), Destination: netip.AddrPortFrom(peer, of[i]), Side: flow.ClientSide,
			Bytes: uint64(f.Size), Packets: 1, End: flow.Finished,
		}
		if size := known.Of(r.Source, r.Destination); size > 0 {
			estimates[i] = float64(size)
			hinted++
		}
		h.Judge(now, r, t[0])
	}
	sim.Hint(flows, estimates, t)
	return hinted
}

// Sizes that history knows make flows faster where ports differ, and change nothing where one port has sizes of all kinds.
func TestHistory(t *testing.T) {
	const n = 200_000
	for _, c := range []struct {
		text string
		of   ports
		most float64 // mean of all, as a share of that without hints
	}{
		{"four steady ports, σ .3", ports{heavy(t), []float64{3e5, 1e6, 1e7, 3e7}, .3}, .97},
		{"four steady ports, σ .8", ports{heavy(t), []float64{3e5, 1e6, 1e7, 3e7}, .8}, .93},
		{"one steady port, σ .3", ports{heavy(t), []float64{1e7}, .3}, .99},
		{"one heavy-tailed port", ports{heavy(t), nil, 0}, 1},
	} {
		train, _ := c.of.generate(3000, 1)
		var seen []float64
		for _, f := range train {
			seen = append(seen, f.Size)
		}
		sizes, err := flow.SampleSizes("seen", seen)
		require.NoError(t, err)
		thresholds, _, err := NewProblem(sizes, .8, 50_000, 1, nil).Search(t.Context(), Search{Bands: 4, Budget: 100, Seed: 1})
		require.NoError(t, err)
		flows, of := c.of.generate(n, 2)
		fct := make([]float64, n)
		link := sim.NewLink(rate)
		link.Bands(flows, thresholds, fct)
		none := sim.Summarise(flows, fct, n/10, rate)
		hinted := history(flows, of, thresholds)
		link.Bands(flows, thresholds, fct)
		with := sim.Summarise(flows, fct, n/10, rate)
		t.Logf("%s: load %.2f, thresholds %v, %.3f of the flows hinted: mean of all %.3f of that without, short %.3f, medium %.3f, long %.3f",
			c.text, sim.RealisedLoad(flows, rate, 0), thresholds, float64(hinted)/n, with[0].Mean/none[0].Mean, with[1].Mean/none[1].Mean, with[2].Mean/none[2].Mean, with[3].Mean/none[3].Mean)
		require.LessOrEqual(t, with[0].Mean, c.most*none[0].Mean)
		require.LessOrEqual(t, with[1].Mean, 1.02*none[1].Mean, "every flow has its first band")
		require.Equal(t, c.most == 1, hinted == 0)
	}
}

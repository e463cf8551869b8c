package usage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Apps of 3 to 200 replicas, of which one in 50 or more uses k times the others' cpu, placed on
// nodes of 16 cores by sizes of seven days, and judged on the next seven (steps of half an
// hour). docs/requests-and-use.md has the table: go test -v -run
// TestOddReplica ./internal/usage.
func TestOddReplica(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of CPU")
	}
	names := []string{"size", "p99 of all pods", "the excess shared by all", "p99.9 of all pods", "the p99 of the largest pod"}
	for _, k := range []float64{4, 10} {
		var nodes, over [5]float64
		for seed := range uint64(10) {
			n, o := oddCluster(rand.New(rand.NewPCG(seed, 9)), k)
			for i := range n {
				nodes[i] += n[i] / 10
				over[i] += o[i] / 10
			}
		}
		for i, name := range names {
			t.Logf("x%v %-26s nodes %.1f over %.4f %%", k, name, nodes[i], over[i])
		}
		assert.Greater(t, nodes[4], 2*nodes[1], "all siblings as large as the odd one")
		assert.Greater(t, over[1], over[4])
		assert.Less(t, over[1], .02*k/3)
		assert.Less(t, nodes[0], .9*nodes[1], "mean pods vary less than one")
		assert.Less(t, over[0], map[float64]float64{4: .02, 10: .15}[k])
	}
}

func oddCluster(rng *rand.Rand, k float64) (nodes, over [5]float64) {
	const days, perDay, capacity = 7, 48, 16.
	type pod struct {
		app        int
		fit, judge []float64
	}
	quantile := func(s []float64, q float64) float64 {
		s = slices.Clone(s)
		slices.Sort(s)
		return s[min(len(s)-1, int(q*float64(len(s))))]
	}
	var pods []pod
	var sizes [5][]float64
	for app := range 60 {
		replicas := []int{3, 5, 10, 20, 50, 200}[rng.IntN(6)]
		mean, phase := .1*math.Exp(.8*rng.NormFloat64()), 2*math.Pi*rng.Float64()
		var all, own []float64
		means := make([]float64, days*perDay)
		for i := range replicas {
			m := mean * math.Exp(.15*rng.NormFloat64())
			if i == 0 && replicas >= 50 {
				m *= k
			}
			series := func() (s []float64) {
				for at := range days * perDay {
					s = append(s, m*(1+.4*math.Sin(phase+2*math.Pi*float64(at)/perDay))*math.Exp(.4*rng.NormFloat64()))
				}
				return s
			}
			p := pod{app, series(), series()}
			pods, all, own = append(pods, p), append(all, p.fit...), append(own, quantile(p.fit, Quantile))
			for at, v := range p.fit {
				means[at] += v / float64(replicas)
			}
		}
		pooled, excess := quantile(all, Quantile), 0.
		for _, o := range own {
			excess += max(0, o-pooled) / float64(replicas)
		}
		for i, size := range []float64{(quantile(means, Quantile) + pooled) / 2, pooled, pooled + excess, quantile(all, .999), max(pooled, slices.Max(own))} {
			sizes[i] = append(sizes[i], min(size, capacity))
		}
	}
	order := rng.Perm(len(pods))
	for v := range sizes {
		var counted []float64
		on := make([]int, len(pods))
		for _, i := range order { // Best-Fit
			size, best := sizes[v][pods[i].app], -1
			for n, c := range counted {
				if c+size <= capacity && (best < 0 || c > counted[best]) {
					best = n
				}
			}
			if best < 0 {
				best, counted = len(counted), append(counted, 0)
			}
			counted[best] += size
			on[i] = best
		}
		load, above := make([]float64, len(counted)), 0
		for at := range days * perDay {
			clear(load)
			for i := range pods {
				load[on[i]] += pods[i].judge[at]
			}
			for _, l := range load {
				if l > capacity {
					above++
				}
			}
		}
		nodes[v], over[v] = float64(len(counted)), 100*float64(above)/float64(days*perDay*len(counted))
	}
	return nodes, over
}

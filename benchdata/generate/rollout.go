package generate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// surgeShare of the items arrive at once in a roll-out.
const surgeShare = .25

// surge is the size of a batch of a roll-out of n items.
func surge(n int) int { return max(1, int(math.Ceil(surgeShare*float64(n)))) }

// ready draws how many seconds old items stay next to the new ones of their batch.
func ready(rng *rand.Rand) float64 { return 20 + 70*rng.Float64() }

// departuresParam belongs to kinds that only fill up without it.
var departuresParam = Param{
	Name: "departures", Max: 1, Unstated: true,
	Help: "share of the apps that roll out once in the second half of the day: what they have by then leaves as new requests come",
}

// rollOuts lets a share of the apps replace, at one time of their own, the requests
// that have arrived: whole requests in batches, the oldest first. Arrivals are in order of
// time before and after.
func rollOuts(rng *rand.Rand, arrivals []arrival, apps int, share float64) []arrival {
	living := make([][]int, apps) // requests of an app
	for i, a := range arrivals {
		living[a.app] = append(living[a.app], i)
	}
	for app, requests := range living {
		at := day * (.5 + .45*rng.Float64())
		if rng.Float64() >= share {
			continue
		}
		items := 0
		for i, r := range requests {
			if arrivals[r].time >= at {
				requests = requests[:i]
				break
			}
			items += len(arrivals[r].deletes)
		}
		for len(requests) > 0 {
			leaves := at + ready(rng)
			for now := 0; now < surge(items) && len(requests) > 0; requests = requests[1:] {
				old := arrivals[requests[0]].deletes
				now += len(old)
				arrivals = append(arrivals, newArrival(at, int32(app), len(old)))
				for i := range old {
					old[i] = milliseconds(leaves)
				}
			}
			at = leaves
		}
	}
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return cmp.Compare(a.time, b.time) })
	return arrivals
}

// newArrival is a request whose items stay.
func newArrival(at float64, app int32, count int) arrival {
	a := arrival{time: milliseconds(at), app: app, deletes: make([]float64, count)}
	for i := range a.deletes {
		a.deletes[i] = math.Inf(1)
	}
	return a
}

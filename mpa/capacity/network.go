package capacity

import "math"

// A Network is the closed network of one pod: a processor of some cores, and a wait for
// others that does not depend on the load.
type Network struct {
	Demand     float64 // core-seconds of a request alone in the pod
	Contention float64 // κ: each other request inside makes the demand larger by this share
	Wait       float64 // seconds a request waits for others
	Cores      float64 // that its requests can use at once; a single one uses one at most
}

// demandAt n requests inside: D (1 + κ (n − 1)).
func (m *Network) demandAt(n float64) float64 { return m.Demand * (1 + m.Contention*max(0, n-1)) }

// Throughput returns the answers a second with n requests inside at all times. With k of
// them at the processor the state's weight is
//
//	Πⱼ₌₁…ₖ D ÷ min(j, cores) · Zⁿ⁻ᵏ ÷ (n − k)!
//
// and the rate is min(k, cores) ÷ D (Buzen, 1973).
func (m *Network) Throughput(n int) float64 {
	if n < 1 {
		return 0
	}
	d := m.demandAt(float64(n))
	if m.Wait <= 0 {
		return min(float64(n), m.Cores) / d
	}
	// The weights by their ratio, from k = 0, scaled when they become large.
	weight, sum, rate := 1.0, 1.0, 0.0
	for k := 1; k <= n; k++ {
		busy := min(float64(k), m.Cores)
		weight *= d / busy * float64(n-k+1) / m.Wait
		sum += weight
		rate += weight * busy
		if sum > 1e200 {
			weight, sum, rate = weight*1e-200, sum*1e-200, rate*1e-200
		}
	}
	return rate / sum / d
}

// at returns the throughput with a mean number inside, which need not be whole.
func (m *Network) at(inside float64) float64 {
	low := math.Floor(inside)
	share := inside - low
	x := (1 - share) * m.Throughput(int(low))
	if share > 0 {
		x += share * m.Throughput(int(low)+1)
	}
	return x
}

// waitFor returns the wait with which the network has a throughput with a mean number
// inside, by bisection; 0 where even without a wait it has less.
func (m *Network) waitFor(inside, throughput float64) float64 {
	try := *m
	try.Wait = 0
	if inside <= 0 || throughput <= 0 || try.at(inside) <= throughput {
		return 0
	}
	// Little's law bounds the wait.
	low, high := 0.0, max(1, inside)/throughput*max(1, inside)
	for range 40 {
		try.Wait = (low + high) / 2
		if try.at(inside) > throughput {
			low = try.Wait
		} else {
			high = try.Wait
		}
	}
	return (low + high) / 2
}

// Peak returns the highest throughput of limits up to most, and the smallest limit that
// reaches a share of it.
func (m *Network) Peak(most int, share float64) (limit int, throughput float64) {
	// Without contention the throughput rises with the limit.
	if m.Contention == 0 {
		throughput = m.Throughput(most)
		if m.Wait > 0 && most > 1000 {
			throughput = m.Cores / m.Demand
		}
		low, high := 1, most
		for low < high {
			if mid := (low + high) / 2; m.Throughput(mid) >= share*throughput {
				high = mid
			} else {
				low = mid + 1
			}
		}
		return low, throughput
	}
	// With it, it rises to one peak and falls.
	low, high := 1, most
	for low < high {
		if mid := (low + high) / 2; m.Throughput(mid+1) > m.Throughput(mid) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	throughput, high, limit = m.Throughput(low), low, 1
	for limit < high {
		if mid := (limit + high) / 2; m.Throughput(mid) >= share*throughput {
			high = mid
		} else {
			limit = mid + 1
		}
	}
	return limit, throughput
}

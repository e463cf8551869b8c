package rollout

import "math"

// A belief is the distribution of the number of items of an app that has not come.
// With a forecast e = round(n·exp(σ·z − σ²/2)), z normal, the
// probability of n is that of e given n, times n⁻². The last factor keeps the
// mean at the forecast.
type belief struct {
	app   int32
	size  float64   // machines for each item
	first int32     // smallest n
	p     []float64 // of first, first+1, …
	cum   []float64
}

// newBelief takes forecasts of at least one half.
func newBelief(app int32, e, sigma, size float64) belief {
	sigma = max(sigma, minSigma)
	shape := math.Exp(beliefWidth * sigma)
	b := belief{app: app, size: size, first: int32(max(1, math.Floor((e-.5)/shape)))}
	last := max(b.first, int32(math.Ceil((e+.5)*shape)))
	below := func(e float64, n int32) float64 { // P(forecast < e | n)
		return .5 * math.Erfc(-(math.Log(e/float64(n))+sigma*sigma/2)/(sigma*math.Sqrt2))
	}
	sum := 0.0
	for n := b.first; n <= last; n++ {
		w := below(e+.5, n)
		if e > 1 { // forecasts are at least one
			w -= below(e-.5, n)
		}
		w /= float64(n) * float64(n)
		sum += w
		b.p, b.cum = append(b.p, w), append(b.cum, sum)
	}
	for i := range b.p {
		b.p[i] /= sum
		b.cum[i] /= sum
	}
	return b
}

const (
	beliefWidth = 3.5 // standard errors to each side
	minSigma    = .01
)

// quantile returns the smallest n with more than u of the probability up to it.
func (b *belief) quantile(u float64) int32 {
	for i, c := range b.cum {
		if u < c {
			return b.first + int32(i)
		}
	}
	return b.first + int32(len(b.cum)) - 1
}

func (b *belief) probability(n int32) float64 {
	if i := int(n - b.first); i >= 0 && i < len(b.p) {
		return b.p[i]
	}
	return 0
}

// A draft is one possible future: how many items of each app are still to come.
type draft struct {
	counts []int32 // [app]
	volume float64 // machines that all items fill, with those that have come
}

// drafts draws n futures. Each app's counts are stratified: one from each n-th
// of its probability (Latin hypercube, McKay, Beckman and Conover 1979). arrived
// and total are volumes; the futures meet the total as far as trust says.
func (r *draws) drafts(n int, beliefs []belief, apps int, arrived, total, trust float64) []draft {
	out := make([]draft, n)
	for i := range out {
		out[i] = draft{make([]int32, apps), arrived}
	}
	order := make([]int, n)
	for j := range beliefs {
		b := &beliefs[j]
		for i := range order { // a random permutation, inside out
			k := r.below(i + 1)
			order[i], order[k] = order[k], i
		}
		for i := range out {
			c := b.quantile((float64(order[i]) + r.uniform()) / float64(n))
			out[i].counts[b.app] = c
			out[i].volume += float64(float64(c) * b.size)
		}
	}
	for i := range out {
		d := &out[i]
		if trust > 0 {
			d.volume += r.shift(d.counts, beliefs, trust*(total-d.volume))
		}
		if trust == 1 {
			d.volume = total // the counts come as close as whole items do
		}
	}
	return out
}

// maxShifts bounds the steps of shift.
const maxShifts = 1000

// shift changes counts by one at a time until their volume has changed by about
// more, and returns the change. An app is drawn in proportion to how much likelier
// its count becomes.
func (r *draws) shift(counts []int32, beliefs []belief, more float64) float64 {
	done := 0.0
	weights := make([]float64, len(beliefs))
	for range maxShifts {
		gap, way := more-done, int32(1)
		if gap < 0 {
			gap, way = -gap, -1
		}
		sum := 0.0
		for j := range beliefs {
			b := &beliefs[j]
			weights[j] = 0
			if n := counts[b.app]; b.size < 2*gap-1e-9 {
				weights[j] = b.probability(n+way) / max(b.probability(n), 1e-300)
			}
			sum += weights[j]
		}
		if sum == 0 {
			break
		}
		u := r.uniform() * sum
		for j := range beliefs {
			if u -= weights[j]; u < 0 {
				counts[beliefs[j].app] += way
				done += float64(float64(way) * beliefs[j].size)
				break
			}
		}
	}
	return done
}

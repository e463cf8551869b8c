package knative

import (
	"fmt"
	"math"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// A Verdict on a canary.
type Verdict int

// The verdicts.
const (
	// Open: the intervals overlap.
	Open Verdict = iota
	// Level: no worse, and not yet better.
	Level
	// Better than the Revision of before.
	Better
	// WorseThan that.
	WorseThan
	// Losing requests that the Revision of before does not lose.
	Losing
)

const (
	// z of the 99 % interval. It is checked many times: 95 % would be left by chance too
	// often.
	z = 2.576
	// leastRequests of both Revisions.
	leastRequests = 100
	// leastLost is the number of lost requests of a canary from which on they count.
	leastLost = 5
	// margin is the share of the requests by which a canary that needs fewer pods may be
	// worse.
	margin = .01
	// noise of the requests a second in a pod, in addition to that of their number.
	noise = .03
)

// Judge compares a canary with the Revision of before, by 99 % intervals: it is better where it loses
// or delays fewer requests and its pods answer no fewer in time, or hardly more and each of its
// pods answers more.
func Judge(t *v1alpha1.Trial) (Verdict, string) {
	c, s := &t.Canary, &t.Stable
	lostLow, _ := wilson(c.Lost, c.Requests)
	_, lostHigh := wilson(s.Lost, s.Requests)
	if c.Lost >= leastLost && s.Requests > 0 && lostLow > lostHigh {
		return Losing, fmt.Sprintf("it lost %.3g of %.0f requests, Revision %s %.3g of %.0f", c.Lost, c.Requests, s.Revision, s.Lost, s.Requests)
	}
	if c.Requests < leastRequests || s.Requests < leastRequests {
		return Open, fmt.Sprintf("%.0f and %.0f requests, too few to tell", c.Requests, s.Requests)
	}
	low, high := wilson(c.Lost+c.Late, c.Requests)
	before, above := wilson(s.Lost+s.Late, s.Requests)
	bad := fmt.Sprintf("%s of its requests were lost or late, of Revision %s %s", between(low, high), s.Revision, between(before, above))
	switch {
	case low > above:
		return WorseThan, bad
	case high < before:
		// A pod with few requests is late with few, whatever its limit.
		each, than := answered(c), answered(s)
		if each.high >= than.low {
			return Better, bad
		}
		return Level, fmt.Sprintf("%s, but a pod answers only %s requests/s in time, one of that %s", bad, each, than)
	}
	if c.PodSeconds > 0 && s.PodSeconds > 0 && high <= above+margin {
		each, half := c.Requests/c.PodSeconds, z*math.Sqrt(1/c.Requests+noise*noise)
		than, other := s.Requests/s.PodSeconds, z*math.Sqrt(1/s.Requests+noise*noise)
		why := fmt.Sprintf("a pod answers %.4g requests/s, one of Revision %s %.4g; %s", each, s.Revision, than, bad)
		if each*(1-half) > than*(1+other) {
			return Better, why
		}
		return Level, why
	}
	return Open, bad
}

// pace is an interval of the requests a second in a pod.
type pace struct{ low, high float64 }

func (p pace) String() string { return fmt.Sprintf("%.4g to %.4g", p.low, p.high) }

// answered is that of the requests that were neither lost nor late.
func answered(a *v1alpha1.Arm) pace {
	n := max(0, a.Requests-a.Lost-a.Late)
	if !(a.PodSeconds > 0) {
		return pace{0, math.Inf(1)}
	}
	half := z * math.Sqrt(n+noise*noise*n*n)
	return pace{max(0, n-half) / a.PodSeconds, (n + half + z*z) / a.PodSeconds}
}

func between(low, high float64) string { return fmt.Sprintf("%.2f to %.2f %%", 100*low, 100*high) }

// wilson returns the interval of a share (Wilson, 1927).
func wilson(k, n float64) (low, high float64) {
	if !(n > 0) {
		return 0, 1
	}
	p := min(1, k/n)
	centre := (p + z*z/2/n) / (1 + z*z/n)
	half := z * math.Sqrt(p*(1-p)/n+z*z/4/n/n) / (1 + z*z/n)
	return max(0, centre-half), min(1, centre+half)
}

package usage

import "math"

// How much cpu of a machine batch work may have (docs/batch.md).
const (
	BatchShare = .95 // of the machine's cpu, for online pods and batch work together
	BatchAhead = 2 * hourSeconds
	// BatchGrowth is the most by which an offer grows, as a share of the machine's cpu an hour.
	BatchGrowth = .2
	// BatchDelivered is the share of the cores of a machine's batch work that online pods must leave. Else the
	// youngest are evicted.
	BatchDelivered = .6
	// BatchGrace is the seconds for which batch work may hold more than is offered.
	BatchGrace = 4 * hourSeconds
)

// An Offer is the cpu of one machine that batch work may have: the lesser of 95 % of the
// machine without the expected use of its online pods in the next two hours, by their slots, and 95 % without
// their use now. It falls at once and grows slowly. The zero value offers nothing yet.
type Offer struct {
	Cores float64
	// Growth replaces [BatchGrowth]; 0 = that.
	Growth float64
	at     float64
	known  bool
}

// Update returns the offer at a time in seconds, of which cpu is used and expected in cores: see
// [Expected]. A time before the last one counts as that.
func (o *Offer) Update(at, capacity, used, expected float64) float64 {
	now := max(0, BatchShare*capacity-max(used, expected))
	if !o.known || at > o.at {
		passed := 0.
		if o.known {
			passed = at - o.at
		}
		growth := BatchGrowth
		if o.Growth > 0 {
			growth = o.Growth
		}
		o.Cores += growth * capacity * passed / hourSeconds
		o.at, o.known = at, true
	}
	o.Cores = min(now, o.Cores)
	return o.Cores
}

// Expected is the most of a sum by slot over the next two hours from a time on.
func Expected(at float64, sum func(at float64) float64) (most float64) {
	for hour := hourSeconds * math.Floor(at/hourSeconds); hour < at+BatchAhead; hour += hourSeconds {
		most = max(most, sum(max(hour, at)))
	}
	return most
}

// Resume begins with cores that were offered at a time.
func (o *Offer) Resume(cores, at float64) { o.Cores, o.at, o.known = max(0, cores), at, true }

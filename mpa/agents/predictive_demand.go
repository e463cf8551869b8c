package agents

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

// demanded returns the present demand in cores.
func (p *Predictive) demanded(o *mpa.Observation) (cores float64, ok bool) {
	cores, _, ok = workloadCPU(o, predictMaxAge)
	if !ok {
		return 0, false
	}
	if !o.Rate.Known(o.Time, predictMaxAge) {
		return cores, true
	}
	// The cost of a request is measured only while all are answered: work for clients that
	// have given up is no demand.
	if o.Throughput.Known(o.Time, predictMaxAge) && o.Throughput.Value > 0 && o.Throughput.Value >= .95*o.Rate.Value {
		now := cores / o.Throughput.Value
		p.cost = cmp.Or(p.cost, now)
		p.cost += .05 * (now - p.cost)
	}
	if p.cost > 0 {
		cores = o.Rate.Value * p.cost
	}
	return cores, true
}

// expected returns the largest of the demand now, along its trend, and as usual.
func (p *Predictive) expected(now time.Time, demand float64) (cores float64, why string) {
	p.demand = append(since(p.demand, now.Add(-predictTrend)), timed[float64]{now, demand})
	p.learn(now, demand)
	cores, why = demand, "asked for"
	// A step enters the window of the rate bit by bit: the rise in half of the window is
	// added once more. A rise that repeats within predictQuiet is no step.
	for _, d := range p.demand {
		if now.Sub(d.time) <= predictJump && demand > predictSteep*d.value {
			if since := now.Sub(p.jumped); since > predictQuiet {
				p.jumped = now
			} else if since > 2*predictJump {
				break
			}
			cores, why = 2*demand-d.value, "and rising fast"
			break
		}
	}
	if rise := trend(p.demand) * predictAhead.Seconds(); demand+rise > cores {
		cores, why = demand+rise, "along the trend"
	}
	if usual := p.ahead(now); usual > cores {
		cores, why = usual, fmt.Sprintf("usual within %v", predictHorizon)
	}
	return cores, why
}

// trend returns the slope per second by least squares if it explains more than twice the
// residual, else 0.
func trend(list []timed[float64]) float64 {
	n := float64(len(list))
	if n < 3 || list[len(list)-1].time.Sub(list[0].time) < predictTrend/2 {
		return 0
	}
	var t, v float64
	for _, e := range list {
		t += e.time.Sub(list[0].time).Seconds() / n
		v += e.value / n
	}
	var tv, tt, vv float64
	for _, e := range list {
		d := e.time.Sub(list[0].time).Seconds() - t
		tv += d * (e.value - v)
		tt += d * d
		vv += (e.value - v) * (e.value - v)
	}
	if explained := tv * tv / tt; explained < 2*(vv-explained) {
		return 0
	}
	return tv / tt
}

func slotOf(t time.Time) int {
	return int(t.Sub(t.Truncate(day)) / predictSlot)
}

// learn closes a slot when the next begins.
func (p *Predictive) learn(now time.Time, cores float64) {
	slot := slotOf(now)
	if slot != p.slot && len(p.seen) > 0 {
		high := slices.Max(p.seen)
		if math.IsNaN(p.usual[p.slot]) {
			p.usual[p.slot] = high
		} else {
			p.scatter[p.slot] += predictForget * (math.Abs(high-p.usual[p.slot]) - p.scatter[p.slot])
			p.usual[p.slot] += predictForget * (high - p.usual[p.slot])
		}
		p.seen = p.seen[:0]
	}
	p.slot = slot
	p.seen = append(p.seen, cores)
}

// ahead returns the largest usual demand of the slots up to the horizon; 0 = unknown.
func (p *Predictive) ahead(now time.Time) float64 {
	most := 0.0
	for d := time.Duration(0); d <= predictHorizon; d += predictSlot {
		i := slotOf(now.Add(d))
		if !math.IsNaN(p.usual[i]) {
			most = max(most, p.usual[i]+p.scatter[i])
		}
	}
	return most
}

package capacity

import (
	"math"
	"slices"
)

// A fit is the closed network that trials show.
type fit struct {
	Network
	known                          bool    // cpu, answers and the quota were measured
	noise                          float64 // relative deviation of one trial
	demandError, waitError, κError float64 // standard errors, the first two relative
	waitUp                         float64 // a standard error above the wait
}

// priorTrials is the number of trials that the expected noise counts for.
const priorTrials = 2

// merged returns trials with those of one limit and quota made one.
func merged(trials []Window) (list []Window, counts []float64) {
	for _, w := range trials {
		k := slices.IndexFunc(list, func(m Window) bool {
			return m.Limit == w.Limit && m.Quota == w.Quota && m.CPU.Known == w.CPU.Known && m.Inside.Known == w.Inside.Known &&
				math.Abs(m.population()-w.population()) < .05*w.Limit.Number
		})
		if k < 0 {
			list, counts = append(list, w), append(counts, 1)
			continue
		}
		m := &list[k]
		old, more := m.Length.Number, w.Length.Number
		m.Inside.Number = (m.Inside.Number*old + w.Inside.Number*more) / (old + more)
		m.Length.Number += more
		m.Answered.Number += w.Answered.Number
		m.Gone.Number += w.Gone.Number
		m.CPU.Number += w.CPU.Number
		counts[k]++
	}
	return list, counts
}

// fitTrials estimates demand, contention and wait. The demand of the trials is a straight
// line in the number inside; its slope counts where it is twice its error. The wait is
// that of the trials which depend on it most: near saturation the inversion is noise.
func fitTrials(trials []Window, noise float64) fit {
	f := fit{noise: noise}
	var n, d, x, counts []float64
	list, each := merged(trials)
	for i := range list {
		w := &list[i]
		demand, cores := w.demand(), w.cores()
		if !demand.Known || !cores.Known {
			continue
		}
		f.Cores = cores.Number // they are those of the last trial
		n, d, x = append(n, w.population()), append(d, demand.Number), append(x, w.rate().Number)
		counts = append(counts, each[i])
	}
	if len(n) == 0 {
		return f
	}
	f.known = true
	f.fitDemand(n, d, counts)
	f.fitWait(n, x, counts)
	return f
}

// fitDemand fits D + D κ (n − 1) by least squares of relative errors.
func (f *fit) fitDemand(n, d, counts []float64) {
	var w, wn, wnn, wd, wnd float64
	for i := range n {
		weight := counts[i] / d[i] / d[i]
		at := max(0, n[i]-1)
		w, wn, wnn, wd, wnd = w+weight, wn+weight*at, wnn+weight*at*at, wd+weight*d[i], wnd+weight*at*d[i]
	}
	prior := f.noise * f.noise * priorTrials
	spread := wnn - wn*wn/w
	if spread > 1e-9*wnn && len(n) > 1 {
		slope := (wnd - wn*wd/w) / spread
		begin := (wd - slope*wn) / w
		squares := 0.0
		for i := range n {
			off := (d[i] - begin - slope*max(0, n[i]-1)) / d[i]
			squares += counts[i] * off * off
		}
		noise := math.Sqrt((prior + squares) / (priorTrials + float64(len(n)-2)))
		if e := noise / math.Sqrt(spread); slope > 2*e && begin > 0 {
			f.noise, f.Demand, f.Contention = noise, begin, slope/begin
			f.demandError = noise * math.Sqrt(1/w+wn*wn/w/w/spread) / begin
			f.κError = e / begin
			return
		}
	}
	f.Demand = wd / w
	squares, all := 0.0, 0.0
	for i := range d {
		off := (d[i] - f.Demand) / d[i]
		squares += counts[i] * off * off
		all += counts[i]
	}
	f.noise = math.Sqrt((prior + squares) / (priorTrials + float64(len(d)-1)))
	f.demandError = f.noise / math.Sqrt(all)
	f.κError = f.noise
	if spread > 0 {
		f.κError = min(f.noise, f.noise/math.Sqrt(spread)/f.Demand)
	}
}

// fitWait inverts the network at the trials, weighted by how much the throughput of each
// depends on the wait.
func (f *fit) fitWait(n, x, counts []float64) {
	waits, depends := make([]float64, len(n)), make([]float64, len(n))
	most := 0.0
	f.waitUp = math.Inf(1)
	for i := range n {
		waits[i] = f.waitFor(n[i], x[i])
		f.waitUp = min(f.waitUp, f.waitFor(n[i], x[i]*(1-f.noise/math.Sqrt(counts[i]))))
		if waits[i] == 0 {
			continue
		}
		m := f.Network
		m.Wait = waits[i] * 1.02
		depends[i] = max(0, -math.Log(m.at(n[i])/x[i])/math.Log(1.02))
		most = max(most, depends[i])
	}
	var sum, weights float64
	for i := range n {
		if depends[i] > 0 && depends[i] >= most/2 {
			weight := counts[i] * depends[i] * depends[i]
			sum, weights = sum+weight*math.Log(waits[i]), weights+weight
		}
	}
	if weights == 0 {
		f.waitError = 1
		return
	}
	f.Wait = math.Exp(sum / weights)
	// Errors of the throughput and of the demand.
	f.waitError = math.Sqrt2 * f.noise / math.Sqrt(weights)
	f.waitUp = max(f.Wait, min(f.waitUp, f.Wait*(1+f.waitError)))
}

// capacity at a limit.
func (f *fit) capacity(limit int, rate float64, trials int, reason string) Capacity {
	relative := f.noise / math.Sqrt(float64(max(1, trials)))
	c := Capacity{
		Limit: limit, Rate: around(rate, relative), Inside: around(float64(limit), 0), Reason: reason,
	}
	if !f.known {
		return c
	}
	c.Cores = f.Cores
	c.Demand, c.Wait = around(f.Demand, f.demandError), around(f.Wait, f.waitError)
	c.Wait.High = max(c.Wait.High, f.waitUp)
	c.Contention = Interval{f.Contention, max(0, f.Contention-1.96*f.κError), f.Contention + 1.96*f.κError}
	return c
}

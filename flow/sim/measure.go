package sim

import (
	"math"
	"slices"
)

// Short flows have at most ShortBytes, medium ones at most MediumBytes, and long ones more.
const (
	ShortBytes  = 100e3
	MediumBytes = 10e6
)

// Classes are the classes of a Summary, in order.
func Classes() []string { return []string{"all", "short", "medium", "long"} }

// A Class has the times of a class of flows in seconds, and slowdowns, which are times over
// those of the flow alone. They are NaN without flows.
type Class struct {
	Flows       int
	Mean, P99   float64
	Slow, Slow9 float64 // mean and 99th percentile of the slowdown
}

// Summarise measures flows, the first ones left out, by class in the order of Classes.
// The rate is in bits per second.
func Summarise(flows []Flow, fct []float64, warmup int, rate float64) [4]Class {
	var classes [4]Class
	times, slow := make([][]float64, 4), make([][]float64, 4)
	for i, f := range flows[warmup:] {
		k := 3
		switch {
		case f.Size <= ShortBytes:
			k = 1
		case f.Size <= MediumBytes:
			k = 2
		}
		t := fct[warmup+i]
		times[k] = append(times[k], t)
		slow[k] = append(slow[k], t*rate/8/f.Size)
	}
	times[0], slow[0] = slices.Concat(times[1:]...), slices.Concat(slow[1:]...)
	for k := range classes {
		c := &classes[k]
		c.Flows = len(times[k])
		c.Mean, c.P99 = meanAndP99(times[k])
		c.Slow, c.Slow9 = meanAndP99(slow[k])
	}
	return classes
}

// meanAndP99 sorts the values.
func meanAndP99(values []float64) (mean, p99 float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN()
	}
	for _, v := range values {
		mean += v
	}
	slices.Sort(values)
	return mean / float64(len(values)), values[(len(values)*99+99)/100-1]
}

// RealisedLoad is the work of the flows over the time in which they arrived, as a share of a
// link, or of the ports of so many hosts.
func RealisedLoad(flows []Flow, rate float64, hosts int) float64 {
	work := 0.
	for _, f := range flows {
		work += f.Size
	}
	return work / (flows[len(flows)-1].At * rate / 8 * float64(max(1, hosts)))
}

// BusiestPort is the realised load of the port of a fabric that had the most to send or to take.
func BusiestPort(flows []Flow, rate float64, hosts int) float64 {
	work := make([]float64, 2*hosts)
	for _, f := range flows {
		work[f.Src] += f.Size
		work[hosts+int(f.Dst)] += f.Size
	}
	return slices.Max(work) / (flows[len(flows)-1].At * rate / 8)
}

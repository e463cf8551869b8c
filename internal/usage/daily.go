package usage

import (
	"math"
	"slices"
)

// A daily is the use of one day.
type daily struct {
	number int64 // days since time 0
	use    histogram
}

// dailies are the last [Window] days, by day modulo Window.
type dailies [Window]daily

// add counts a sample of a bucket in its day, unless a later day took its place.
func (list *dailies) add(at, seconds float64, bucket uint16) {
	number := int64(math.Floor(at / day))
	d := &list[mod(number, Window)]
	switch {
	case d.number > number && len(d.use.bucket) > 0:
		return
	case d.number != number:
		*d = daily{number: number}
	}
	d.use.add(bucket, seconds)
}

// empty reports whether there is no sample.
func (list *dailies) empty() bool {
	return !slices.ContainsFunc(list[:], func(d daily) bool { return len(d.use.bucket) > 0 })
}

// busiest is the largest quantile over any two days in a row, of the last [Window] days before a time: at most 1 % too
// much, never too little. It is 0 without samples.
func (list *dailies) busiest(quantile, at float64) float64 {
	today := int64(math.Ceil(at / day))
	of := func(number int64) *histogram {
		if d := &list[mod(number, Window)]; d.number == number {
			return &d.use
		}
		return &histogram{}
	}
	most := 0.
	for number := today - Window; number < today-1; number++ {
		most = max(most, quantileOf(quantile, of(number), of(number+1)))
	}
	return most
}

// quantileOf is the quantile of two histograms together.
func quantileOf(q float64, a, b *histogram) float64 {
	all := 0.
	for _, h := range []*histogram{a, b} {
		for _, w := range h.weight {
			all += w
		}
	}
	i, k, sum, last := 0, 0, 0., 0.
	for i < len(a.bucket) || k < len(b.bucket) {
		if k == len(b.bucket) || i < len(a.bucket) && a.bucket[i] <= b.bucket[k] {
			sum, last = sum+a.weight[i], edge(a.bucket[i])
			i++
		} else {
			sum, last = sum+b.weight[k], edge(b.bucket[k])
			k++
		}
		if sum >= q*all*(1-1e-12) {
			return last
		}
	}
	return last
}

// Busiest is the largest quantile of the cores in use by one pod over any two days in a row,
// of the last [Window] days before a time: at most 1 % too much, never too little. It is 0
// without samples.
func (h *History) Busiest(quantile, at float64) float64 { return h.pods.busiest(quantile, at) }

// CPU are the cores to count for one pod before a time: halfway between [Quantile] of the mean pod and [Quantile] of one
// pod, each of the two busiest days in a row. A history without [Means] has that of one pod.
func (h *History) CPU(at float64) float64 {
	cores, _ := h.cpu(at)
	return cores
}

// cpu is [History.CPU] with the part of one pod.
func (h *History) cpu(at float64) (cores, one float64) {
	one = h.Busiest(Quantile, at)
	if h.means.empty() {
		return one, one
	}
	return (h.means.busiest(Quantile, at) + one) / 2, one
}

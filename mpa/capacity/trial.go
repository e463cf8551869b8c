package capacity

import (
	"cmp"
	"errors"
	"math"
	"time"
)

// A Trial adds up the windows at one limit until half of the 95 % interval of their
// throughput is below Interval of it, or the windows are Longest together.
type Trial struct {
	Interval float64       // share of the throughput; 0 = .03
	Least    int           // windows at least; 0 = 2
	Longest  time.Duration // 0 = 30 s
	sum      Window
	rates    []float64
	inside   float64 // seconds · requests
}

// Add takes a window and returns the whole trial's where it has ended. A window at another
// limit than those before begins another trial, as does one that is not later. For an
// impossible window it returns an error that names the field.
func (t *Trial) Add(w Window) (whole Window, done bool, err error) {
	if err := w.Check(); err != nil {
		return Window{}, false, err
	}
	if !w.Limit.Known {
		return Window{}, false, errors.New("limit: it is missing")
	}
	first := len(t.rates) == 0
	if !first && (w.Limit != t.sum.Limit || w.Quota != t.sum.Quota || w.MemoryLimit != t.sum.MemoryLimit || !w.Time.After(t.sum.Time)) {
		t.Reset()
		first = true
	}
	rate := w.rate()
	t.rates = append(t.rates, rate.Number)
	if first {
		t.sum, t.inside = w, w.Inside.Number*w.Length.Number
	} else {
		t.sum.Time = w.Time
		t.inside += w.Inside.Number * w.Length.Number
		t.sum.Length.Number += w.Length.Number
		plus(&t.sum.Answered, w.Answered)
		plus(&t.sum.Failed, w.Failed)
		plus(&t.sum.Gone, w.Gone)
		plus(&t.sum.CPU, w.CPU)
		t.sum.Inside.Known = t.sum.Inside.Known && w.Inside.Known
		t.sum.Memory = Value{max(t.sum.Memory.Number, w.Memory.Number), t.sum.Memory.Known && w.Memory.Known}
	}
	t.sum.Inside.Number = t.inside / t.sum.Length.Number
	if !t.ended() {
		return Window{}, false, nil
	}
	whole = t.sum
	t.Reset()
	return whole, true, nil
}

// plus adds a value; the sum with a missing one is missing.
func plus(sum *Value, v Value) {
	sum.Number += v.Number
	sum.Known = sum.Known && v.Known
}

// Reset forgets the windows.
func (t *Trial) Reset() { *t = Trial{Interval: t.Interval, Least: t.Least, Longest: t.Longest} }

func (t *Trial) ended() bool {
	interval, longest, least := t.Interval, t.Longest, t.Least
	interval = cmp.Or(interval, .03)
	longest = cmp.Or(longest, 30*time.Second)
	least = cmp.Or(least, 2)
	if t.sum.Length.Number >= longest.Seconds() || t.sum.Failing() {
		return true // a pod that fails is not tried any longer
	}
	n := float64(len(t.rates))
	if n < 2 || len(t.rates) < least {
		return least == 1 && n == 1
	}
	mean, sum := 0.0, 0.0
	for _, r := range t.rates {
		mean += r / n
	}
	for _, r := range t.rates {
		sum += (r - mean) * (r - mean)
	}
	half := student(len(t.rates)-1) * math.Sqrt(sum/(n-1)/n)
	return mean > 0 && half < interval*mean
}

// student returns the .975 quantile of Student's distribution by a series in 1 ÷ freedom
// (Abramowitz and Stegun 26.7.5), from 4 degrees of freedom on right within 1 %; a table
// below.
func student(freedom int) float64 {
	if freedom <= 4 {
		return [...]float64{math.Inf(1), 12.706, 4.303, 3.182, 2.776}[freedom]
	}
	const z = 1.959964
	v := float64(freedom)
	return z + (z*z*z+z)/4/v + (5*math.Pow(z, 5)+16*z*z*z+3*z)/96/v/v
}

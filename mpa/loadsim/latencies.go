package loadsim

import "math"

// Latencies is a histogram with 32 buckets per doubling, so a percentile is right within
// 2.2 %.
type Latencies struct {
	counts [buckets]int64
	total  int64
	sum    float64 // seconds
}

const (
	perOctave = 32
	lowest    = -20 // 2^lowest seconds, about a microsecond
	buckets   = 40 * perOctave
)

// Add counts one latency.
func (l *Latencies) Add(seconds float64) {
	l.total++
	l.sum += seconds
	// The exponent and the first bits of the mantissa, as stored in the float.
	i := int(math.Float64bits(seconds)>>(52-5)) - (1023+lowest)*perOctave
	l.counts[min(buckets-1, max(0, i))]++
}

// Percentile returns the middle of the bucket of percentile p, 0 … 100; NaN without samples.
func (l *Latencies) Percentile(p float64) float64 { return l.WithLost(p, 0) }

// WithLost is Percentile over the samples and some requests that were never answered, each of which
// takes for ever: +Inf where the percentile is one of them.
func (l *Latencies) WithLost(p float64, lost int64) float64 {
	if l.total+lost == 0 {
		return math.NaN()
	}
	rank := int64(math.Ceil(p / 100 * float64(l.total+lost)))
	if rank > l.total {
		return math.Inf(1)
	}
	sum := int64(0)
	for i, n := range l.counts {
		if sum += n; n > 0 && sum >= rank {
			return (start(i) + start(i+1)) / 2
		}
	}
	return start(buckets)
}

func start(i int) float64 {
	return math.Ldexp(1+float64(i%perOctave)/perOctave, lowest+i/perOctave)
}

// Mean returns the mean in seconds; NaN without samples.
func (l *Latencies) Mean() float64 { return l.sum / float64(l.total) }

// Merge adds another histogram.
func (l *Latencies) Merge(o *Latencies) {
	for i, n := range o.counts {
		l.counts[i] += n
	}
	l.total += o.total
	l.sum += o.sum
}

// Count returns the number of samples.
func (l *Latencies) Count() int64 { return l.total }

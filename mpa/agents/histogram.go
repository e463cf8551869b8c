package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// histogram is a distribution that forgets: the weight of a sample halves with each
// half-life. Its buckets grow by a constant factor. It agrees with that of the Vertical
// Pod Autoscaler (VPA 1.8, pkg/recommender/util).
type histogram struct {
	growth, first float64 // factor between buckets; size of the first
	starts        []float64
	weights       []float64
	total         float64
	lo, hi        int // first and last bucket that counts; lo is the last one if no bucket counts
	halfLife      time.Duration
	// reference is the time whose samples have their plain weight; a multiple of
	// halfLife.
	reference time.Time
}

const (
	// leastWeight is the smallest weight with which a bucket counts.
	leastWeight = 1e-4
	// mostHalvings is the largest exponent of a weight before all are scaled down.
	mostHalvings = 100
)

// newHistogram covers 0 … most with a first bucket of a given size.
func newHistogram(first, most, growth float64, halfLife time.Duration) *histogram {
	n := int(math.Ceil(math.Log(most*(growth-1)/first+1)/math.Log(growth))) + 1
	h := &histogram{
		growth: growth, first: first, halfLife: halfLife,
		starts: make([]float64, n), weights: make([]float64, n), lo: n - 1,
	}
	for i := 1; i < n; i++ {
		h.starts[i] = first * (math.Pow(growth, float64(i)) - 1) / (growth - 1)
	}
	return h
}

func (h *histogram) bucket(value float64) int {
	if value < h.first {
		return 0
	}
	i := int(math.Log(value*(h.growth-1)/h.first+1) / math.Log(h.growth))
	return min(i, len(h.weights)-1)
}

// add adds a sample.
func (h *histogram) add(value, weight float64, t time.Time) {
	i, w := h.bucket(value), weight*h.factor(t)
	h.weights[i] += w
	h.total += w
	if h.weights[i] >= leastWeight {
		h.lo, h.hi = min(h.lo, i), max(h.hi, i)
	}
}

// remove removes a sample that was added with the same arguments.
func (h *histogram) remove(value, weight float64, t time.Time) {
	i, w := h.bucket(value), weight*h.factor(t)
	h.weights[i] = atLeast(h.weights[i] - w)
	h.total = atLeast(h.total - w)
	h.shrink()
}

func atLeast(w float64) float64 {
	if w < leastWeight {
		return 0
	}
	return w
}

// shrink moves lo and hi past buckets that no longer count.
func (h *histogram) shrink() {
	for h.lo < len(h.weights)-1 && h.weights[h.lo] < leastWeight {
		h.lo++
	}
	for h.hi > 0 && h.weights[h.hi] < leastWeight {
		h.hi--
	}
}

// factor returns the weight of a sample of time t relative to one of the reference time.
func (h *histogram) factor(t time.Time) float64 {
	if t.After(h.reference.Add(mostHalvings * h.halfLife)) {
		next := t.Round(h.halfLife)
		scale := math.Exp2(-math.Round(float64(next.Sub(h.reference)) / float64(h.halfLife)))
		for i := h.lo; i <= h.hi; i++ {
			h.weights[i] *= scale
		}
		h.total *= scale
		h.reference = next
		h.shrink()
	}
	return math.Exp2(float64(t.Sub(h.reference)) / float64(h.halfLife))
}

func (h *histogram) empty() bool { return h.weights[h.lo] < leastWeight }

// percentile returns the end of the bucket in which the share p of all weight is reached;
// 0 for an empty histogram.
func (h *histogram) percentile(p float64) float64 {
	if h.empty() {
		return 0
	}
	i, sum := h.lo, 0.0
	for ; i < h.hi; i++ {
		if sum += h.weights[i]; sum >= p*h.total {
			break
		}
	}
	return h.starts[min(i+1, len(h.starts)-1)]
}

type histogramJSON struct {
	Reference time.Time       `json:"reference,omitzero"`
	Total     float64         `json:"total"`
	Lo        int             `json:"lo"`
	Hi        int             `json:"hi"`
	Weights   map[int]float64 `json:"weights,omitempty"` // by bucket; others are 0
}

// MarshalJSON implements [json.Marshaler].
func (h *histogram) MarshalJSON() ([]byte, error) {
	j := histogramJSON{h.reference, h.total, h.lo, h.hi, map[int]float64{}}
	for i, w := range h.weights {
		if w != 0 {
			j.Weights[i] = w
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements [json.Unmarshaler], in a histogram of the same buckets.
func (h *histogram) UnmarshalJSON(data []byte) error {
	var j histogramJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	n := len(h.weights)
	for i, w := range j.Weights {
		if i < 0 || i >= n || w < 0 {
			return fmt.Errorf("histogram: bucket %d of %d has weight %v", i, n, w)
		}
	}
	if j.Lo < 0 || j.Lo >= n || j.Hi < 0 || j.Hi >= n || j.Total < 0 {
		return fmt.Errorf("histogram: buckets %d … %d of %d, weight %v", j.Lo, j.Hi, n, j.Total)
	}
	clear(h.weights)
	for i, w := range j.Weights {
		h.weights[i] = w
	}
	h.reference, h.total, h.lo, h.hi = j.Reference, j.Total, j.Lo, j.Hi
	return nil
}

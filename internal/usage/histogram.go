package usage

import (
	"math"
	"slices"
)

const (
	// growth is the ratio of the edges of a bucket, so a quantile is at most 1 % above the
	// sample that it represents, and never below it.
	growth = 1.01
	// least is the upper edge of the lowest bucket, in cores.
	least = 1e-3
	// buckets cover up to about 10⁵ cores; larger samples count in the last one.
	buckets = 1860
)

var (
	logGrowth = math.Log(growth)
	edges     = func() (list [buckets]float64) {
		for b := range list {
			list[b] = least * math.Exp(float64(b)*logGrowth)
		}
		return list
	}()
)

// edge is the upper edge of a bucket.
func edge(bucket uint16) float64 { return edges[bucket] }

// bucketOf is the bucket whose upper edge is the least that is not below v.
func bucketOf(v float64) uint16 {
	if v <= least {
		return 0
	}
	b := uint16(min(buckets-1, math.Ceil(math.Log(v/least)/logGrowth)))
	switch { // rounding of the logarithm at an edge
	case b < buckets-1 && edge(b) < v:
		b++
	case edge(b-1) >= v:
		b--
	}
	return b
}

// A histogram has weights by bucket, without the buckets that no sample was in.
type histogram struct {
	bucket []uint16 // ascending
	weight []float64
}

func (h *histogram) add(bucket uint16, weight float64) {
	i, found := slices.BinarySearch(h.bucket, bucket)
	if found {
		h.weight[i] += weight
		return
	}
	h.bucket, h.weight = slices.Insert(h.bucket, i, bucket), slices.Insert(h.weight, i, weight)
}

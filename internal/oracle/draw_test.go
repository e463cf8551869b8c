package oracle

import (
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A drawer draws the parts of a cluster from one stream.
type drawer struct {
	*rand.Rand
	*cluster
	features features
}

// features are what the pods of a cluster may have. Most clusters have few of them, so that a difference has few causes.
type features struct {
	windows, unready, driven, odd, cordons bool
}

func newDrawer(seed, number uint64) *drawer {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, number)), cluster: &cluster{}}
	d.features = features{windows: d.chance(.2), unready: d.chance(.4), driven: d.chance(.15), odd: d.chance(.3), cordons: d.chance(.3)}
	return d
}

func (d *drawer) chance(p float64) bool { return d.Float64() < p }

// between draws a number from least to most.
func (d *drawer) between(least, most int) int { return least + d.IntN(most-least+1) }

func one[T any](d *drawer, of ...T) T { return of[d.IntN(len(of))] }

// A weighted value is drawn in proportion to its weight.
type weighted[T any] struct {
	weight float64
	value  T
}

func weigh[T any](d *drawer, of ...weighted[T]) T {
	sum := 0.
	for _, w := range of {
		sum += w.weight
	}
	at := d.Float64() * sum
	for _, w := range of {
		if at -= w.weight; at < 0 {
			return w.value
		}
	}
	return of[len(of)-1].value
}

// labelSelector draws one of pods whose own labels are given, or of namespaces.
func (d *drawer) labelSelector(own map[string]string, key string, others ...string) *metav1.LabelSelector {
	op := func(o metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: o, Values: values}}}
	}
	value := one(d, others...)
	return weigh(d,
		weighted[*metav1.LabelSelector]{.5, &metav1.LabelSelector{MatchLabels: map[string]string{key: own[key]}}},
		weighted[*metav1.LabelSelector]{.15, &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}},
		weighted[*metav1.LabelSelector]{.12, op(metav1.LabelSelectorOpIn, own[key], value)},
		weighted[*metav1.LabelSelector]{.06, op(metav1.LabelSelectorOpNotIn, value)},
		weighted[*metav1.LabelSelector]{.06, op(metav1.LabelSelectorOpExists)},
		weighted[*metav1.LabelSelector]{.03, op(metav1.LabelSelectorOpDoesNotExist)},
		weighted[*metav1.LabelSelector]{.05, &metav1.LabelSelector{}}, // all
		weighted[*metav1.LabelSelector]{.03, nil},                     // none
	)
}

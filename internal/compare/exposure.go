package compare

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro/report"
)

// The relation of a policy's training data to the traces that it is measured on.
const (
	HeldOut      = "held out"
	SameInstance = "same instance, other orders"
	TrainedOn    = "trained on"
	LaterDays    = "later days"
)

// exposures are in the order in which one of a file outweighs that of another.
var exposures = []string{HeldOut, "", LaterDays, SameInstance, TrainedOn}

// Exposure compares a policy's provenance with a trace that is replayed in
// orders 1…orders of seed (0 = only the file's order) and whose figures count from a time
// in seconds. It is empty for a built-in and for a file without the traces of its training.
func Exposure(object *policy.Object, digest report.Digest, from float64, seed uint64, orders int) string {
	if object == nil {
		return ""
	}
	if object.Spec.Model == policy.ShippedModel { // the worst of any of its files
		worst := HeldOut
		for _, f := range policy.ShippedFiles() {
			if e := Exposure(f.Object, digest, from, seed, orders); slices.Index(exposures, e) > slices.Index(exposures, worst) {
				worst = e
			}
		}
		return worst
	}
	provenance := object.Spec.Provenance
	traces, ok := provenance["traces"].([]any)
	if !ok {
		return ""
	}
	exposure := HeldOut
	for _, entry := range traces {
		t, ok := entry.(map[string]any)
		if !ok {
			return ""
		}
		until, cut := number(t["until"])
		switch {
		case cut && until <= from && (t["trace"] == digest.Trace || t["instance"] == digest.Instance):
			exposure = LaterDays // shuffled orders would mix the days
			if orders > 0 {
				exposure = SameInstance
			}
		case cut && t["trace"] == digest.Trace:
			return TrainedOn
		case t["trace"] == digest.Trace && overlap(provenance, seed, orders):
			return TrainedOn
		case t["trace"] == digest.Trace, t["instance"] == digest.Instance:
			exposure = SameInstance
		}
	}
	return exposure
}

// overlap reports whether training saw one of the orders that count: shuffles
// 1…N of the same seed, or the file's order on both sides.
func overlap(provenance map[string]any, seed uint64, orders int) bool {
	trained, ok := provenance["orders"].(int)
	if !ok {
		return true // unknown: assume the worst
	}
	if trained == 0 || orders == 0 {
		return trained == orders
	}
	switch s := provenance["seed"].(type) {
	case int:
		return s >= 0 && uint64(s) == seed
	case uint64:
		return s == seed
	default:
		return true
	}
}

// number is a number as YAML reads it.
func number(v any) (f float64, ok bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

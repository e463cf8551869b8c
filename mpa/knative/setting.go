package knative

import (
	"fmt"
	"io"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// MaxLimit is the largest containerConcurrency that Knative takes.
const MaxLimit = 1000

// leastTarget is the smallest target that Knative takes, mostTarget more than any pod answers.
const (
	leastTarget = .01
	mostTarget  = 1e9
)

// The annotations of a template that are written.
const (
	class       = "autoscaling.knative.dev/class"
	metric      = "autoscaling.knative.dev/metric"
	target      = "autoscaling.knative.dev/target"
	utilisation = "autoscaling.knative.dev/target-utilization-percentage"

	kpa = "kpa.autoscaling.knative.dev"
	// used is the share of the target, in percent, at which Knative scales, also by default.
	// It sees a rate late, as a mean of 60 s or 6 s, and a pod takes time to start: with
	// capacity.Headroom alone p95 is a tenth and more later while a rate doubles in 16 s
	// (docs/results/knative-loop.md).
	used = "70"
)

// annotations in the order in which they are printed.
var annotations = []string{class, metric, target, utilisation}

// A Setting is the hard limit of requests at once in a pod of a Service, and the requests a
// second that a pod answers within the promise.
type Setting struct {
	Limit int64   `json:"limit"`
	Rate  float64 `json:"rate"`
}

// SettingOf a limit and a rate as [capacity.ForSLO] returns them: the headroom is Knative's here.
func SettingOf(limit int, rate float64) Setting {
	return Setting{int64(limit), rate / capacity.Headroom}
}

// Check returns an error that names the field.
func (s Setting) Check() error {
	switch {
	case s.Limit < 1 || s.Limit > MaxLimit:
		return fmt.Errorf("containerConcurrency: %d, want 1 to %d", s.Limit, MaxLimit)
	case !(s.Rate >= leastTarget && s.Rate <= mostTarget):
		return fmt.Errorf("%s: %v requests a second, want %v to %v", target, s.Rate, leastTarget, mostTarget)
	}
	return nil
}

// Target is the rate as the annotation has it.
func (s Setting) Target() string {
	return strconv.FormatFloat(math.Round(s.Rate*100)/100, 'f', -1, 64)
}

// Fields are those of a template with the setting.
func (s Setting) Fields() Fields {
	return Fields{Limit: &s.Limit, Annotations: map[string]string{class: kpa, metric: "rps", target: s.Target(), utilisation: used}}
}

// Patch prints a merge patch of a Service, with a comment before it.
func (s Setting) Patch(w io.Writer, comment string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\nspec:\n  template:\n    metadata:\n      annotations:\n", strings.ReplaceAll(comment, "\n", " "))
	f := s.Fields()
	for _, name := range annotations {
		value := f.Annotations[name]
		if _, err := strconv.ParseFloat(value, 64); err == nil {
			value = strconv.Quote(value) // YAML would read a number
		}
		fmt.Fprintf(&b, "        %s: %s\n", name, value)
	}
	fmt.Fprintf(&b, "    spec:\n      containerConcurrency: %d\n", *f.Limit)
	_, err := io.WriteString(w, b.String())
	return err
}

// Fields are those of a Service's template that are written.
type Fields struct {
	// Limit is containerConcurrency; nil = it is not set.
	Limit *int64 `json:"limit,omitempty"`
	// Annotations that are set, of those that are written.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Equal reports whether both have the same effect. A missing limit counts as 0, unlimited.
func (f Fields) Equal(other Fields) bool {
	return f.limit() == other.limit() && maps.Equal(f.Annotations, other.Annotations)
}

func (f Fields) limit() int64 {
	if f.Limit == nil {
		return 0
	}
	return *f.Limit
}

// rate is the target in requests a second; 0 = the fields scale by something else.
func (f Fields) rate() float64 {
	if f.Annotations[metric] != "rps" || f.Annotations[utilisation] != used {
		return 0
	}
	r, err := strconv.ParseFloat(f.Annotations[target], 64)
	if err != nil {
		return 0
	}
	return r
}

// back returns the fields of f with those that are ours reset to before; changes by others
// stay.
func (f Fields) back(ours, before Fields) Fields {
	out := Fields{Limit: f.Limit, Annotations: map[string]string{}}
	if f.limit() == ours.limit() {
		out.Limit = before.Limit
	}
	for _, name := range annotations {
		value, set := f.Annotations[name]
		if set && value == ours.Annotations[name] {
			value, set = before.Annotations[name]
			if _, had := before.Annotations[name]; !had {
				set = false
			}
		}
		if set {
			out.Annotations[name] = value
		}
	}
	return out
}

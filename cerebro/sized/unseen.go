package sized

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Unseen are the shares that a source has of the use that sizes and risk leave out, by their keys.
var Unseen = []struct{ Key, Of string }{
	{"unknown", "of the cpu in use was of pods whose workload is not known"},
	{"gone", "of the cpu in use was of workloads without a pod now"},
	{"beyond", "of the judged pods' time was of more pods than there are now, and does not count"},
	{"partial", "of the pods' time lacks the samples of a container, and does not count"},
}

// UnseenOf are the shares of a trace by use that are worth a word, in one line; empty for others.
func UnseenOf(t *trace.Trace) string {
	sizes, _ := t.Source["sizes"].(map[string]any)
	var parts []string
	for _, one := range Unseen {
		if share, err := strconv.ParseFloat(fmt.Sprint(sizes[one.Key]), 64); err == nil && share >= .0005 { // yaml reads 1 as an int
			parts = append(parts, fmt.Sprintf("%.1f %% %s", 100*share, one.Of))
		}
	}
	return strings.Join(parts, "; ")
}

// Reduced reports whether an app of a trace by use counts less of cpu or memory than it requests, as its source states.
func Reduced(t *trace.Trace, resource string) bool {
	sizes, _ := t.Source["sizes"].(map[string]any)
	requests, _ := sizes["requests"].(map[string]any)
	d, column := dimension(t, resource), slices.Index([]string{"cpu", "memory"}, resource)
	if d < 0 || column < 0 {
		return false
	}
	return slices.ContainsFunc(t.Instance.Apps, func(app binpack.App) bool {
		pair, _ := requests[app.Name].([]any)
		if len(pair) != 2 {
			return false
		}
		q, err := trace.ParseQuantity(fmt.Sprint(pair[column]))
		return err == nil && float64(app.Demand[d])/float64(t.Instance.Dimensions[d].One) < q.Float()*(1-1e-9)
	})
}

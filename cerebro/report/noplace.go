package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// NoPlace are the items of a trace that no policy places, in no order: they leave the comparison, of which all
// policies have the same items then.
type NoPlace struct {
	Items []AppItems `json:"items"` // by app
	Bound Bound      `json:"bound"` // of the others
}

// AppItems is a number of items of an app.
type AppItems struct {
	App   string `json:"app"`
	Items int    `json:"items"`
}

func (n *NoPlace) count() (items int) {
	if n == nil {
		return 0
	}
	for _, a := range n.Items {
		items += a.Items
	}
	return items
}

// String is empty where there are none.
func (n *NoPlace) String() string {
	if n.count() == 0 {
		return ""
	}
	const most = 5
	var names []string
	for _, a := range n.Items[:min(most, len(n.Items))] {
		name := a.App
		if a.Items > 1 {
			name += fmt.Sprintf(" ×%d", a.Items)
		}
		names = append(names, name)
	}
	if more := len(n.Items) - most; more > 0 {
		names = append(names, plural.Of(more, "more app"))
	}
	return fmt.Sprintf(", without %s that no policy places (%s)", plural.Of(n.count(), "item"), strings.Join(names, ", "))
}

// Unplaceable returns the number of items by app that all policies leave out in all orders that count; nil if one policy
// leaves out others, or there is only one. The present placement may leave out more: these wait for a policy to place them. Of items
// that also leave, only apps of which no item is ever placed compare: total is the number of items of an app.
func Unplaceable(policies []PolicyRuns, deletes bool, total []int64) map[int32]int {
	var same map[int32]int
	var present []cerebro.Run
	for _, p := range policies {
		runs := countedRuns(p.Runs)
		if p.Policy == "current" {
			present = runs
			continue
		}
		for _, run := range runs {
			left := maps.Clone(run.LeftOut)
			maps.DeleteFunc(left, func(_ int32, n int) bool { return n == 0 })
			if len(left) == 0 || same != nil && !maps.Equal(left, same) {
				return nil
			}
			same = left
		}
	}
	if len(policies) < 2 {
		return nil
	}
	for app, n := range same {
		if deletes && int64(n) != total[app] || slices.ContainsFunc(present, func(run cerebro.Run) bool { return run.LeftOut[app] < n }) {
			return nil
		}
	}
	return same
}

// countedRuns are those of the shuffled orders, or of the file's where there is no other.
func countedRuns(runs []cerebro.Run) []cerebro.Run {
	shuffled := slices.DeleteFunc(slices.Clone(runs), func(run cerebro.Run) bool { return run.Order == 0 })
	if len(shuffled) == 0 {
		return runs
	}
	return shuffled
}

package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// add adds a note once.
func (r *Result) add(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !slices.Contains(r.Notes, line) {
		r.Notes = append(r.Notes, line)
	}
}

// noteOn says what about a trace the figures do not.
func (r *Result) noteOn(t *trace.Trace) {
	const most = 5
	if apps := tooLarge(t.Instance); len(apps) > most {
		r.add("%s: no machine is large enough for an item of %s and %d more apps", t.Name, strings.Join(apps[:most], ", "), len(apps)-most)
	} else if len(apps) > 0 {
		r.add("%s: no machine is large enough for an item of %s", t.Name, strings.Join(apps, ", "))
	}
}

// note says which shipped file served, and where a policy lacks its forecast.
func (r *Result) note(found Found, t *trace.Trace) {
	if found.File != "" {
		r.add("%s is %s (%s)", found.Name, found.File, found.Object.Spec.Knowledge)
	}
	if found.Policy.Knowledge().Forecast() && !expects(t.Instance) {
		r.add("%s gives no forecast (expected in apps.csv): %s, a policy of %s, takes it that nothing is to come",
			t.Name, found.Name, found.Policy.Knowledge())
	}
}

// tooLarge lists the apps of which no machine can hold an item, not even alone.
func tooLarge(in *binpack.Instance) []string {
	var names []string
	for _, a := range in.Apps {
		holds := func(m binpack.MachineLine) bool {
			if a.Types != nil && !slices.Contains(a.Types, m.Type) {
				return false
			}
			for d, need := range a.Demand {
				if need > m.Capacity[d] {
					return false
				}
			}
			return true
		}
		if !slices.ContainsFunc(in.Machines, holds) {
			names = append(names, a.Name)
		}
	}
	return names
}

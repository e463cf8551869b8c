package convert

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// binsTrace returns a trace of static bin packing without items: one kind of bin,
// without limit. MeasureFrom is NaN, which says that it is not set.
func binsTrace(dimensions []string, capacity []int64) *trace.Trace {
	inst := &binpack.Instance{
		Types:    []string{"bin"},
		Fleet:    binpack.Open,
		Machines: []binpack.MachineLine{{Name: "bin", Count: binpack.Unlimited, Cost: 1, Capacity: capacity}},
	}
	for _, name := range dimensions {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: name, One: 1})
	}
	return &trace.Trace{Instance: inst, MeasureFrom: math.NaN()}
}

// addApp adds an app that is a group by itself, without limit. Expected and Lifetime are
// -1, which says that the data have no forecast; 0 would be one.
func addApp(inst *binpack.Instance, name string, demand []int64) {
	inst.Apps = append(inst.Apps, binpack.App{
		Name: name, Group: int32(len(inst.Groups)), Demand: demand, Expected: -1, Lifetime: -1,
	})
	inst.Groups = append(inst.Groups, binpack.Group{Name: name})
}

// arrive adds a request, named by its number, and its event.
func arrive(t *trace.Trace, at float64, app, count int32) {
	i := int32(len(t.Requests))
	t.Requests = append(t.Requests, trace.Request{Name: fmt.Sprintf("r%05d", i), App: app, Count: count})
	t.Events = append(t.Events, trace.Event{Time: at, Kind: trace.Create, Request: i, Count: count})
}

// sortByName brings instances into the order of their names, which must differ.
func sortByName[T any](all []T, name func(T) string) error {
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	for i := 1; i < len(all); i++ {
		if name(all[i]) == name(all[i-1]) {
			return fmt.Errorf("two instances are called %s", name(all[i]))
		}
	}
	return nil
}

var notInSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slug makes a name that fits a folder: "Weibull 5k" → weibull-5k.
func slug(s string) string {
	return strings.Trim(notInSlug.ReplaceAllString(strings.ToLower(s), "-"), "-")
}

// readCounts reads whole numbers from 0.
func readCounts(columns, fields []string, out []int64) error {
	for i, text := range fields {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > binpack.MaxValue {
			return fmt.Errorf("%s %q: not a count", columns[i], text)
		}
		out[i] = n
	}
	return nil
}

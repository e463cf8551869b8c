package snapshot

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/usage"
)

// Text describes the report: the workloads above their request first.
func (r *UseReport) Text() []string {
	var above, fixed []string
	byRequest := map[string][]string{}
	covered, with, least := 0., 0, math.Inf(1)
	thinnest := ""
	counted := 0
	for i := range r.Workloads {
		w := &r.Workloads[i]
		if !w.Fixed {
			counted++
		}
		switch {
		case w.Fixed && (w.Size.Above() || w.Size.CPUReason == usage.NoRequest || w.Size.MemoryReason == usage.NoRequest):
			fixed = append(fixed, w.App)
		case w.Size.Above():
			above = append(above, fmt.Sprintf("%s, request cpu %.3g, memory %.4g Mi: %s", w.App, w.Request.CPU, w.Request.Memory/(1<<20), &w.Size))
		case w.Fixed:
		case w.Size.ByRequest() != "":
			byRequest[w.Size.ByRequest()] = append(byRequest[w.Size.ByRequest()], w.App)
		}
		if w.Size.Days > 0 && !w.Fixed {
			covered, with = covered+w.Size.Coverage, with+1
			if w.Size.Coverage < least {
				least, thinnest = w.Size.Coverage, w.App
			}
		}
	}
	var text []string
	if len(above) > 0 {
		text = append(text, fmt.Sprintf("%d of %d apps use more than they request:\n  %s", len(above), counted, strings.Join(above, "\n  ")))
	}
	if len(fixed) > 0 {
		text = append(text, "pods of every node use more than they request, and nodes have less room than they count: "+listed(fixed))
	}
	for i := range r.Cut {
		text = append(text, "only a part of the use counts for "+r.Cut[i].String())
	}
	line := fmt.Sprintf("use of %d days from %s to %s, judged on %d more to %s", r.Fitted, r.First.Format(time.DateOnly), r.From.AddDate(0, 0, -1).Format(time.DateOnly), r.Judged, r.Until.AddDate(0, 0, -1).Format(time.DateOnly))
	if with > 0 {
		line += fmt.Sprintf("; samples cover %.1f %% of the time, least of %s: %.1f %%", 100*covered/float64(with), thinnest, 100*least)
	}
	text = append(text, line)
	text = append(text, fmt.Sprintf("samples cover %.1f %% of the pods' time in the judged days", 100*r.Covered))
	for _, one := range sized.Unseen {
		if share := r.unseen()[one.Key]; share >= .0005 {
			text = append(text, fmt.Sprintf("%.1f %% %s", 100*share, one.Of))
		}
	}
	if d := r.Dropped; d.Count > 0 {
		text = append(text, fmt.Sprintf("%s left out, since no pod can use that (negative, not finite, or more than any node has), the first of %s/%s", plural.Of(d.Count, "sample"), d.First.Namespace, d.First.Name))
	}
	by := 0
	for _, list := range byRequest {
		by += len(list)
	}
	text = append(text, fmt.Sprintf("%d of %d apps count by request", by, counted))
	for _, reason := range slices.Sorted(maps.Keys(byRequest)) {
		text = append(text, fmt.Sprintf("  %s: %s", shortReason.Replace(reason), listed(byRequest[reason])))
	}
	return text
}

// shortReason is for reasons in a list of those by request.
var shortReason = strings.NewReplacer("cpu by request: ", "cpu: ", "memory by request: ", "memory: ", "request: ", "")

package simcheck

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/lab/records"
)

// Highlight is the summary's table: how far the simulator's p95 is from the server's, and
// its means from theory.
func Highlight() records.Highlight {
	return records.Highlight{Name: "validation", Page: Page, Maker: Command, Table: deviations}
}

func deviations(tables []records.Table) (records.Table, error) {
	out := records.Table{Heads: []string{"simulated beside", "figure", "by load"}, Right: []int{2}}
	servers := 0
	for _, t := range tables {
		switch {
		case slices.Contains(t.Heads, "deviation"):
			most := 0.0
			for _, row := range t.Rows {
				v, err := strconv.ParseFloat(strings.TrimSuffix(row[len(row)-1], " %"), 64)
				if err != nil {
					return out, fmt.Errorf("row %q: %w", row[0], err)
				}
				most = max(most, math.Abs(v))
			}
			out.Rows = append(out.Rows, []string{fmt.Sprintf("theory, %d queues", len(t.Rows)), "largest deviation of a mean", fmt.Sprintf("%.2f %%", most)})
		case slices.Contains(t.Heads, "p95 ms") && servers < len(Apps()):
			var each []string
			for _, row := range t.Rows {
				if row[1] == "ratio" {
					each = append(each, row[0]+": "+row[slices.Index(t.Heads, "p95 ms")])
				}
			}
			out.Rows = append(out.Rows, []string{"a real server, " + Apps()[servers], "p95 ÷ measured p95", strings.Join(each, ", ")})
			servers++
		}
	}
	if len(out.Rows) == 0 {
		return out, fmt.Errorf("neither a table of theory nor one of a server")
	}
	return out, nil
}

package autoscaler

import "github.com/sigma-scheduler/sigma/lab/records"

// Highlights are the summary's rows: what agents are judged by, with the agents that are
// most compared with.
func Highlights() []records.Highlight {
	heads := []string{"agent", "cost", "violating %", "p99 ms", "SLO kept, of 60", "gap closed, %"}
	agents := []string{"static", "hpa", pair, "predictive", "learned", "foresight", limit}
	return []records.Highlight{
		{Name: "test", Page: Page("test"), Maker: Command("NAME"), Table: records.Columns(heads, agents)},
		{Name: "train", Page: Page("train"), Maker: Command("NAME")},
	}
}

package usage

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/lab/records"
)

// Highlights are the rows of the summary.
func Highlights() []records.Highlight {
	months, once := work("*", 104), fmt.Sprintf("%s, static, %d orders", work("*", 104), judgedOrders)
	return []records.Highlight{{Name: "usage", Page: pageFile, Maker: maker, Lines: []records.Pick{
		{Work: once, Figure: nodesFigure, As: "500 VMs, nodes of 40 cores: nodes, % of those by request"},
		{Work: once, Figure: overFigure, As: "the same: cpu over, % of node-time", Brief: true},
		{Work: months + nightlyRow, Figure: overFigure, As: "the same, nightly", Brief: true},
		{Work: work("*", 42) + nightlyRow, Figure: overFigure, As: "nodes of 16 cores, nightly: cpu over, % of node-time", Brief: true},
		{Work: generatedWork("1"), Figure: idealFigure, As: "generated clusters, nightly: nodes ÷ those of hindsight", Brief: true},
		{Work: generatedWork("hot"), Figure: overFigure, As: "the same with hot workloads: cpu over, % of node-time", Brief: true},
	}}, {Name: "batch", Page: batchFile, Maker: batchMaker, Lines: []records.Pick{
		{Work: work("*", 104) + ", placed by request", Figure: offeredFigure, As: "batch work on what 500 VMs leave, nodes of 40 cores: cpu offered ÷ that of Koordinator"},
		{Work: work("*", 104) + ", placed by request", Figure: evictedFigure, As: "the same: tasks evicted of 1,000", Brief: true},
		{Work: work("*", 42) + ", placed by request", Figure: offeredFigure, As: "nodes of 16 cores: cpu offered ÷ that of Koordinator", Brief: true},
		{Work: work("*", 42) + ", placed by request", Figure: evictedFigure, As: "the same: tasks evicted of 1,000", Brief: true},
	}}}
}

const (
	nodesFigure   = "nodes, % of those by request"
	overFigure    = "cpu over, % of node-time"
	offeredFigure = "offered ÷ Koordinator's default"
	evictedFigure = "tasks evicted of 1,000"
	starvedFigure = "starved, % of the tasks' time"
	idealFigure   = "nodes ÷ those of the judged days' own p99"
)

var nightlyRow = fmt.Sprintf(", nightly, %d orders", rollingOrders)

// work is the name of a public set's rows.
func work(months string, ghz int) string { return fmt.Sprintf("GWA-T-12, %s, %d GHz", months, ghz) }

func (r *record) work(ghz int) string { return work(r.names(), ghz) }

// names are the months fitted and judged.
func (r *record) names() string { return fmt.Sprintf("%s → %s", r.fitted.Month(), r.judged.Month()) }

func generatedWork(kind string) string {
	return fmt.Sprintf("kubernetes, usage=%s, nightly, %d clusters × %d + %d days", kind, clusters, fitDays, spare)
}

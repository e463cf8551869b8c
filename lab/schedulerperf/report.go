package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// results are of one size of cluster, by profile and round.
type results struct {
	nodes    int
	rounds   int
	profiles []profile
	measured map[string][]measurement
	perf     map[string]perfResult
}

// again names the second run of the first profile in each round: its difference from
// the first is noise.
const again = "again"

// ratio compares two profiles' pods per CPU-second round by round.
type ratio struct {
	title      string
	over, base string
	atLeast    float64 // 0: nothing is asked for
}

var ratios = []ratio{
	{"default + Sigma ÷ default, all nodes", "default-sigma", "default-all", .97},
	{"Sigma only ÷ MostAllocated only", "sigma", "mostallocated", 1},
	{"Sigma only ÷ default as shipped", "sigma", "default", 0},
	{"default, all nodes ÷ itself (noise)", again, "default-all", 0},
}

// mostMilliseconds is the target for PreScore + Score at 1,000 nodes, p50.
const mostMilliseconds = .5

func (r *results) print(w io.Writer, pods int) {
	fmt.Fprintf(w, "\n### %d nodes\n\n", r.nodes)
	fmt.Fprintf(w, "%d pods, one running pod on each node; the median of %d rounds (least … most).\n\n",
		pods, r.rounds)
	fmt.Fprintln(w, "| profile | pods/CPU-s | pods/s | µs a pod | nodes scored per pod | nodes the pods went to |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|---:|")
	for _, p := range r.profiles {
		all := r.measured[p.name]
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", p.title,
			spread("%.0f", each(all, func(m measurement) float64 { return m.podsPerCPUSecond })),
			spread("%.0f", each(all, func(m measurement) float64 { return m.podsPerSecond })),
			center("%.0f", each(all, func(m measurement) float64 { return m.micros })),
			center("%.0f", each(all, func(m measurement) float64 { return m.scored })),
			center("%.0f", each(all, func(m measurement) float64 { return float64(m.nodes) })))
	}

	fmt.Fprintln(w, "\n| | median (least … most) | asked for | met |")
	fmt.Fprintln(w, "|---|---:|---:|---|")
	for _, q := range ratios {
		values := r.ratio(q)
		if len(values) == 0 {
			continue
		}
		asked, met := "", ""
		if q.atLeast > 0 {
			asked, met = fmt.Sprintf("≥ %.2f", q.atLeast), yes(median(values) >= q.atLeast)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", q.title, spread("%.3f", values), asked, met)
	}
	if len(r.measured["sigma"]) == 0 {
		return
	}
	scoring := each(r.measured["sigma"], func(m measurement) float64 {
		return m.latency["PreScore"].p50 + m.latency["Score"].p50
	})
	asked, met := "", ""
	if r.nodes == 1000 {
		asked, met = fmt.Sprintf("≤ %.1f", mostMilliseconds), yes(median(scoring) <= mostMilliseconds)
	}
	fmt.Fprintf(w, "| Sigma only: PreScore p50 + Score p50, ms | %s | %s | %s |\n", spread("%.2f", scoring), asked, met)

	fmt.Fprintln(w, "\nMilliseconds by the clock of all plugins at an extension point, p50 / p99, in the same runs:")
	latencyHead(w, "")
	for _, p := range r.profiles {
		fmt.Fprintf(w, "| %s |", p.title)
		for _, point := range extensionPoints {
			fmt.Fprintf(w, " %s / %s |",
				center("%.2f", each(r.measured[p.name], func(m measurement) float64 { return m.latency[point].p50 })),
				center("%.1f", each(r.measured[p.name], func(m measurement) float64 { return m.latency[point].p99 })))
		}
		fmt.Fprintln(w)
	}
	if len(r.perf) == 0 {
		return
	}
	fmt.Fprintln(w, "\nThe same from upstream's scheduler_perf, one run each, without the running pods:")
	latencyHead(w, " pods/s | attempt |")
	for _, p := range r.profiles {
		perf := r.perf[p.name]
		fmt.Fprintf(w, "| %s | %.0f | %.0f / %.0f |", p.title, perf.podsPerSecond, perf.attempt.p50, perf.attempt.p99)
		for _, point := range extensionPoints {
			fmt.Fprintf(w, " %.2f / %.1f |", perf.latency[point].p50, perf.latency[point].p99)
		}
		fmt.Fprintln(w)
	}
}

func latencyHead(w io.Writer, columns string) {
	fmt.Fprintf(w, "\n| profile |%s %s |\n|---|%s\n", columns, strings.Join(extensionPoints, " | "),
		strings.Repeat("---:|", strings.Count(columns, "|")+len(extensionPoints)))
}

func (r *results) ratio(q ratio) []float64 {
	over, base := r.measured[q.over], r.measured[q.base]
	values := make([]float64, min(len(over), len(base)))
	for i := range values {
		values[i] = over[i].podsPerCPUSecond / base[i].podsPerCPUSecond
	}
	return values
}

func each(all []measurement, of func(measurement) float64) []float64 {
	values := make([]float64, len(all))
	for i, m := range all {
		values[i] = of(m)
	}
	return values
}

func center(format string, values []float64) string { return fmt.Sprintf(format, median(values)) }

// spread is the median in bold, and the least and the most.
func spread(format string, values []float64) string {
	return fmt.Sprintf("**"+format+"** ("+format+" … "+format+")", median(values), slices.Min(values), slices.Max(values))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func yes(met bool) string {
	if met {
		return "yes"
	}
	return "no"
}

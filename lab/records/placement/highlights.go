package placement

import "github.com/sigma-scheduler/sigma/lab/records"

// highlight is the part of the summary that a section fills.
func (s *Section) highlight(lines ...records.Pick) records.Highlight {
	return records.Highlight{Name: s.Name, Page: s.Page(), Maker: maker + "NAME", Lines: lines}
}

// Capabilities are the summary's parts about placement.
func Capabilities() []records.Capability {
	const gap, fewer, churned = "gap to the bound, %", "fewer machines than bestfit, %", "cost-seconds against movetofront, %"
	return []records.Capability{
		{
			Title: "In a cluster",
			About: "What [manifests/policy.yaml](../manifests/policy.yaml) does, as it is. On *large* and on loose fixed fleets requests ask for\n" +
				"several items, and [the rows for batches](policies.md#shipped) decide, which a live scheduler never comes to.",
			Parts: []records.Highlight{cluster.highlight(clusterPicks()...)},
		},
		{
			Title: "Placing what arrives one by one",
			About: "Learned policies on generated clusters: requests that are whole apps (small), about 5,000 containers (large), two dimensions, departures.",
			Parts: []records.Highlight{
				small.highlight(
					records.Pick{Work: "small, K1, roll-outs", Figure: "mean machines", As: "small, K1: machines", Limit: "15, the optimum", Offline: true},
				),
				large.highlight(
					records.Pick{Work: "large, K1+clock, 12 × 30", Figure: gap, As: "large, K1+clock: gap, %", Limit: "0, the bound", Offline: true},
					records.Pick{Work: "large, K0, 12 × 10, large-k0", Figure: gap, As: "large, K0: gap, %", Limit: "0, the bound"},
					records.Pick{Work: "large, K1+clock, every app's forecast × lognormal(.7), 12 × 10", Figure: gap, As: "large, K1+clock, forecasts × lognormal(.7): gap, %", Limit: "0, the bound", Offline: true},
					records.Pick{Work: "large2d, K1+clock, 12 × 10", Figure: fewer, As: "two dimensions, K1+clock: fewer machines than bestfit, %", Offline: true},
					records.Pick{Work: "churn, bursts of 40, K1, 6 × file order", Figure: churned, As: "departures, bursts of 40, K1: cost-seconds against movetofront, %"},
				),
				shipped.highlight(),
			},
		},
		{
			Title: "A few moves",
			About: "To let in what fits nowhere, or to empty machines ([how](rebalance.md)).",
			Parts: []records.Highlight{moves.highlight(movesPicks()...)},
		},
		{
			Title: "Public sets",
			About: "Sets that others have published, with their optimum, their bound or the best peer.",
			Parts: []records.Highlight{
				public.highlight(
					records.Pick{Work: "tianchi, K0", Figure: "machines", As: "Tianchi 2018: machines", Limit: "the bound"},
					records.Pick{Work: "triplets, K0+clock", Figure: "gap to the optimum, %", As: "triplets, K0+clock: gap, %", Limit: "0, the optimum", Offline: true},
					records.Pick{Work: "azure, rows from 1,950,000 s on, K0", Figure: "gap between the best peer and the bound that is closed, %", As: "Azure V1: gap from the best peer to the bound that is closed, %", Limit: "100"},
				),
				sharing.highlight(
					records.Pick{Work: "default, learned", Figure: "GPUs allocated, %", As: "openb, GPU sharing, default list: GPUs allocated, %"},
				),
				onedim.highlight(
					records.Pick{Work: "or3, 2000 fresh instances, K0, orlib-k0", Figure: "excess over L1, %", As: "or3, 2000 fresh instances, K0: excess over L1, %", Limit: "0"},
				),
			},
		},
		{
			Title: "Everything known beforehand, and lower bounds",
			About: "`sigma plan` packs the true counts at once; `sigma bound` proves what any scheduler needs.",
			Parts: []records.Highlight{
				plan.highlight(
					records.Pick{Work: "small, 40 instances", Figure: "plans proven optimal, %", As: "small: plans proven optimal, %", Limit: "100", Offline: true},
					records.Pick{Work: "large, 6 instances", Figure: "machines over the bound, the most", As: "large: machines over the bound, the most of 6 plans", Limit: "0", Offline: true},
				),
				bounds.highlight(
					records.Pick{Work: "vbp-panigrahy, 120 instances with a known optimum", Figure: "bound = optimum, %", As: "vbp-panigrahy: bound = optimum, %", Limit: "100"},
					records.Pick{Work: "vbp-panigrahy, vbp-triplet", Figure: "bounds above a published optimum or packing", As: "bounds above a published optimum or packing", Limit: "0"},
				),
			},
		},
		{
			Title: "Learning",
			About: "The swarm beside its controls at equal replays, and training on several machines.",
			Parts: []records.Highlight{
				optimizers.highlight(
					records.Pick{Work: "tasks", Figure: "of 4 on which the swarm's mean is the best", As: "of 4 tasks, those on which the swarm's mean is the best", Limit: "4"},
				),
				severalObjectives.highlight(
					records.Pick{Work: "small, K1", Figure: "machines,balance,spread: hypervolume after 400 evaluations", As: "three objectives: hypervolume of the front", Limit: "1"},
				),
				workers.highlight(
					records.Pick{Work: "large, 1 → 2 workers", Figure: "times as fast", As: "1 → 2 workers: times as fast", Limit: "2"},
					records.Pick{Work: "small, 2 workers, server elsewhere", Figure: "kills after which the training ended with the bytes of one process", As: "kills after which the training ended with the same bytes, of 10", Limit: "10"},
				),
			},
		},
	}
}

// clusterPicks are the rows of the installed policy.
func clusterPicks() []records.Pick {
	const rejected, loose, ratio, rate = "rejected cpu, %", "machines in use more than bestfit, %", "gap to the bound ÷ Worst-Fit's gap", "decisions per CPU-second"
	return []records.Pick{
		{Work: "fixed, 1.02 × bound, K1, 12 × 10", Figure: rejected, As: "fixed fleet of 1.02 × the bound, K1: rejected cpu, %", Limit: "0"},
		{Work: "fixed, 1.5 × bound, K1, 12 × 10", Figure: loose, As: "fixed fleet of 1.5 × the bound, K1: machines in use more than bestfit, %"},
		{Work: "large, open, K1, forecast × 1, 12 × 10", Figure: ratio, As: "large, elastic, K1: gap ÷ Worst-Fit's gap", Limit: "0"},
		{Work: "large, open, K1, every app's forecast × lognormal(.7), 12 × 10", Figure: ratio, As: "the same, every app's forecast × lognormal(.7)", Limit: "0"},
		{Work: "large, open, K0, no forecast, 12 × 10", Figure: ratio, As: "the same, K0", Limit: "0"},
		{Work: "kubernetes, one, K1, 40 clusters", Figure: against, As: "Kubernetes clusters, elastic, one node size: cost of day two against bestfit, %"},
		{Work: "kubernetes, one, K1, 40 clusters", Figure: behind, As: "the same: clusters in % behind the best rule in hindsight by > 1 %", Limit: "0"},
		{Work: "kubernetes, open, K1, 40 clusters", Figure: against, As: "Kubernetes clusters, elastic, several node sizes: cost of day two against bestfit, %"},
		{Work: "kubernetes, open, K1, 40 clusters", Figure: behind, As: "the same: clusters in % behind the best rule in hindsight by > 1 %", Limit: "0"},
		{Work: "kubernetes, fixed, K1, 40 clusters", Figure: never, As: "Kubernetes clusters, fixed: pods never placed, % of bestfit's", Limit: "0"},
		{Work: wideWork, Figure: rate, As: "decisions per CPU-second on 6,000 machines"},
	}
}

// movesPicks are the rows of moves.
func movesPicks() []records.Pick {
	const fixed, emptied = "fixed, 1.00 × bound, K0, 12 × 10, repair-k0-fixed.yaml, --repair budget=3%,chain=8", "after Best-Fit, large × 6"
	return []records.Pick{
		{Work: fixed, Figure: "rejected cpu, %", As: "fixed fleet of the volume bound, make room: rejected cpu, %", Limit: "0"},
		{Work: emptied, Figure: "moves to the end, %", As: "from Best-Fit to the bound: moves, %"},
		{Work: emptied, Figure: "machines freed at 1 % of moves ÷ drain's", As: "machines freed by 1 % of moves ÷ those of a plain drain"},
	}
}

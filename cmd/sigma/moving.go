package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/binpack/plan/moves"
	"github.com/sigma-scheduler/sigma/cerebro"
)

// movingFlags let a replay move items.
type movingFlags struct{ repair, rebalance string }

func (f *movingFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.repair, "repair", "", "let an item that fits on no machine in use make room by moves of others: "+
		"budget=2%,chain=8 is at most .02 moves for each item placed so far, and 8 for one item")
	flags.StringVar(&f.rebalance, "rebalance", "", "empty machines by moves from time to time: "+
		"every=15m,moves=.5% is each 15 minutes, at most .5% of the items that stand")
}

// read reads the flags; nil means that one is not given.
func (f *movingFlags) read(flags *pflag.FlagSet) (*cerebro.Repair, *cerebro.Rebalance, error) {
	var repair *cerebro.Repair
	var rebalance *cerebro.Rebalance
	if flags.Changed("repair") {
		repair = &cerebro.Repair{Budget: .02, Chain: moves.DefaultChain}
		err := settings("repair", f.repair, map[string]func(string) error{
			"budget": shareOf(&repair.Budget),
			"chain": func(text string) (err error) {
				if repair.Chain, err = strconv.Atoi(text); err != nil || repair.Chain < 1 {
					return usagef("want a number of moves from 1 on")
				}
				return nil
			},
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if flags.Changed("rebalance") {
		rebalance = &cerebro.Rebalance{Every: 15 * time.Minute.Seconds(), Moves: .005}
		err := settings("rebalance", f.rebalance, map[string]func(string) error{
			"moves": shareOf(&rebalance.Moves),
			"every": func(text string) error {
				d, err := time.ParseDuration(text)
				if err != nil || d <= 0 {
					return usagef("want a time above 0 with its unit, such as 15m or 1h30m")
				}
				rebalance.Every = d.Seconds()
				return nil
			},
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return repair, rebalance, nil
}

// settings reads name=value,name=value.
func settings(flag, text string, set map[string]func(string) error) error {
	given := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		f := set[name]
		if !ok || f == nil {
			return usagef("--%s %s: %q: want name=value with a name of %s", flag, text, part, strings.Join(slices.Sorted(maps.Keys(set)), ", "))
		}
		if given[name] {
			return usagef("--%s %s: %s is given twice", flag, text, name)
		}
		given[name] = true
		if err := f(value); err != nil {
			return usagef("--%s %s: %s %q: %w", flag, text, name, value, err)
		}
	}
	return nil
}

// shareOf reads a percentage above 0, at most 100.
func shareOf(share *float64) func(string) error {
	return func(text string) error {
		number, ok := strings.CutSuffix(text, "%")
		percent, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || !(percent > 0 && percent <= 100) {
			return usagef("want a percentage above 0%% and up to 100%%, such as 2%%")
		}
		*share = percent / 100
		return nil
	}
}

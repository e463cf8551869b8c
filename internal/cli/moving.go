package cli

import (
	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/cerebro"
)

// movingFlags let a replay move items.
type movingFlags struct{ repair, rebalance string }

func (f *movingFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.repair, "repair", "", "let an item that fits on no machine in use make room by moves of others: "+
		"budget=2%,chain=8 is at most .02 moves for each item placed so far, and 8 for one item; takes=60s,perhour=2 also say how long a move takes, and the most an hour")
	flags.StringVar(&f.rebalance, "rebalance", "", "empty machines by moves from time to time: "+
		"every=15m,moves=.5% is each 15 minutes, at most .5% of the items that stand; takes and perhour as for --repair")
}

// read reads the flags; nil means that one is not given.
func (f *movingFlags) read(flags *pflag.FlagSet) (repair *cerebro.Repair, rebalance *cerebro.Rebalance, err error) {
	if flags.Changed("repair") {
		if repair, err = cerebro.ParseRepair(f.repair); err != nil {
			return nil, nil, usagef("--repair %s: %w", f.repair, err)
		}
	}
	if flags.Changed("rebalance") {
		if rebalance, err = cerebro.ParseRebalance(f.rebalance); err != nil {
			return nil, nil, usagef("--rebalance %s: %w", f.rebalance, err)
		}
	}
	return repair, rebalance, nil
}

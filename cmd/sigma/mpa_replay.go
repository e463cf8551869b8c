package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/explain"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

func (a *app) mpaReplay() *cobra.Command {
	return &cobra.Command{
		Use:   "replay FILE…",
		Short: "Compute the decisions of journals again",
		Long: `Replay reads journals of the recommender, or of simulate --log, computes every
decision again from its observation, and compares. It fails if one differs.

Each file is replayed on its own. If the program does not know an agent, it takes the
recommendations from the journal and computes the guards.`,
		Example: `  sigma mpa replay journal/shop/web.jsonl journal/shop/web.jsonl.1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no journal is given; see sigma mpa replay --help")
			}
			return nil
		},
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			different := 0
			for _, path := range args {
				var v *journal.Verdict
				if err := until(cmd.Context(), func() (err error) {
					v, err = journal.ReplayFile(path, nil)
					return err
				}); err != nil {
					return err
				}
				explain.SizingVerdict(a.stdout, v)
				if v.First != nil {
					different++
				}
			}
			if different > 0 {
				return fmt.Errorf("%d of %s differ", different, plural(len(args), "journal"))
			}
			return nil
		}),
	}
}

// runLogged simulates an agent, and writes its journal if --log asks for one.
func (f *mpaFlags) runLogged(ctx context.Context, cfg sim.Config, agent string) (r sim.Result, err error) {
	if f.log == "" || agent == "oracle" {
		return sim.RunAgent(ctx, cfg, agent)
	}
	path := filepath.Join(f.log, fmt.Sprintf("%s-%s-%d.jsonl", cfg.App.Name, agent, cfg.Seed))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	w, err := journal.Open(path, journal.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var failed error
	note := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	setup := journal.Setup{Object: "simulated/" + cfg.App.Name, Target: cfg.App.Target, Agent: mpa.Spec{Name: agent}, Guards: cfg.Guards}
	note(w.Start(journal.Start{Setup: setup}))
	id := int64(0)
	cfg.Decided = func(o *mpa.Observation, d mpa.Decision) {
		if failed != nil {
			return
		}
		if d.Action == nil {
			note(w.Decision(o, &d, 0))
			return
		}
		id++
		note(w.Decision(o, &d, id))
		note(w.Outcome(journal.Outcome{Time: o.Time, ID: id, Decided: d.Time, Result: "Applied"}))
	}
	r, err = sim.RunAgent(ctx, cfg, agent)
	return r, errors.Join(err, failed)
}

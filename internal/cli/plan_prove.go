package cli

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/durable"
)

// findSolver reports a missing solver before the work begins.
func findSolver(name string) error {
	if name == "" {
		return nil
	}
	if err := oneOf("prove", name, compare.Solver); err != nil {
		return err
	}
	if _, err := exec.LookPath(name); err != nil {
		return usagef("--prove %s: there is no program %s on the PATH (Debian, Ubuntu: package coinor-cbc)", name, name)
	}
	return nil
}

// checkModels refuses traces that lack data for the requested integer programs.
func (f *planFlags) checkModels(traces []*trace.Trace) error {
	name := "--mps"
	if f.prove != "" {
		name = "--prove"
	}
	for _, t := range traces {
		if err := compare.CheckModel(t); err != nil && f.prove+f.mps != "" {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// prove writes the plan's integer program if there is a path, and gives it to the solver
// if there is one.
func (a *app) prove(ctx context.Context, p *compare.Plan, f planFlags) error {
	ask := f.prove != "" && !p.Proven && context.Cause(ctx) == nil
	if f.mps == "" && !ask {
		return nil
	}
	if p.Unplaced > 0 {
		fmt.Fprintln(a.stderr, "no integer program: it needs a plan that leaves nothing out")
		return nil
	}
	model := p.Model()
	if f.mps != "" {
		if err := durable.WriteFile(f.mps, model.WriteMPS); err != nil {
			return err
		}
	}
	if !ask {
		return nil
	}
	err := p.Ask(ctx, f.proveSeconds)
	if err != nil && ctx.Err() == nil { // else the plan is kept without a proof
		return fmt.Errorf("--prove %s: %w", f.prove, err)
	}
	return nil
}

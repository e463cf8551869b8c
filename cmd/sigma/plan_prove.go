package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/durable"
)

// cbc is the solver of --prove: COIN-OR's branch and cut for integer programs.
const cbc = "cbc"

// findSolver reports early that a solver is not there.
func findSolver(name string) error {
	if name == "" {
		return nil
	}
	if err := oneOf("prove", name, cbc); err != nil {
		return err
	}
	if _, err := exec.LookPath(name); err != nil {
		return usagef("--prove %s: there is no program %s on the PATH (Debian, Ubuntu: package coinor-cbc)", name, name)
	}
	return nil
}

// prove writes the plan's integer program where a path is given and has the
// solver look at it.
func (a *app) prove(ctx context.Context, p *compare.Plan, f planFlags) error {
	ask := f.prove != "" && !p.Proven && context.Cause(ctx) == nil
	if f.mps == "" && !ask {
		return nil
	}
	if p.Unplaced > 0 {
		fmt.Fprintln(a.stderr, "no integer program: it asks for a plan that leaves nothing out")
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
	switch solved, err := solve(ctx, model, f.proveSeconds); {
	case err == nil:
		p.Prove(solved, f.prove)
	case ctx.Err() == nil: // else the plan is what there is
		return fmt.Errorf("--prove %s: %w", f.prove, err)
	}
	return nil
}

// solve runs cbc in a folder of its own.
func solve(ctx context.Context, model *plan.Model, seconds float64) (plan.Solved, error) {
	dir, err := os.MkdirTemp("", "sigma-")
	if err != nil {
		return plan.Solved{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // only scratch
	program, solution := filepath.Join(dir, "plan.mps"), filepath.Join(dir, "solution.txt")
	if err := durable.WriteFile(program, model.WriteMPS); err != nil {
		return plan.Solved{}, err
	}
	cmd := exec.CommandContext(ctx, cbc, program, "sec", strconv.FormatFloat(seconds, 'f', -1, 64), "solve", "solution", solution)
	log, err := cmd.CombinedOutput()
	if err != nil {
		return plan.Solved{}, fmt.Errorf("%w\n%s", err, lastLines(log))
	}
	file, err := os.Open(solution)
	if err != nil {
		return plan.Solved{}, fmt.Errorf("no solution was written\n%s", lastLines(log))
	}
	defer func() { _ = file.Close() }() // only read
	return model.ReadSolution(file)
}

func lastLines(log []byte) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

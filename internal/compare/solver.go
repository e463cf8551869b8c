package compare

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/internal/durable"
)

// Solver is COIN-OR's branch and cut for integer programs.
const Solver = "cbc"

// Ask gives the plan's model to the solver, for some seconds at most, and uses its
// solution (see [Plan.Prove]).
func (p *Plan) Ask(ctx context.Context, seconds float64) error {
	solved, err := solve(ctx, p.Model(), seconds)
	if err == nil {
		p.Prove(solved, Solver)
	}
	return err
}

// solve runs the solver in a folder of its own.
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
	cmd := exec.CommandContext(ctx, Solver, program, "sec", strconv.FormatFloat(seconds, 'f', -1, 64), "solve", "solution", solution)
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
